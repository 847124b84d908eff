"""Names of the rules that choose alpha, and of weights, in a module that costs nothing to import: help is immediate."""

from enum import StrEnum


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
