"""The researcher's side: verified bundles in, a sparse graph out."""

from dp_bundle.base.lazy import TYPE_CHECKING, import_on_demand

if TYPE_CHECKING:
    from dp_learn.covariance.estimate import debias_covariance as debias_covariance
    from dp_learn.covariance.moments import Moments as Moments
    from dp_learn.covariance.moments import estimate_moments as estimate_moments
    from dp_learn.estimators.columnwise import DebiasedCLIME as DebiasedCLIME
    from dp_learn.estimators.columnwise import DebiasedNeighborhoodSelection as DebiasedNeighborhoodSelection
    from dp_learn.estimators.columnwise import DebiasedSCIO as DebiasedSCIO
    from dp_learn.estimators.graphical_lasso import DebiasedGraphicalLasso as DebiasedGraphicalLasso
    from dp_learn.estimators.graphical_lasso import DebiasedGraphicalLassoCV as DebiasedGraphicalLassoCV
    from dp_learn.estimators.linear import DebiasedLDA as DebiasedLDA
    from dp_learn.estimators.linear import DebiasedRidgePrecision as DebiasedRidgePrecision
    from dp_learn.estimators.linear import DebiasedRidgeRegression as DebiasedRidgeRegression
    from dp_learn.estimators.thresholded_covariance import (
        DebiasedThresholdedCovariance as DebiasedThresholdedCovariance,
    )
    from dp_learn.glasso.feasibility import smallest_solvable_alpha as smallest_solvable_alpha
    from dp_learn.glasso.joint import JointSolution as JointSolution
    from dp_learn.glasso.joint import joint_graphical_lasso as joint_graphical_lasso
    from dp_learn.glasso.problem import Solution as Solution
    from dp_learn.glasso.problem import Status as Status
    from dp_learn.glasso.solving import graphical_lasso as graphical_lasso
    from dp_learn.inference.edges import EdgeInference as EdgeInference
    from dp_learn.output.description import Description as Description
    from dp_learn.output.views import Comparison as Comparison
    from dp_learn.output.views import Joint as Joint
    from dp_learn.output.views import Learned as Learned
    from dp_learn.output.views import compare_networks as compare_networks
    from dp_learn.output.views import describe as describe
    from dp_learn.output.views import learn_graph as learn_graph
    from dp_learn.output.views import learn_joint as learn_joint
else:
    __getattr__, __dir__ = import_on_demand(__name__)
