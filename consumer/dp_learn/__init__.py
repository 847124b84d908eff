"""The researcher's side: verified bundles in, a sparse graph out."""

from dp_bundle.startup.lazy import TYPE_CHECKING, import_on_demand

if TYPE_CHECKING:
    from dp_learn.covariance import Moments, debias_covariance, estimate_moments
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
    from dp_learn.glasso import Solution, Status, graphical_lasso, smallest_solvable_alpha
    from dp_learn.inference import EdgeInference
    from dp_learn.pipeline import Learned, learn_graph
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
