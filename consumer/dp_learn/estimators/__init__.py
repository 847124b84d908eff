"""Estimators in scikit-learn's conventions: `fit` validates, debiases, solves and stores what it learned."""

from dp_bundle.startup.lazy import TYPE_CHECKING, import_on_demand

if TYPE_CHECKING:
    from dp_learn.estimators.clime import DebiasedCLIME
    from dp_learn.estimators.graphical_lasso import DebiasedGraphicalLasso, DebiasedGraphicalLassoCV
    from dp_learn.estimators.lda import DebiasedLDA
    from dp_learn.estimators.neighborhood import DebiasedNeighborhoodSelection
    from dp_learn.estimators.registry import ESTIMATORS
    from dp_learn.estimators.regression import DebiasedRidgeRegression
    from dp_learn.estimators.ridge import DebiasedRidgePrecision
    from dp_learn.estimators.scio import DebiasedSCIO
    from dp_learn.estimators.thresholded_covariance import DebiasedThresholdedCovariance
else:
    __getattr__ = import_on_demand(__name__)
