"""Pages that show results: tables, learning curves and pictures, with everything inline."""
