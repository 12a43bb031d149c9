"""Self-contained pages: templates, charts and the look they share."""
