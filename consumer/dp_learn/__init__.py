"""The researcher's side: verified bundles in, a sparse graph out."""

from dp_bundle.base.lazy import TYPE_CHECKING, import_on_demand

if TYPE_CHECKING:
    from dp_learn.covariance.estimate import debias_covariance
    from dp_learn.covariance.moments import Moments, estimate_moments
    from dp_learn.estimators.columnwise import DebiasedCLIME, DebiasedNeighborhoodSelection, DebiasedSCIO
    from dp_learn.estimators.graphical_lasso import DebiasedGraphicalLasso, DebiasedGraphicalLassoCV
    from dp_learn.estimators.linear import DebiasedLDA, DebiasedRidgePrecision, DebiasedRidgeRegression
    from dp_learn.estimators.thresholded_covariance import DebiasedThresholdedCovariance
    from dp_learn.glasso.feasibility import smallest_solvable_alpha
    from dp_learn.glasso.joint import JointSolution, joint_graphical_lasso
    from dp_learn.glasso.problem import Solution, Status
    from dp_learn.glasso.solving import graphical_lasso
    from dp_learn.inference.edges import EdgeInference
    from dp_learn.output.description import Description
    from dp_learn.output.views import Comparison, Joint, Learned, compare_networks, describe, learn_graph, learn_joint
else:
    __getattr__, __dir__ = import_on_demand(__name__)

__all__ = [
    "Comparison",
    "DebiasedCLIME",
    "DebiasedGraphicalLasso",
    "DebiasedGraphicalLassoCV",
    "DebiasedLDA",
    "DebiasedNeighborhoodSelection",
    "DebiasedRidgePrecision",
    "DebiasedRidgeRegression",
    "DebiasedSCIO",
    "DebiasedThresholdedCovariance",
    "Description",
    "EdgeInference",
    "Joint",
    "JointSolution",
    "Learned",
    "Moments",
    "Solution",
    "Status",
    "compare_networks",
    "debias_covariance",
    "describe",
    "estimate_moments",
    "graphical_lasso",
    "joint_graphical_lasso",
    "learn_graph",
    "learn_joint",
    "smallest_solvable_alpha",
]
