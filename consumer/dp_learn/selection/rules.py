"""Names of the rules that choose alpha, in a module that costs nothing to import: help is to come at once."""

from enum import StrEnum


class Rule(StrEnum):
    """The rules that choose alpha."""

    CV = "cv"
    MSE = "mse"
    EBIC = "ebic"
    STARS = "stars"
