"""Whether normal scores of several releases are one scale: each has scores by its own histograms.

A correlation of normal variables is about ranks, and may be compared whatever the columns' distributions are. One
release in place of several has equal scores for equal values, as far as distributions agree.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from dp_bundle import Bundle
from dp_bundle.base.errors import SchemaError
from dp_bundle.base.quoting import and_more, quote_name, quote_path
from dp_learn.covariance.scores import find_weak, steps_of
from dp_learn.matrices.linalg import FloatArray

_BY_CHANCE = 0.01  # of equal distributions, of all columns together, are found to differ
_TOLERATED = 0.02  # between cumulative shares, where scores are a twentieth of a standard deviation apart


class _Distribution(NamedTuple):
    """Cumulative shares of rows below ends, and a bound of the variance of their error, times four."""

    ends: FloatArray
    below: FloatArray
    labels: tuple[str, ...]
    variance: float


def require_one_scale(bundles: Sequence[Bundle], done: str) -> Collection[str]:
    """Return the columns that stay as their scores, rather than as normal variables, in all of several releases.

    Parameters
    ----------
    bundles : sequence of Bundle
        Releases by normal scores of the same columns; the first is the one that others are held against.
    done : str
        As in `bundle_source`. Pooled releases need distributions that agree in all columns, others in those that stay
        as their scores: correlations of these depend on the distributions.

    Raises
    ------
    SchemaError
        Distributions differ by more than noise and chance explain, and by more than matters.
    """
    weak = set().union(*map(find_weak, bundles))
    first = _distributions(bundles[0])
    for bundle in bundles[1:]:
        other = _distributions(bundle)
        common = first.keys() & other.keys()
        needed = [name for name in first if name in common and (done == "pooled" or name in weak)]
        for name in sorted(common):  # in another order, signs are others as well
            if first[name].labels != other[name].labels:
                here, there = (quote_path(each.path) for each in (bundles[0], bundle))
                raise SchemaError(
                    f"the histograms of {quote_name(name)} in {here} and {there} do not have the same levels in the "
                    f"same order, so they cannot be {done}: ask for releases by policies that declare the same kinds "
                    "and levels"
                )
        apart = {name: _apart(first[name], other[name], len(needed)) for name in needed}
        if differing := {name: by for name, by in apart.items() if by > 0.0}:
            names = and_more([quote_name(name) for name in sorted(differing, key=lambda each: -differing[each])], 5)
            raise SchemaError(
                f"{quote_path(bundles[0].path)} and {quote_path(bundle.path)} cannot be {done} by normal scores: more "
                f"than noise and chance explain, they differ in the distribution of {names}, so that equal scores "
                "are not equal values; learn from each alone"
                + (", or compare them by dp-learn compare" if done == "pooled" else ", or leave these columns out")
            )
    return weak


def _distributions(bundle: Bundle) -> Mapping[str, _Distribution]:
    """Return the distributions of the columns of scores."""
    stated, n_rows = bundle.release.margins, bundle.release.n_rows
    if stated is None:
        return {}
    together = bundle.release.guarantee.max_rows or 1  # rows of one person may be alike
    scored, found = steps_of(bundle), {}
    for margin in bundle.margins():
        columns = [column.name for column in bundle.release.columns if column.source_name == margin.name]
        for name in scored.keys() & columns:
            variance = together / n_rows + len(margin.counts) * stated.variance / n_rows**2
            found[name] = _Distribution(margin.edges, scored[name].ends, margin.labels, variance)
    return found


def _apart(first: _Distribution, second: _Distribution, n_tests: int) -> float:
    """Return by how much two distributions are farther apart than is allowed; not positive if they are not.

    Sampling, and the noise on counts whose sum is known, are Brownian bridges along the cells, whose largest value is
    beyond t with a probability of about 2 exp(-2 t² / variance), and less at cells alone.
    """
    variance = first.variance + second.variance
    allowed = math.sqrt(variance * math.log(2.0 * n_tests / _BY_CHANCE) / 2.0) + _TOLERATED
    return max(_least_distance(first, second), _least_distance(second, first)) - allowed


def _least_distance(first: _Distribution, second: _Distribution) -> float:
    """Return how far the second is at least from the first where the first is known, as it ascends between its ends."""
    known = np.concatenate([[0.0], second.below, [1.0]])
    low = known[np.searchsorted(second.ends, first.ends, side="right")]
    high = known[np.searchsorted(second.ends, first.ends, side="left") + 1]
    return float(np.maximum(first.below - high, low - first.below).max(initial=0.0))
