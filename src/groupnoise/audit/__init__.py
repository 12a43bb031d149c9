"""Audits: objects, labels and clicks of grouped data that look wrong, as tables and a page."""

from typing import TYPE_CHECKING

from groupnoise._lazy import lazy_names

if TYPE_CHECKING:
    from groupnoise.audit.clean import cleaned_copy as cleaned_copy
    from groupnoise.audit.issues import GroupIssues as GroupIssues
    from groupnoise.audit.page import write_audit_page as write_audit_page

__getattr__, __dir__, __all__ = lazy_names(__name__)
