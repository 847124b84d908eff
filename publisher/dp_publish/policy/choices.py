"""The values that options and policies may take, in a module that costs nothing to import: help comes at once."""

from __future__ import annotations

from typing import Literal, TypeAlias

__all__ = ["DEFAULT_SPREAD", "STRENGTHS", "Mechanism", "ReleaseKind"]

STRENGTHS = ("mu", "epsilon", "rho", "sigma", "snr_db")
DEFAULT_SPREAD = 0.14  # a column's assumed standard deviation over the width of its bounds: see `forecast.assumptions`

ReleaseKind: TypeAlias = Literal["rows", "covariance"]
Mechanism: TypeAlias = Literal[
    "auto",
    "gaussian",
    "laplace",
    "wishart",
    "eigenvectors",
    "sulq",
    "kapralov-talwar",
    "wishart-pure",  # this and the next have no guarantee, and are named to be refused for what they are
    "output-perturbation",
]
