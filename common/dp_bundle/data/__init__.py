"""The published numbers: noisy rows or one matrix, read from Parquet that nobody needs to trust."""
