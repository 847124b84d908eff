"""Publication: a table becomes a signed bundle, paid for first; all of it, or nothing."""
