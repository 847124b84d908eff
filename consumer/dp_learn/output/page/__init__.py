"""The page of a result: everything that was found, and what it rests on, in one file for a browser."""
