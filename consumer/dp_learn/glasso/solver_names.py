"""Names of the solvers, in a module that costs nothing to import: help is to come at once."""

from __future__ import annotations

__all__ = ["AUTO", "SOLVER_NAMES"]

SOLVER_NAMES = ("cd", "admm", "newton")
AUTO = "auto"  # whichever of them suits a problem
