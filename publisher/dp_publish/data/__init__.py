"""The private table: formats and dialects, contribution caps, missing values, and its first rows."""
