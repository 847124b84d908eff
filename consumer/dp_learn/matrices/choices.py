"""Names that options offer, in a module that costs nothing to import: help is to come at once."""

from enum import StrEnum


class RepairMethod(StrEnum):
    """The ways to make a covariance positive semidefinite."""

    NONE = "none"
    MAXNORM = "maxnorm"
    CLIP = "clip"
    SHRINK = "shrink"


SOLVER_NAMES = ("cd", "admm")
AUTO = "auto"  # whichever suits a problem


class Rule(StrEnum):
    """The rules that choose alpha; auto is EBIC in two stages where the noise is small."""

    AUTO = "auto"
    CV = "cv"
    MSE = "mse"
    EBIC = "ebic"
    STARS = "stars"


class Weights(StrEnum):
    """The weights of the penalty, by name."""

    AUTO = "auto"
    EQUAL = "equal"
    NOISE = "noise"
