"""Rows drawn from what a release says of its columns and their correlations: synthetic, and free of further cost."""
