"""Reports of the demonstration, of comparisons and of reproductions."""
