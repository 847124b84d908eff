"""The histograms of a release by normal scores, and what rows become by them, computed afresh from what it states.

Nothing of `covariance.two_rounds` or `data.margins` is used: rows are counted by comparing each with every end of a
cell, noisy counts become shares by bisection, and a cell's score is the normal quantile of its middle rank, as the
format says it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from dp_audit.press import Published
from dp_bundle.data.margins import Margin
from dp_bundle.manifest.columns import Scores

_Floats = NDArray[np.float64]
_MANY_CELLS = 20  # as the format says of cells at the ends, of which all other numbers below are
_HALVINGS = 200


def cells_of(margin: Margin, rows: _Floats) -> NDArray[np.int64]:
    """Return the cell of every row, given the published columns of the margin's raw column, with NaN in gaps."""
    if rows.shape[1] > 1 and not margin.counts_numbers:
        cells = (rows * np.arange(rows.shape[1])).sum(axis=1)  # of its level, which alone is 1
    else:
        cells = (margin.edges[None, :] <= rows[:, :1]).sum(axis=1)
    if margin.has_gaps:
        cells = np.where(np.isnan(rows[:, 0]), len(margin.counts) - 1, cells)
    return np.asarray(cells, dtype=np.int64)


def noise_of_margins(published: Published, values: _Floats) -> list[NDArray[np.int64]]:
    """Return what the noisy counts of every raw column are away from those of the rows that were published."""
    return [
        margin.counts - np.bincount(cells_of(margin, rows), minlength=len(margin.counts))
        for margin, rows in _rows_of_margins(published, values)
    ]


def in_scores(published: Published, values: _Floats) -> _Floats:
    """Return the rows with what was replaced by scores in these; gaps remain NaN."""
    stated = published.release.margins
    scored = values.copy()
    starts = _starts(published)
    for (margin, rows), start in zip(_rows_of_margins(published, values), starts, strict=True):
        if stated is not None and isinstance(published.release.columns[start].transform, Scores):
            scores = _scores(margin, published.release.n_rows, stated.sigma)
            cells = np.minimum(cells_of(margin, rows), len(scores) - 1)
            scored[:, start] = np.where(np.isnan(rows[:, 0]), np.nan, scores[cells])
    return scored


def _rows_of_margins(published: Published, values: _Floats) -> list[tuple[Margin, _Floats]]:
    starts = _starts(published)
    parts = zip(published.margins, starts, [*starts[1:], values.shape[1]], strict=True)
    return [(margin, values[:, start:end]) for margin, start, end in parts]


def _starts(published: Published) -> list[int]:
    """Return the place of the first published column of every raw one."""
    names: Sequence[str] = [column.source_name for column in published.release.columns]
    return [place for place, name in enumerate(names) if not place or name != names[place - 1]]


def _scores(margin: Margin, n_rows: int, sigma: float) -> _Floats:
    shares = _shares(margin, n_rows, sigma)
    filled = shares[: len(shares) - 1] if margin.has_gaps else shares
    if not filled.sum() > 0:
        return np.zeros(len(filled))
    below = np.array([filled[:place].sum() for place in range(len(filled))])
    ranks = (below + filled / 2) / filled.sum()
    scores: _Floats = stats.norm.ppf(np.minimum(np.maximum(ranks, 0.5 / n_rows), 1 - 0.5 / n_rows))
    return scores


def _shares(margin: Margin, n_rows: int, sigma: float) -> _Floats:
    """Return the nearest shares that are not negative and add up to 1, the counts at the ends being shared out."""
    counts = margin.counts.astype(np.float64)
    n_filled = len(counts) - margin.has_gaps
    first = last = 0
    if not margin.labels and n_filled > _MANY_CELLS:
        first, last = _n_together(counts[:n_filled], sigma), _n_together(counts[:n_filled][::-1], sigma)
        first, last = (first, last) if first + last < n_filled else (0, 0)
    shares = counts / n_rows
    shares[:first] = _spread(shares[:first], n_filled)
    shares[n_filled - last : n_filled] = _spread(shares[n_filled - last : n_filled][::-1], n_filled)[::-1]
    kept = np.r_[first : n_filled - last, n_filled : len(shares)]
    left = 1 - shares[:first].sum() - shares[n_filled - last : n_filled].sum()
    if left <= 0:
        shares, kept, left = counts / n_rows, np.arange(len(counts)), 1.0

    low, high = shares[kept].min() - 1, shares[kept].max()  # of the level that is taken off
    for _ in range(_HALVINGS):
        level = (low + high) / 2
        low, high = (level, high) if np.maximum(shares[kept] - level, 0).sum() > left else (low, level)
    shares[kept] = np.maximum(shares[kept] - (low + high) / 2, 0)
    return shares


def _n_together(counts: _Floats, sigma: float) -> int:
    for j in range(1, len(counts) + 1):
        behind = counts[j : j + max(j, 3)]
        own, after = counts[:j].sum() / j**0.5, behind.sum() / max(len(behind), 1) ** 0.5
        if own > 4 * sigma or (own > 2 * sigma and after > 3 * sigma) or counts[j - 1] > 5 * sigma:
            return j - 1
    return len(counts)


def _spread(shares: _Floats, n_filled: int) -> _Floats:
    parts = np.array([np.exp(-60 * (len(shares) - 1 - place) / n_filled) for place in range(len(shares))])
    spread: _Floats = max(0.0, shares.sum()) * parts / parts.sum() if len(shares) else shares
    return spread
