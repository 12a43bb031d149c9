"""The page of an audit: summary, histograms, the worst cases as pictures, and filters."""

from groupnoise.audit.report._attachments import Attachments
from groupnoise.audit.report._page import audit_page, write_audit_page
from groupnoise.audit.report._read_attachments import read_item_attachments, read_row_attachments

__all__ = [
    "Attachments",
    "audit_page",
    "read_item_attachments",
    "read_row_attachments",
    "write_audit_page",
]
