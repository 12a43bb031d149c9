"""Labels as people and programs write them, in one cell or several columns."""
