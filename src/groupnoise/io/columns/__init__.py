"""Which columns play which part, by their names and by their cells."""
