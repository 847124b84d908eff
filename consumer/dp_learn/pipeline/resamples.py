"""Parts of the rows by which alpha is chosen: folds that are held out, and random subsamples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dp_learn.covariance.estimate import PooledCovariance
from dp_learn.covariance.pooling import effective_rows
from dp_learn.covariance.sample import Sample, Split
from dp_learn.matrices.linalg import FloatArray
from dp_learn.matrices.repair import repair_covariance
from dp_learn.pipeline.settings import Settings
from dp_learn.selection.cross_validation import cross_validate
from dp_learn.selection.path import Selection
from dp_learn.selection.rules import Rule
from dp_learn.selection.stars import select_stars, stars_subsample_share

N_SUBSAMPLES = 20  # Liu, Roeder & Wasserman (2010), section 4


@dataclass(frozen=True, eq=False)
class Resamples:
    """Folds and subsamples of the rows, brought to the scale of the estimate.

    Attributes
    ----------
    sample : Sample
        All rows.
    pooled : PooledCovariance
        Its covariance, of the columns of the estimate.
    kept : ndarray of int
        The places of these columns.
    scale : callable
        Brings a covariance of these columns from data units to the scale of the estimate.
    repair : str
        As of `Settings`.
    """

    sample: Sample
    pooled: PooledCovariance
    kept: npt.NDArray[np.int64]
    scale: Callable[[FloatArray], FloatArray]
    repair: str

    def splits(self) -> list[Split]:
        """Return the folds; what is held out is not repaired, so that scores stay unbiased."""
        return [Split(self._repaired(split.train), self._scaled(split.test)) for split in self.sample.splits()]

    def subsamples(self) -> list[FloatArray]:
        """Return the subsamples that StARS looks at."""
        share = stars_subsample_share(effective_rows(self.pooled))
        return [self._repaired(drawn) for drawn in self.sample.subsamples(N_SUBSAMPLES, share)]

    def _scaled(self, covariance: FloatArray) -> FloatArray:
        return self.scale(covariance[np.ix_(self.kept, self.kept)])

    def _repaired(self, covariance: FloatArray) -> FloatArray:
        return repair_covariance(self._scaled(covariance), self.repair).covariance


def select_by_rows(resamples: Resamples, alphas: FloatArray, settings: Settings, **problem: Any) -> Selection:
    """Choose alpha by a rule that looks at parts of the rows; `problem` holds the settings of each problem."""
    if settings.select == Rule.STARS:
        return select_stars(resamples.subsamples(), alphas, **problem)
    score = "mse" if settings.select == Rule.MSE else "likelihood"
    return cross_validate(resamples.splits(), alphas, score=score, **problem)
