"""Bags from raw files: pictures, texts and recordings cut into objects with built-in features."""
