"""The price of one release: conversions between guarantees, and what a release costs."""
