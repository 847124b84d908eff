"""Estimators in scikit-learn's conventions: `fit` validates, debiases, solves and stores what it learned."""

from dp_learn.estimators.clime import DebiasedCLIME
from dp_learn.estimators.graphical_lasso import DebiasedGraphicalLasso, DebiasedGraphicalLassoCV
from dp_learn.estimators.lda import DebiasedLDA
from dp_learn.estimators.neighborhood import DebiasedNeighborhoodSelection
from dp_learn.estimators.regression import DebiasedRidgeRegression
from dp_learn.estimators.ridge import DebiasedRidgePrecision
from dp_learn.estimators.scio import DebiasedSCIO
from dp_learn.estimators.thresholded_covariance import DebiasedThresholdedCovariance

__all__ = [
    "ESTIMATORS",
    "DebiasedCLIME",
    "DebiasedGraphicalLasso",
    "DebiasedGraphicalLassoCV",
    "DebiasedLDA",
    "DebiasedNeighborhoodSelection",
    "DebiasedRidgePrecision",
    "DebiasedRidgeRegression",
    "DebiasedSCIO",
    "DebiasedThresholdedCovariance",
]

ESTIMATORS: dict[str, type] = {
    "graphical-lasso": DebiasedGraphicalLasso,
    "ridge": DebiasedRidgePrecision,
    "thresholded-covariance": DebiasedThresholdedCovariance,
    "neighborhood": DebiasedNeighborhoodSelection,
    "scio": DebiasedSCIO,
    "clime": DebiasedCLIME,
    "regression": DebiasedRidgeRegression,
    "lda": DebiasedLDA,
}
