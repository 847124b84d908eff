"""The normal variables behind normal scores: their covariance, and its errors.

A column of scores is a step function of a standard normal variable Z, whose correlation with it is c, at most 1: of a
truth value that is true in a fifth of the rows, .7. To first order it is c Z and a rest that is independent of all
other columns, as noise on each row would be. So the variance of the rest comes off the diagonal, and errors are those
of rows with so much noise. Off the diagonal the exact series is inverted (`dp_bundle.data.latent`). A column that shows
too little of its Z, as one whose ones are rare, stays as it is.

References
----------
Liu, Lafferty & Wasserman (2009), The nonparanormal, JMLR 10. Lancaster (1957), Biometrika 44, for the series.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dp_bundle import Bundle
from dp_bundle.data.latent import Steps, latent_correlations, linear_coefficients
from dp_bundle.data.margins import middle_scores
from dp_bundle.manifest.columns import Column, Scores
from dp_learn.covariance.estimate import NoiseAndRest, NoisyCovariance, ReleasedCovariance
from dp_learn.matrices.linalg import FloatArray

_LEAST_PART = 1e-9  # of a typical variance
_REACHED = 0.999  # of a correlation, beyond which the series has no inverse, and its first term is used
_LEAST_SHOWN = 0.3  # of a column's variance that is of its normal variable


def behind_scores(
    bundle: Bundle, columns: Sequence[Column], released: ReleasedCovariance, as_scores: Collection[str] = ()
) -> ReleasedCovariance:
    """Return the covariance of the normal variables behind a release's scores, in the units of these.

    Parameters
    ----------
    bundle : Bundle
        A release by normal scores.
    columns : sequence of Column
        Its columns, in the order of the covariance.
    released : ReleasedCovariance
        Of the scores.
    as_scores : collection of str
        The columns that stay as they are, besides those that show too little.
    """
    steps = {name: found for name, found in steps_of(bundle).items() if name not in as_scores}
    coefficients = np.array(
        [steps[each.name].coefficients() if each.name in steps else linear_coefficients() for each in columns]
    )
    coefficients[_show_little(coefficients)] = linear_coefficients()
    shown = coefficients[:, 0] ** 2

    variances = np.diagonal(released.debiased)
    is_shown = variances > _LEAST_PART * np.median(np.abs(variances))  # of the others nothing is seen but noise
    deviations = np.sqrt(np.where(is_shown, variances, 1.0))
    observed = released.debiased / np.outer(deviations, deviations)
    roots = np.sqrt(shown)
    found = latent_correlations(observed, coefficients)
    found = np.where(np.abs(found) < _REACHED, found, observed / np.outer(roots, roots))
    latent = np.where(
        np.outer(is_shown, is_shown), found * np.outer(deviations * roots, deviations * roots), released.debiased
    )
    np.fill_diagonal(latent, np.where(is_shown, variances * shown, variances))
    rest = np.where(is_shown, variances * (1.0 - shown), 0.0)
    noise = NoisyCovariance(released.n_rows, latent, rest, np.zeros(len(rest)))
    return replace(released, debiased=latent, noise=NoiseAndRest(released.known_noise, noise))


def find_weak(bundle: Bundle) -> set[str]:
    """Return the columns of scores that stay as they are, as too little of their variance is a normal variable's."""
    return {*kept_steps(bundle, ())}


def kept_steps(bundle: Bundle, as_scores: Collection[str] | None) -> dict[str, Steps]:
    """Return the step functions of these columns, None for all, and of those that show too little: scores that stay."""
    steps = steps_of(bundle)
    wanted = steps if as_scores is None else as_scores
    return {name: each for name, each in steps.items() if name in wanted or _show_little(each.coefficients())}


def _show_little(coefficients: FloatArray) -> NDArray[np.bool_]:
    return coefficients[..., 0] ** 2 < _LEAST_SHOWN


def steps_of(bundle: Bundle) -> dict[str, Steps]:
    """Return the step function of every column of scores, by its name."""
    stated = bundle.release.margins
    if stated is None:
        return {}
    margins = {margin.name: margin for margin in bundle.margins()}
    found = {}
    for column in bundle.release.columns:
        if isinstance(column.transform, Scores):
            margin = margins[column.source_name]
            shares = margin.shares(bundle.release.n_rows, stated.sigma)[: margin.n_filled]
            found[column.name] = Steps.of_shares(shares, middle_scores(shares, bundle.release.n_rows))
    return found
