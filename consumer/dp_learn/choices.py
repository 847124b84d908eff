"""What options may say, in a module that costs nothing to import: help is to come at once."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["AUTO", "SOLVER_NAMES", "RepairMethod", "Rule"]

SOLVER_NAMES = ("cd", "admm", "newton")
AUTO = "auto"  # whichever of them suits a problem


class Rule(StrEnum):
    """The rules that choose alpha."""

    CV = "cv"
    MSE = "mse"
    EBIC = "ebic"
    STARS = "stars"


class RepairMethod(StrEnum):
    """The ways to make a covariance positive semidefinite."""

    NONE = "none"
    MAXNORM = "maxnorm"
    CLIP = "clip"
    SHRINK = "shrink"
