"""Correlations of the normal variables behind the columns of a release, by which rows have those that were released.

Correlations of columns on a line follow from the margins (`data.latent`). Those of levels without an order follow to
first order alone, so rows are drawn and what they miss is added, a few times over.
"""

import math
from collections.abc import Sequence

import numpy as np
from scipy import special

from dp_bundle.data.latent import TERMS, latent_correlations, nearest_correlations
from dp_bundle.data.margins import Floats
from dp_bundle.synthetic.columns import Drawn, LevelColumn, NumberColumn

RawColumn = NumberColumn | LevelColumn
_NUMBERS, _ROWS, _TIMES = 2**22, 20_000, 10  # of trials: variables and rows at most, and how many
_BETTER, _PATIENCE = 0.98, 4  # of the sum of squares that trials miss; trials without it that are borne
_SEED = 1
_ROWS_FOR_EACH = 2  # variable, for their correlations to be made zero
_NEAR = 1e-3  # of an interval's ends
_LEAST_VARIANCE = 1e-12  # of a mean square: less is rounding


def draw_rows(
    columns: Sequence[RawColumn], rng: np.random.Generator, n_rows: int, root: Floats, n_apart: int
) -> list[Drawn]:
    """Return rows by raw column, as near to what they are drawn from as so many can be.

    Chance is taken from the independent variables, as far as there are rows enough, so that their sample correlations
    are zero; and every variable has one value in each of as many intervals of equal probability as there are rows.
    """
    p = len(root)
    independent = rng.standard_normal((n_rows, p + n_apart))
    if n_rows > _ROWS_FOR_EACH * (p + n_apart):
        independent -= independent.mean(axis=0)
        independent = independent @ np.linalg.inv(_symmetric_root(independent.T @ independent / n_rows))
    normal = np.hstack([independent[:, :p] @ root, independent[:, p:]])
    places = np.arange(n_rows)
    for variable in normal.T:
        variable[np.argsort(variable)] = special.ndtri((places + rng.uniform(_NEAR, 1.0 - _NEAR)) / n_rows)
    return [column.draw(normal) for column in columns]


def root_of(columns: Sequence[RawColumn], released: Floats, errors: Floats, n_apart: int) -> Floats:
    """Return the symmetric root of the correlations of the variables, shape (p, p).

    Rare levels tell little of their variables: what noise may have made of their correlations is taken away first, and
    they give way where noise made the matrix indefinite.

    Parameters
    ----------
    columns : sequence of RawColumn
        Of the rows.
    released, errors : ndarray, shape (p, p)
        The correlations of the published columns and their standard errors; what is NaN is taken for zero.
    n_apart : int
        How many further variables are independent of all.
    """
    coefficients, gains, known = _linear(columns, released)
    blocks = [column.block for column in columns if isinstance(column, LevelColumn)]
    by_level = np.zeros(len(released), dtype=bool)
    for block in blocks:
        by_level[block] = True
    on_lines = np.outer(~by_level, ~by_level)
    first = np.where(by_level, 1.0, np.abs(coefficients[:, 0]))
    linear = gains * np.divide(1.0, first, out=np.zeros(len(first)), where=first > 0.0)
    weights = 1.0 / np.maximum(np.linalg.norm(linear, axis=1), 1.0)

    scaled = np.outer(np.diagonal(gains), np.diagonal(gains))
    wanted = np.where(on_lines, latent_correlations(known * scaled, coefficients), 0.0)
    found = nearest_correlations(wanted, blocks, weights)
    if not blocks:
        return _symmetric_root(found)

    known = np.where(on_lines, known, _without_noise(known, np.nan_to_num(errors)))
    drawn, best, least, last = np.eye(len(released)), found, math.inf, 0
    for step in range(_TIMES):
        missed = np.where(on_lines, 0.0, linear @ (known - drawn) @ linear.T)
        tied = _tied(columns, np.where(on_lines, wanted, found + missed / (step + 1)))
        found = nearest_correlations(tied, blocks, weights)
        drawn = _drawn_correlations(columns, _symmetric_root(found), n_apart)
        left = float(np.sum(np.where(on_lines, 0.0, known - drawn) ** 2))
        if left < _BETTER * least:
            best, least, last = found, left, step
        elif step >= last + _PATIENCE:
            break
    return _symmetric_root(best)


def _tied(columns: Sequence[RawColumn], matrix: Floats) -> Floats:
    """Return correlations by which two categories have in common what no level's share of wins shows to first order.

    Adding to all variables of a category hardly changes who wins. Two whose levels imply each other share that, too: it
    is as strong as the weakest link of any contrast of their levels.
    """
    changed, levels = matrix.copy(), [column for column in columns if isinstance(column, LevelColumn)]
    for place, first in enumerate(levels):
        for second in levels[:place]:
            both = np.outer(first.shift, second.shift)
            links = matrix[first.block, second.block]
            rest = links - np.vdot(both, links) * both
            weakest = np.linalg.svd(rest, compute_uv=False)[min(rest.shape) - 2]
            changed[first.block, second.block] = rest + weakest * both
            changed[second.block, first.block] = changed[first.block, second.block].T
    return changed


def _without_noise(correlations: Floats, errors: Floats) -> Floats:
    """Return correlations less the part that their errors make up: zero where they are no larger than these."""
    kept = 1.0 - np.divide(errors, correlations, out=np.zeros_like(errors), where=correlations != 0.0) ** 2
    found: Floats = correlations * np.maximum(kept, 0.0)
    return found


def _linear(columns: Sequence[RawColumn], released: Floats) -> tuple[Floats, Floats, Floats]:
    """Return Hermite coefficients, what turns published correlations into those of variables, and the correlations."""
    p = len(released)
    known = np.where(np.isfinite(released), released, 0.0)
    coefficients, gains = np.zeros((p, TERMS)), np.eye(p)
    for column in columns:
        places = list(column.places)
        if isinstance(column, LevelColumn):
            gains[column.block, column.block] = column.gains
        else:
            coefficients[places] = column.coefficients
            gains[places, places] = column.gains
            known[np.ix_(places, places)] = np.eye(len(places))  # a gap has no number
    return coefficients, gains, known


def _drawn_correlations(columns: Sequence[RawColumn], root: Floats, n_apart: int) -> Floats:
    n_rows = max(1, min(_ROWS, _NUMBERS // (len(root) + n_apart)))
    rng, published = np.random.Generator(np.random.PCG64(_SEED)), np.zeros((n_rows, len(root)))
    for column, each in zip(columns, draw_rows(columns, rng, n_rows, root, n_apart), strict=True):
        published[:, list(column.places)] = each.published
    return correlations_of(published.T @ published, published.sum(axis=0), n_rows)


def correlations_of(products: Floats, sums: Floats, n_rows: int) -> Floats:
    """Return correlations from sums of products, zero of a constant column."""
    covariance = products / n_rows - np.outer(sums, sums) / n_rows**2
    variances = np.diagonal(covariance)
    moves = variances > _LEAST_VARIANCE * (np.diagonal(products) / n_rows)
    unit = np.divide(1.0, np.sqrt(np.maximum(variances, 0.0)), out=np.zeros(len(sums)), where=moves)
    found: Floats = covariance * np.outer(unit, unit)
    return found


def _symmetric_root(matrix: Floats) -> Floats:
    values, vectors = np.linalg.eigh(matrix)
    root: Floats = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return root
