"""The mechanisms for a matrix of second moments: a class and a file each, found by name in the registry."""
