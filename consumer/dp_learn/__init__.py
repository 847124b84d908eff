"""The researcher's side: verified bundles in, a sparse graph out."""

from dp_bundle.startup.lazy import import_on_demand

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dp_learn.debias import debias_covariance
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
    from dp_learn.feasibility import smallest_solvable_alpha
    from dp_learn.inference import EdgeInference
    from dp_learn.learn import Learned, learn_graph
    from dp_learn.moments import Moments, estimate_moments
    from dp_learn.solution import Solution, Status
    from dp_learn.solvers import graphical_lasso
else:
    __getattr__ = import_on_demand(__name__)

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
