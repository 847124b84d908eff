"""A covariance mechanism attacked from outside, where its noise does not act on entries one by one.

Two neighbouring tables, {v, v} and {v, w} with v and w at the ends of the ball and as good as orthogonal, are each
released many times. The last row is replaced, or, for add-remove neighbours, added to {v}. Whoever knows both tables
reduces a release to one score, and says "the second" above a threshold, or below it:

- wishart: the logarithm of the likelihood ratio, log det(X - A) - log det(X - B), infinite where X is impossible under
  one table.
- wishart-difference: ||X - A||_* - ||X - B||_*, which the likelihood ratio follows where it is extreme.
- eigenvectors: the logarithm of how much more often releases like this one came from the second table
  in the first half of the runs; alike are those whose trace, spread of eigenvalues, and angle of the largest
  eigenvector to v fall into the same cell.

The threshold is chosen on the first half as well. On the second half, what is (epsilon, delta)-private satisfies
TPR <= e^epsilon FPR + delta, so that with Clopper & Pearson's bounds of both rates

    epsilon >= log((TPR - delta) / FPR).

Rates at a small delta, or a small part of epsilon, prove little in thousands of releases.

The matrix has two coordinates, however many columns there are: the code, the bounds, the radius and the strength are
the policy's, but the columns are its first two, without a constant (with add-remove neighbours, the first and the
constant). For Wishart noise that loses nothing, as its privacy depends on m - d + 1 alone, and for the difference of
two it gains: epsilon is the same for any d, and extreme noise is rarer for a larger one. The eigenvector mechanisms
divide epsilon among the vectors, so that an error that shows only with three coordinates or more is not met.

References
----------
Clopper & Pearson (1934). Kairouz, Oh & Viswanath (2015), The composition theorem for differential privacy, section 2.1,
for the inequality.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dp_audit.hypothesis_tests import least_chance
from dp_audit.report import LEAST_RUNS, AuditReport, Check, make_check, runs_for
from dp_bundle.base.errors import PrivacyError
from dp_publish.covariance.exact_moments import ExactMoments, moments_of_batch
from dp_publish.covariance.mechanisms.base import OneSum
from dp_publish.covariance.mechanisms.wishart import Wishart
from dp_publish.covariance.mechanisms.wishart_difference import WishartDifference
from dp_publish.covariance.scaling import Scaling, scaling_for
from dp_publish.sampling.keystream import SecureKeystream

_Floats: TypeAlias = NDArray[np.float64]

_RUNS = 40_000
_WISHART_RUNS, _MOST_NORMALS = 4000, 1 << 29  # a few minutes' worth of normal numbers
_N_CELLS = 6  # per feature
_THRESHOLDS = 200


def attack_from_outside(mechanism: OneSum, n_runs: int | None, confidence: float) -> AuditReport:
    """Attack a covariance mechanism by its releases alone.

    Parameters
    ----------
    mechanism : Mechanism
        As a policy sets it. Of an entity, one row is attacked.
    n_runs : int or None
        How many releases are attacked, from 1000 to 2^20; half of them of each table.
    confidence : float
        The chance that a sound mechanism passes every check, and that the lower bound holds.

    Raises
    ------
    ParameterError
        `n_runs` is outside its range.
    """
    small = replace(mechanism, scaling=_two_coordinates(mechanism))
    n = runs_for(n_runs, _RUNS if n_runs is not None else _default_runs(small))
    tables = [moments_of_batch(rows, small.scaling) for rows in _neighbours(small)]
    keystream = SecureKeystream()
    released = [np.array([small.draw(table, keystream).matrix for _ in range(n // 2)]) for table in tables]

    spent = mechanism.spends(1)
    stated, delta = spent.pure_epsilon, spent.excepted_delta
    score = _score(small, [part[: n // 4] for part in released], tables)
    bound = epsilon_bound([score(part) for part in released], delta, 1 - confidence)
    return AuditReport(
        unit="row",
        stated_mu=None,
        mu_lower=None,
        confidence=confidence,
        n_canaries=n,
        checks=(_check_attack(bound, stated, delta, n),),
        mechanism=mechanism.name,
        stated_epsilon=stated,
        stated_delta=delta,
        epsilon_lower=bound,
        max_rows=mechanism.max_rows,
    )


def _default_runs(mechanism: OneSum) -> int:
    """Return how many releases take minutes; those of Wishart noise take time with the degrees of freedom.

    Raises
    ------
    PrivacyError
        Even the fewest would take hours.
    """
    if not isinstance(mechanism, Wishart):
        return _RUNS
    m = mechanism.degrees_for(mechanism.strength.delta)
    if LEAST_RUNS * m > _MOST_NORMALS:
        raise PrivacyError(
            f"an audit of Wishart noise with {m:,} degrees of freedom would take hours: audit a larger epsilon"
        )
    return min(_WISHART_RUNS, max(LEAST_RUNS, _MOST_NORMALS // (2 * m)))


def epsilon_bound(scores: list[_Floats], delta: float, alpha: float) -> float:
    """Return a lower bound on epsilon from scores of two tables, too high with probability at most `alpha`.

    Parameters
    ----------
    scores : list of two ndarrays
        Those of the first table and of the second; the threshold is chosen on the first half of each.
    delta : float
        That of the guarantee.
    alpha : float
        The chance of an error; half of it for each rate.
    """
    learning, proving = zip(*((part[: len(part) // 2], part[len(part) // 2 :]) for part in scores), strict=True)
    pooled = np.unique(np.concatenate(learning))
    thresholds = np.unique(pooled[np.linspace(0, len(pooled) - 1, _THRESHOLDS).astype(np.int64)])
    best, chosen = -math.inf, (1.0, 0.0)
    for sign in (1.0, -1.0):
        signed = np.sort(sign * thresholds)
        bounds = _bounds([sign * part for part in learning], signed, sign, delta, alpha)
        if bounds.max() > best:
            best, chosen = float(bounds.max()), (sign, float(signed[int(np.argmax(bounds))]))
    sign, threshold = chosen
    bound = _bounds([sign * part for part in proving], np.array([threshold]), sign, delta, alpha)
    return max(0.0, float(bound[0]))


def _bounds(scores: list[_Floats], thresholds: _Floats, sign: float, delta: float, alpha: float) -> _Floats:
    """Return the bound of every threshold; with the sign -1 scores are low under the second table: swap the two."""
    first, second = scores if sign > 0 else scores[::-1]
    hits, alarms = (len(part) - np.searchsorted(np.sort(part), thresholds) for part in (second, first))
    least = least_chance(hits, len(second), alpha / 2)
    most = 1 - least_chance(len(first) - alarms, len(first), alpha / 2)
    bounds: _Floats = np.log(np.maximum(least - delta, 1e-300) / most)
    return bounds


def _two_coordinates(mechanism: OneSum) -> Scaling:
    own = mechanism.scaling
    public_rows = mechanism.neighbours.n_rows_public
    chosen = [index % own.n_features for index in range(2 if public_rows else 1)]
    bounds = [(own.centers[j] - own.half_widths[j], own.centers[j] + own.half_widths[j]) for j in chosen]
    radius = own.radius if own.squared_radius < len(bounds) else None
    return scaling_for(bounds, radius=radius, with_mean=not public_rows)


def _neighbours(mechanism: OneSum) -> tuple[_Floats, _Floats]:
    scaling = mechanism.scaling
    v, w = np.ones(scaling.n_features), np.ones(scaling.n_features)
    w[-1] = -1.0
    one, other = (scaling.centers + scaling.half_widths * z for z in (v, w))
    if not mechanism.neighbours.n_rows_public:
        return one[None], np.vstack([one, other])
    return np.vstack([one, one]), np.vstack([one, other])


def _score(mechanism: OneSum, learning: list[_Floats], tables: list[ExactMoments]) -> Callable[[_Floats], _Floats]:
    """Return the score of a release: by the likelihood where that is known, or else learned from the first half."""
    if isinstance(mechanism, Wishart):

        def ratio(released: _Floats) -> _Floats:
            one, other = (_log_det(released - table.matrix) for table in tables)
            with np.errstate(invalid="ignore"):
                return np.nan_to_num(other - one, nan=0.0, posinf=math.inf, neginf=-math.inf)

        return ratio
    if isinstance(mechanism, WishartDifference):
        return lambda released: _distance(released, tables[0]) - _distance(released, tables[1])
    return _learned_score(learning, tables)


def _distance(released: _Floats, table: ExactMoments) -> _Floats:
    """Return the distance of each release from a table's sum, in the nuclear norm, but for float64's rounding."""
    return np.asarray(np.round(np.linalg.norm(released - table.matrix, "nuc", axis=(1, 2)), 9))


def _log_det(matrices: _Floats) -> _Floats:
    """Return log det of each 2 x 2 matrix, or minus infinity where it is not positive definite."""
    determinants = matrices[:, 0, 0] * matrices[:, 1, 1] - matrices[:, 0, 1] ** 2
    possible = (determinants > 0) & (matrices[:, 0, 0] > 0)
    return np.where(possible, np.log(np.where(possible, determinants, 1.0)), -math.inf)


def _learned_score(learning: list[_Floats], tables: list[ExactMoments]) -> Callable[[_Floats], _Floats]:
    v = tables[0].matrix[0] / np.linalg.norm(tables[0].matrix[0])  # the first table's rows are multiples of v
    features = [_features(part, v) for part in learning]
    inner = np.linspace(0, 1, _N_CELLS + 1)[1:-1]
    edges = [np.unique(np.quantile(column, inner)) for column in np.vstack(features).T]

    def cells(found: _Floats) -> NDArray[np.intp]:
        places = [np.searchsorted(edge, column) for edge, column in zip(edges, found.T, strict=True)]
        return np.asarray(np.ravel_multi_index(tuple(places), (_N_CELLS,) * len(places)))

    counts = [np.bincount(cells(part), minlength=_N_CELLS ** len(edges)) for part in features]
    ratios = np.log((counts[1] + 1) / (counts[0] + 1))
    return lambda released: np.asarray(ratios[cells(_features(released, v))])


def _features(released: _Floats, v: _Floats) -> _Floats:
    eigenvalues, vectors = np.linalg.eigh(released)
    near = (np.einsum("i,nij->nj", v, vectors)[:, -1]) ** 2
    # what is equal but for float64's rounding must not be told apart by it
    digits = [eigenvalues.sum(axis=1), eigenvalues[:, -1] - eigenvalues[:, 0], near]
    return np.round(np.column_stack(digits), 9)


def _check_attack(bound: float, stated: float, delta: float, n: int) -> Check:
    where = f" at delta = {delta:g}" if delta else ""
    detail = f"neighbours told apart in {n} releases, which proves epsilon >= {bound:.4g}{where}"
    if not bound:
        detail = "neighbours were not told apart well enough to prove anything at this strength"
    faults = []
    if bound > stated:
        faults = [f"a row is told apart with epsilon >= {bound:.4g}{where}, above the {stated:.4g} stated"]
    return make_check("attack", faults, detail)
