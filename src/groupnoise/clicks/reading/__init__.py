"""Click logs in: from files of any size to histories, and what is odd about them."""
