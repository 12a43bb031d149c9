"""Tables in: files of every format as cells, and what the cells mean."""
