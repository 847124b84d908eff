"""Names of the solvers, in a module that costs nothing to import: help is to come at once."""

SOLVER_NAMES = ("cd", "admm")
AUTO = "auto"  # whichever suits a problem
