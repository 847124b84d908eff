"""The researcher's side: verified bundles in, a sparse graph out."""

from typing import TYPE_CHECKING, Any

from dp_learn.debias import debias_covariance
from dp_learn.feasibility import smallest_solvable_alpha
from dp_learn.inference import EdgeInference
from dp_learn.learn import Learned, learn_graph
from dp_learn.moments import Moments, estimate_moments
from dp_learn.solution import Solution, Status
from dp_learn.solvers import graphical_lasso

if TYPE_CHECKING:
    from dp_learn.estimators import (
        DebiasedCLIME,
        DebiasedGraphicalLasso,
        DebiasedGraphicalLassoCV,
        DebiasedLDA,
        DebiasedNeighborhoodSelection,
        DebiasedRidgePrecision,
        DebiasedRidgeRegression,
        DebiasedSCIO,
        DebiasedThresholdedCovariance,
    )

__all__ = [
    "DebiasedCLIME",
    "DebiasedGraphicalLasso",
    "DebiasedGraphicalLassoCV",
    "DebiasedLDA",
    "DebiasedNeighborhoodSelection",
    "DebiasedRidgePrecision",
    "DebiasedRidgeRegression",
    "DebiasedSCIO",
    "DebiasedThresholdedCovariance",
    "EdgeInference",
    "Learned",
    "Moments",
    "Solution",
    "Status",
    "debias_covariance",
    "estimate_moments",
    "graphical_lasso",
    "learn_graph",
    "smallest_solvable_alpha",
]


def __getattr__(name: str) -> Any:
    """Import the estimators when they are asked for: scikit-learn takes a second that the command has no use for."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from dp_learn import estimators

    globals()[name] = found = getattr(estimators, name)
    return found
