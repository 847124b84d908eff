"""What the columns of a table are, found privately where nothing is declared: kinds, gaps, and levels of categories."""
