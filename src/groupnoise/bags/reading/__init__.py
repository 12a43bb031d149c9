"""Bags in: from tables, arrays and folders, with their labels, truths and splits."""
