"""The page of a plan: what every strength would show and protect, in one file for a browser."""
