"""The estimators by the names that `dp-learn --estimator` takes."""

from __future__ import annotations

from dp_learn.estimators.columnwise import DebiasedCLIME, DebiasedNeighborhoodSelection, DebiasedSCIO
from dp_learn.estimators.graphical_lasso import DebiasedGraphicalLasso
from dp_learn.estimators.lda import DebiasedLDA
from dp_learn.estimators.ridge import DebiasedRidgePrecision, DebiasedRidgeRegression
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
