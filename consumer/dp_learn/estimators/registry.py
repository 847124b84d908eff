"""The estimators by the names that `dp-learn --estimator` takes."""

from __future__ import annotations

from dp_learn.estimators.clime import DebiasedCLIME
from dp_learn.estimators.graphical_lasso import DebiasedGraphicalLasso
from dp_learn.estimators.lda import DebiasedLDA
from dp_learn.estimators.neighborhood import DebiasedNeighborhoodSelection
from dp_learn.estimators.regression import DebiasedRidgeRegression
from dp_learn.estimators.ridge import DebiasedRidgePrecision
from dp_learn.estimators.scio import DebiasedSCIO
from dp_learn.estimators.thresholded_covariance import DebiasedThresholdedCovariance

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
