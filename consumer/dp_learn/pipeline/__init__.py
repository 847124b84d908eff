"""The pipeline from bundles to an estimate."""
