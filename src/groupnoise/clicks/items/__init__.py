"""Items: the catalogue, tables about items, and vectors from their features."""
