"""Audits: which objects, labels and clicks of grouped data look wrong, and a page that shows it."""

from typing import TYPE_CHECKING

from groupnoise._lazy import lazy_names

if TYPE_CHECKING:
    from groupnoise.audit._clean import cleaned_copy
    from groupnoise.audit._find import find_group_issues
    from groupnoise.audit._issues import GroupIssues
    from groupnoise.audit._kinds import ISSUE_KINDS, IssueKind
    from groupnoise.audit._tables import TABLE_FORMATS
    from groupnoise.audit.report import Attachments, audit_page, write_audit_page

_HERE = "groupnoise.audit"

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Attachments": f"{_HERE}.report",
        "ISSUE_KINDS": f"{_HERE}._kinds",
        "TABLE_FORMATS": f"{_HERE}._tables",
        "GroupIssues": f"{_HERE}._issues",
        "IssueKind": f"{_HERE}._kinds",
        "audit_page": f"{_HERE}.report",
        "cleaned_copy": f"{_HERE}._clean",
        "find_group_issues": f"{_HERE}._find",
        "write_audit_page": f"{_HERE}.report",
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
