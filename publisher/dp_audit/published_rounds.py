"""The noise of published releases of two rounds, around exact sums that are computed here from what they state.

Nothing of `covariance.two_rounds` is used: raw values are clipped, standardised, transformed and shortened in plain
floating-point arithmetic, as the format says it of bounds, standards, column clip, transform and radius. That differs
from the release's integers by far less than the noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dp_audit.checks import Check, check_signs, make_check, size_faults
from dp_audit.press import Published, Rounds
from dp_bundle.base.errors import PrivacyError
from dp_bundle.manifest.matrix_noise import NoisyMatrix

_Floats: TypeAlias = NDArray[np.float64]


def check_published_rounds(released: Sequence[Published], values: _Floats, alpha: float) -> Check:
    """Check that releases of the same rows carry noise of the stated size in both rounds, and on the lengths."""
    found = [noise_of_rounds(one, values) for one in released]
    on, beside, lengths = (np.array(part) for part in zip(*found, strict=True))
    faults = []
    for where, noise in (("on the diagonal", on), ("beside the diagonal", beside), ("on lengths", lengths)):
        faults += size_faults(where, float(np.sum(noise**2)), noise.size, alpha)

    signs = np.sign(np.column_stack([on, beside, lengths])).astype(np.int8)
    independence = check_signs([signs], alpha / 4)
    faults += [] if independence.passed else [independence.detail]
    return make_check(
        "whole releases",
        faults,
        f"{len(released)} whole releases carry the noise stated around the exact sums of both rounds",
    )


def noise_of_rounds(published: Published, values: _Floats) -> tuple[_Floats, _Floats, _Floats]:
    """Return what a release of these rows carries, in stated standard deviations.

    Returns
    -------
    diagonal, beside : ndarray
        The noise of both rounds' entries, without the constant's own, which is exact.
    lengths : ndarray, shape (1,)
        That of the sum of lengths to the fourth.
    """
    stated, rounds = published.release.second_moments, published.rounds
    if rounds is None or stated is None or stated.first_round is None or stated.fourth_moment is None:
        raise PrivacyError("the audit failed: a release of two rounds does not describe both")
    first, second = _standardised(published, rounds, values)
    diagonal, beside = zip(
        _noise(rounds.first, _shortened(first, stated.first_round.radius), stated.first_round),
        _noise(published.values, _shortened(second, stated.radius), stated),
        strict=True,
    )
    shares = np.minimum(np.linalg.norm(second, axis=1) / stated.radius, 1.0)
    lengths = (stated.fourth_moment.total - float(np.sum(shares**4))) / stated.fourth_moment.sigma
    return np.concatenate(diagonal), np.concatenate(beside), np.array([lengths])


def _standardised(published: Published, rounds: Rounds, values: _Floats) -> tuple[_Floats, _Floats]:
    """Return the rows of either round, before they are shortened."""
    columns, stated = published.release.columns, published.release.second_moments
    clip = stated.column_clip if stated is not None and stated.column_clip is not None else math.inf
    low, high = np.array([column.bounds or (-math.inf, math.inf) for column in columns]).T
    places = np.array([[(each.center, each.scale) for each in column.standards or ()] for column in columns])
    (first_center, first_scale), (center, scale) = places.transpose(1, 2, 0)

    clipped = np.clip(values, low, high)
    clipped = np.clip(clipped, first_center - clip * first_scale, first_center + clip * first_scale)
    return (clipped - first_center) / first_scale, (clipped - center) / scale @ rounds.transform


def _shortened(rows: _Floats, radius: float) -> _Floats:
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows * np.minimum(1.0, radius / np.where(norms > 0, norms, 1.0))


def _noise(matrix: _Floats, rows: _Floats, stated: NoisyMatrix) -> tuple[_Floats, _Floats]:
    whole = np.column_stack([rows, np.full(len(rows), stated.constant)])
    noise = matrix - whole.T @ whole
    on, beside = (math.sqrt(each or 0.0) for each in (stated.diagonal_variance, stated.off_diagonal_variance))
    return np.diagonal(noise)[:-1] / on, noise[np.triu_indices(len(noise), 1)] / beside
