"""Solvers of one connected component, and their compiled kernels."""
