"""Evidence of whole histories: what is learned from clicks, and how fit decides on it."""
