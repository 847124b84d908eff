"""A release by many workers: their parts, where they are staged, and the table that they share."""
