"""What each period knows, as weights of a joint estimate: of its likelihood, of its entries and of differences."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dp_learn.covariance.estimate import PooledCovariance
from dp_learn.covariance.sample import effective_rows
from dp_learn.covariance.standard_errors import chance_alpha, null_standard_errors
from dp_learn.glasso.joint_problem import Kind
from dp_learn.matrices.linalg import FloatArray, median_above_diagonal
from dp_learn.selection.joint import Periods

N_ALPHAS = 14
RATIOS = {  # of the coupling to the penalty of an entry
    Kind.FUSED: (0.5, 1.0, 2.0, 4.0, 8.0),
    Kind.SMOOTH: (5.0, 20.0, 80.0),
    Kind.PAIRS: (0.5, 1.0, 2.0, 4.0),
    Kind.GROUP: (0.5, 1.0, 2.0, 4.0),
}


def weigh_periods(pooled: Sequence[PooledCovariance], kind: Kind) -> Periods:
    """Return the periods' correlations with all weights.

    The likelihood of a period counts as its effective rows n_k. An entry's penalty is in proportion to its standard
    error s_kij where it is zero, in units of the typical one. A difference has the rows ``n_k n_l / (n_k + n_l)``, and
    the standard error ``sqrt(s_kij^2 + s_lij^2)``: the penalty on it is their product, so that of as many equal periods
    as there may be all differences have the weight of an entry. The strength of squares goes with the squared error,
    as what is known worse has more to gain from its neighbours.

    Parameters
    ----------
    pooled : sequence of PooledCovariance
        Of the same columns, with known errors.
    kind : Kind
        Of the coupling.
    """
    errors = np.array([null_standard_errors(each) for each in pooled])
    typical = float(np.median([median_above_diagonal(each) for each in errors]))
    rows = np.array([effective_rows(each) for each in pooled])
    n = rows / rows.mean()
    squares = (errors / typical) ** 2
    if kind in {Kind.FUSED, Kind.SMOOTH}:
        shared = 2.0 * n[:-1] * n[1:] / (n[:-1] + n[1:])
        apart = (squares[:-1] + squares[1:]) / 2.0
        weights = shared[:, None, None] * (apart if kind == Kind.SMOOTH else np.sqrt(apart))
    else:
        weights = np.sqrt(np.tensordot(n, squares, 1) / len(n))
        weights *= 2.0 / len(n) if kind == Kind.PAIRS else np.sqrt(len(n))
    return Periods(np.array([each.correlation for each in pooled]), rows, errors / typical, weights, kind)


def joint_alphas(periods: Periods, pooled: Sequence[PooledCovariance]) -> FloatArray:
    """Return alphas from where no period has a link of its own down to half of what chance makes in all together."""
    sizes = np.abs(periods.matrices) / periods.weights
    largest = float(sizes[:, ~np.eye(sizes.shape[1], dtype=bool)].max())
    chance = min(chance_alpha(null_standard_errors(each), w) for each, w in zip(pooled, periods.weights, strict=True))
    return np.geomspace(largest, min(0.5 * chance / np.sqrt(len(pooled)), 0.5 * largest), N_ALPHAS)
