"""A bundle as a whole: written in one go, verified in one go, and what a reader is told of it."""
