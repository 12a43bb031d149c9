"""Audits: which objects, labels and clicks of grouped data look wrong, and a page that shows it."""

from typing import TYPE_CHECKING

from groupnoise._lazy import lazy_names

if TYPE_CHECKING:
    from groupnoise.audit.attachments import Attachments
    from groupnoise.audit.clean import cleaned_copy
    from groupnoise.audit.find import find_group_issues
    from groupnoise.audit.issues import ISSUE_KINDS, TABLE_FORMATS, GroupIssues, IssueKind
    from groupnoise.audit.page import audit_page, write_audit_page

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Attachments": "groupnoise.audit.attachments",
        "GroupIssues": "groupnoise.audit.issues",
        "ISSUE_KINDS": "groupnoise.audit.issues",
        "IssueKind": "groupnoise.audit.issues",
        "TABLE_FORMATS": "groupnoise.audit.issues",
        "audit_page": "groupnoise.audit.page",
        "cleaned_copy": "groupnoise.audit.clean",
        "find_group_issues": "groupnoise.audit.find",
        "write_audit_page": "groupnoise.audit.page",
    },
)

__all__ = [
    "ISSUE_KINDS",
    "TABLE_FORMATS",
    "Attachments",
    "GroupIssues",
    "IssueKind",
    "audit_page",
    "cleaned_copy",
    "find_group_issues",
    "write_audit_page",
]
