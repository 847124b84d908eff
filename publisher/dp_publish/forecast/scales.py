"""Both forecasts of a column: as it is, and on the scale of asinh, as tried on the first rows of the table.

How much a long tail costs depends on the values, so that no formula in public facts tells it. The release is played on
the first rows, at a mu that is larger by as much as the table is longer: the noise, and the share of rows that are
shortened, are then those of the whole table. What the second round shows is compared with what these rows hold
themselves, on the same scale. All of this is for the publisher alone.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dp_bundle.base.errors import DpGraphError
from dp_bundle.base.quoting import counted, listed
from dp_bundle.data.recovery import mean_and_covariance
from dp_publish.accounting.strength import GaussianDP
from dp_publish.covariance.calibration import set_mechanism
from dp_publish.covariance.mechanisms.base import NoisyMoments
from dp_publish.covariance.mechanisms.two_round import TwoRound
from dp_publish.covariance.two_rounds.asinh import on_scale
from dp_publish.forecast.plan import Plan
from dp_publish.sampling.keystream import insecure_keystream

_MOST_ROWS, _LEAST_ROWS = 20_000, 100
_MOST_COLUMNS = 200
_CELLS = 2**20
_DRAWS = 5
_WORTH_IT = 0.7  # of a column's error as it is
_Floats: TypeAlias = NDArray[np.float64]


class Helped(NamedTuple):
    """What the scale of asinh does for some columns, as tried on so many rows.

    Attributes
    ----------
    names : list of str
        The columns whose correlations err less on it by a fifth at least.
    before, after : float
        The median error that the release adds to their correlations, as they are and on the scale of asinh.
    n_rows : int
        How many rows it was tried on.
    """

    names: list[str]
    before: float
    after: float
    n_rows: int


def suggest_asinh(plan: Plan) -> list[str]:
    """Return a sentence on the columns whose correlations err less on the scale of asinh, with both errors; or none."""
    found = try_asinh(plan)
    if found is None:
        return []
    which = listed(found.names) if len(found.names) < len(plan.kinds) else 'all columns ([columns."*"])'
    return [
        f'transform = "asinh" in the policy, for {which}, lowers the error that the release adds to their correlations '
        f"from about {found.before:.2g} to about {found.after:.2g}, as tried on the first "
        f"{counted(found.n_rows, 'row')}; these are then correlations of asinh-scaled columns"
    ]


def try_asinh(plan: Plan) -> Helped | None:
    """Return the columns that the scale of asinh helps; None if there are none, or if they cannot be told."""
    policy, names = plan.policy, list(plan.kinds)
    bounded = all(policy.column(name).bounds is not None for name in names)
    if plan.own is None or plan.mechanism != TwoRound.name or not bounded or len(names) > _MOST_COLUMNS:
        return None
    rows = _first_rows(plan)
    meant = {name for source in policy.sources for name in source.columns}
    free = [
        index
        for index, name in enumerate(names)
        if name not in meant and policy.column(name).transform is None and len(np.unique(rows[:, index])) > 2
    ]
    if len(rows) < _LEAST_ROWS or not free:
        return None

    mechanism, longer = set_mechanism(policy, plan.kinds, lambda: plan.n_rows), plan.n_rows / len(rows)
    try:
        as_they_are, changed = (_errors(_trial(mechanism, longer, chosen), rows) for chosen in ([], free))
        helped = [index for index in free if changed[index] < _WORTH_IT * as_they_are[index]]
        if not helped:
            return None
        changed = _errors(_trial(mechanism, longer, helped), rows)
    except DpGraphError:  # there is no such release
        return None
    before, after = (float(np.median(each[helped])) for each in (as_they_are, changed))
    return Helped([names[index] for index in helped], before, after, len(rows)) if after < _WORTH_IT * before else None


def _first_rows(plan: Plan) -> _Floats:
    """Return the first rows without gaps, shape (n, p)."""
    n_rows = min(_MOST_ROWS, _CELLS // len(plan.kinds))
    batch = next(plan.table.read(plan.kinds, n_rows), None)
    if batch is None:
        return np.empty((0, len(plan.kinds)))
    columns = [column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False) for column in batch.columns]
    rows: _Floats = np.stack(columns).T
    kept: _Floats = rows[~np.isnan(rows).any(axis=1)]
    return kept


def _trial(mechanism: Any, longer: float, transformed: list[int]) -> TwoRound:
    """Return the mechanism for rows that stand for so many times as many, with some columns on the scale of asinh."""
    places = list(mechanism.places)
    for index in transformed:
        places[index] = replace(places[index], transform="asinh")
    strength = GaussianDP(mechanism.strength.mu * longer)
    trial: TwoRound = replace(mechanism, strength=strength, places=tuple(places))
    return trial


def _errors(mechanism: TwoRound, rows: _Floats) -> _Floats:
    """Return by column the median error of its correlations with others, over a few releases."""
    p, found = rows.shape[1], []
    low, high = np.array([(place.low, place.high) for place in mechanism.places]).T
    for seed in range(_DRAWS):
        released = mechanism.release(lambda add, _: add(iter([rows])), insecure_keystream(seed), _Nobody())
        transforms = released.earlier.transforms if released.earlier is not None else {}
        with np.errstate(invalid="ignore", divide="ignore"):
            held = np.corrcoef(on_scale(np.clip(rows, low, high), transforms).T)
            found.append(np.abs(_correlation(released) - held))
    beside: _Floats = np.where(np.eye(p, dtype=bool), np.nan, np.array(found))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a constant column has no correlations
        errors: _Floats = np.nan_to_num(np.nanmedian(beside, axis=(0, 2)), nan=np.inf)
    return errors


def _correlation(released: NoisyMoments) -> _Floats:
    """Return the correlations that the second round shows."""
    scaling, ones = released.scaling, np.ones(released.scaling.n_features)
    variance = released.noise.off_diagonal_variance or 0.0
    _, covariance, _ = mean_and_covariance(
        released.matrix, 0.0 * ones, ones, scaling.constant, n_rows=released.n_rows, off_diagonal_variance=variance
    )
    back = np.linalg.inv(np.diag(ones) if released.earlier is None else released.earlier.transform)
    covariance = back @ covariance @ back.T
    deviations = np.sqrt(np.diagonal(covariance))
    correlation: _Floats = np.clip(covariance / np.outer(deviations, deviations), -1.0, 1.0)
    return correlation


class _Nobody:
    """The witness of a release that is not published."""

    def drawing(self) -> None:
        """Do nothing."""

    def clipped(self, n_rows: int, values: Sequence[int] = ()) -> None:
        """Do nothing."""
