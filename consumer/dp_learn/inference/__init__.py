"""Tests and intervals for edges, from a fit of their own."""
