"""The researcher's side: verified bundles in, a sparse graph out."""

from dp_bundle.lazy import import_on_demand as _import_on_demand

TYPE_CHECKING = False  # typing's own takes longer to import than all the rest here
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

__getattr__ = _import_on_demand(
    __name__,
    {
        **dict.fromkeys([name for name in __all__ if name.startswith("Debiased")], "dp_learn.estimators"),
        "EdgeInference": "dp_learn.inference",
        "Learned": "dp_learn.learn",
        "Moments": "dp_learn.moments",
        "Solution": "dp_learn.solution",
        "Status": "dp_learn.solution",
        "debias_covariance": "dp_learn.debias",
        "estimate_moments": "dp_learn.moments",
        "graphical_lasso": "dp_learn.solvers",
        "learn_graph": "dp_learn.learn",
        "smallest_solvable_alpha": "dp_learn.feasibility",
    },
)
