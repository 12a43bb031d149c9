"""Audits: which objects, labels and clicks of grouped data look wrong, and a page that shows it."""

from typing import TYPE_CHECKING

from groupnoise._lazy import lazy_names

if TYPE_CHECKING:
    from groupnoise.audit.clean import cleaned_copy
    from groupnoise.audit.find import find_group_issues
    from groupnoise.audit.issues import GroupIssues
    from groupnoise.audit.page import write_audit_page

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "groupnoise.audit.clean": "cleaned_copy",
        "groupnoise.audit.find": "find_group_issues",
        "groupnoise.audit.issues": "GroupIssues",
        "groupnoise.audit.page": "write_audit_page",
    },
)

__all__ = [
    "GroupIssues",
    "cleaned_copy",
    "find_group_issues",
    "write_audit_page",
]
