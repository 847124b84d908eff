"""Names of the solvers, in a module that costs nothing to import: help is to come at once."""

SOLVER_NAMES = ("cd", "admm", "newton")
AUTO = "auto"  # whichever of them suits a problem
