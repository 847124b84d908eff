"""Names of the rules that choose alpha, in a module that costs nothing to import: help is to come at once."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["Rule"]


class Rule(StrEnum):
    """The rules that choose alpha."""

    CV = "cv"
    MSE = "mse"
    EBIC = "ebic"
    STARS = "stars"
