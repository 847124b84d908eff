"""Symmetric matrices: LAPACK, checks, the nearest semidefinite matrix, and repairs."""
