"""Columns that others determine, as far as the rows can tell: how each is linked to the rest is then undetermined.

Columns whose variance the noise drowns, and those that stand clear of it.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dp_bundle.base.errors import DrownedColumnError
from dp_bundle.base.quoting import name_columns, quote_name
from dp_learn.covariance.estimate import PooledCovariance
from dp_learn.covariance.standard_errors import clear_variances, form_errors, form_variances
from dp_learn.matrices.linalg import FloatArray, Places, eigendecomposition

_MOST = 500  # columns, as all eigenvectors are needed
_ROWS = 4  # for each column, or the sample alone makes combinations that hardly vary
_KNOWN = 0.05  # of a column's variance: the error with which a combination's must be known
_ROUNDING = 1e-9
_PART = 0.1  # of a column that lies in such combinations
_DETERMINED, _SMALL = 0.1, 0.05  # of a column's standard deviation: what others leave at most, and what is not named
_ALIKE = 0.05  # of a correlation that may be 1: its error at most, where a column is left out for it
_RANKED = 0.98  # of a correlation of scores, whose histograms have noise of their own
_STRONG = 0.8  # a correlation
_ERRORS = 2.0  # standard errors, on either side of an estimate


def clear_columns(pooled: PooledCovariance) -> tuple[Places, tuple[str, ...]]:
    """Return the positions of the columns whose debiased variance is clearly positive, and the names of the others.

    The debiased variance of a column of noise alone has a standard error, for one source v sqrt(2 / (n - 1)) unless the
    noise is discrete. What does not exceed twice that is not positive beyond doubt. Dividing by its root would swamp
    every other column. Such a column is *drowned*.

    Raises
    ------
    DrownedColumnError
        Fewer than two columns are left.
    """
    clear = clear_variances(pooled)
    kept = np.flatnonzero(clear)
    drowned = tuple(name for name, seen in zip(pooled.columns, clear, strict=True) if not seen)
    if len(pooled.columns) < 2:
        raise DrownedColumnError([], "a graph needs at least two columns, and there is one")
    if len(kept) < 2:
        named = ", ".join(map(quote_name, drowned[:8])) + (" and others" if len(drowned) > 8 else "")
        which = "all but one of the columns" if len(kept) else "all columns"
        raise DrownedColumnError(
            list(drowned),
            f"the noise drowns {which} ({named}): their variance cannot be distinguished from the noise; learn from a "
            "bundle with more rows or less noise",
        )
    return kept, drowned


def find_collinear(
    pooled: PooledCovariance, names: Sequence[str] = (), root: FloatArray | None = None
) -> tuple[str, ...]:
    """Return the columns in whose combinations no variance is left but for errors that are known to be small.

    A combination is an eigenvector v of S^ on the correlation scale. Its eigenvalue errs by at most about
    ``sqrt(2 p Var(v' S^ v))``, as the largest of all directions. Where that is small and covers the eigenvalue, columns
    are collinear; where it is large, the noise hides whether they are.

    Parameters
    ----------
    pooled : PooledCovariance
        At least two columns, all with a positive debiased variance.
    names : sequence of str, optional
        Where several columns are one node, the node of each.
    root : ndarray of shape (p, p), optional
        What whitens S^ within nodes, R S R, and takes the place of the correlation scale. A node's own columns are then
        not collinear with each other.
    """
    vectors, _ = _empty_directions(pooled, root)
    parts = (vectors**2).sum(axis=1)
    found = (name for name, part in zip(names or pooled.columns, parts, strict=True) if part >= _PART)
    return tuple(dict.fromkeys(found))


def find_determined(pooled: PooledCovariance, reaches: Mapping[str, float]) -> dict[str, str]:
    """Return columns that the rest determines but for little of their standard deviation, each with how.

    Directions of no variance are solved for as many columns, which have the largest parts in them. What is not named of
    the rest, as its part is small, counts among what is left. Of the others, columns are left out that may be an
    earlier one on another scale. Their correlation is known well, and as far as that goes as large as it can be.

    Parameters
    ----------
    pooled : PooledCovariance
        At least two columns, all with a positive debiased variance.
    reaches : mapping of str to float
        As of `Levels`.
    """
    found = _solve_directions(pooled)
    if not _can_tell(pooled):
        return found
    size, margin = _strengths(pooled)
    reach = np.array([reaches.get(name, math.nan) for name in pooled.columns])
    scored = reach == 1.0
    alike = np.where(np.equal.outer(scored, scored), 1.0, np.outer(reach, reach))
    alike *= np.where(np.logical_or.outer(scored, scored), _RANKED, 1.0)
    for first, second in np.argwhere(np.triu((size + margin >= alike) & (margin <= _ALIKE), 1)).tolist():
        names = pooled.columns[first], pooled.columns[second]
        if not {*names} & {*found}:
            share = size[first, second] / alike[first, second]
            found[names[1]] = (
                f"{quote_name(names[1])} may be {quote_name(names[0])} on another scale, with a correlation of "
                f"{min(share, 1.0):.3g} of the largest possible, give or take {margin[first, second]:.1g}"
            )
    return found


def _solve_directions(pooled: PooledCovariance) -> dict[str, str]:
    vectors, most = _empty_directions(pooled)
    k, found = len(most), dict[str, str]()
    if not k:
        return found
    from scipy.linalg import qr, solve_triangular  # which most releases have no use for

    _, r, order = qr(vectors.T, pivoting=True, mode="economic")
    weights: Any = -solve_triangular(r[:, :k], r[:, k:])
    others = order[k:]
    for place, own in zip(order[:k], weights, strict=True):
        parts = vectors[place] - own @ vectors[others]
        rest = math.sqrt(parts**2 @ most)
        if rest <= _DETERMINED:
            small = np.where(np.abs(own) < _SMALL, own, 0.0)
            rest += math.sqrt(np.maximum(small @ pooled.correlation[np.ix_(others, others)] @ small, 0.0))
            units = pooled.deviations[place] / pooled.deviations[others]
            terms = [
                f"{weight * unit:.3g} x {quote_name(pooled.columns[other])}"
                for weight, unit, other in zip(own - small, units, others, strict=True)
                if weight
            ]
            name = pooled.columns[place]
            said = f"{quote_name(name)} = {' + '.join(terms)} + a constant".replace("+ -", "- ")
            found[name] = f"{said}, to {100.0 * rest:.2g} % of its standard deviation"
    return found


def _empty_directions(pooled: PooledCovariance, root: FloatArray | None = None) -> tuple[FloatArray, FloatArray]:
    """Return the directions of no variance but for errors known to be small, shape (p, k), and how much it may be."""
    p = len(pooled.columns)
    if not _can_tell(pooled):
        return np.empty((p, 0)), np.empty(0)
    scale = np.diag(1.0 / pooled.deviations) if root is None else root
    values, vectors = eigendecomposition(pooled.correlation if root is None else root @ pooled.covariance @ root)
    small = values <= _KNOWN
    errors = np.sqrt(2.0 * p * np.diagonal(form_variances(pooled, vectors[:, small].T @ scale)))
    empty = (errors <= _KNOWN) & (values[small] <= errors + _ROUNDING)
    return vectors[:, small][:, empty], np.maximum(values[small], 0.0)[empty] + errors[empty]


def find_perhaps_collinear(
    pooled: PooledCovariance, known: Sequence[str] = (), names: Sequence[str] = ()
) -> tuple[str, ...]:
    """Return the columns that have a strong correlation with another which, for all that is known of it, may be 1.

    Its first-order error, to two of which it exceeds 0.8 and reaches 1, is mostly the noise's. Of clean rows a
    correlation near 1 hardly errs. An eigenvalue's error, as the largest of all directions, would hide such pairs.

    Parameters
    ----------
    pooled : PooledCovariance
        At least two columns, all with a positive debiased variance.
    known : sequence of str
        Columns found by `find_collinear`; a pair of them is passed over.
    names : sequence of str, optional
        As of `find_collinear`; pairs within a node are passed over.
    """
    if not _can_tell(pooled):
        return ()
    size, margin = _strengths(pooled)
    strong = (size - margin > _STRONG) & (size + margin >= 1.0)

    of = np.array(names or pooled.columns)
    named = np.isin(of, known)
    strong &= ~np.outer(named, named) & (of[:, np.newaxis] != of)
    return tuple(dict.fromkeys(of[strong.any(axis=1)].tolist()))


def describe_collinearity(
    pooled: PooledCovariance, names: Sequence[str] = (), root: FloatArray | None = None
) -> tuple[tuple[str, ...], list[str]]:
    """Return the columns known to be collinear, and sentences on what that means for them, and for those that may be.

    Parameters
    ----------
    pooled, names, root
        As of `find_collinear`.
    """
    known = find_collinear(pooled, names, root)
    perhaps = find_perhaps_collinear(pooled, known, names)
    said = []
    if known:
        said.append(
            f"columns are nearly collinear, so that some of them determine the others: {name_columns(known)}. Their "
            "edges cannot be distinguished, and tests find few of them; ask the publisher for a release without the "
            "redundant columns"
        )
    if perhaps:
        said.append(
            f"columns are nearly collinear as far as the noise shows: {name_columns(perhaps)}. Each has a correlation "
            f"with another that is above {_STRONG:g} and may be 1. If it is, their edges cannot be distinguished. Only "
            "a release with less noise would show that"
        )
    return known, said


def _strengths(pooled: PooledCovariance) -> tuple[FloatArray, FloatArray]:
    """Return the correlations in size, at most 1, and two of their first-order standard errors."""
    r = np.clip(pooled.correlation, -1.0, 1.0)
    variances = form_errors(pooled, np.diag(1.0 / pooled.deviations)).along(-r)
    return np.abs(r), _ERRORS * np.sqrt(np.maximum(variances, 0.0))


def _can_tell(pooled: PooledCovariance) -> bool:
    p = len(pooled.columns)
    return p <= _MOST and pooled.n_rows >= _ROWS * p and pooled.has_errors
