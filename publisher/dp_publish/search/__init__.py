"""What is found privately in a column, by the exponential mechanism: its center and its scale."""
