"""The histograms of a release: noisy counts of what each raw column holds, and what follows from them.

Levels that were replaced at random are counted as they came out.

A raw column is counted in cells: a number between two ends, a level, or a gap, each row in exactly one. Noisy counts
become shares that are not negative and add up to 1, and a cell's normal score is the standard normal quantile of its
middle rank: that of the share of the cells below it and of half its own, among rows with a value.

References
----------
Liu, Lafferty & Wasserman (2009), The nonparanormal, JMLR 10. Duchi, Shalev-Shwartz, Singer & Chandra (2008), Efficient
projections onto the l1-ball, ICML, for the projection onto the simplex.
"""

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dp_bundle.manifest.columns import RandomizedResponse
from dp_bundle.manifest.release import Release

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]
_FALL = 60.0  # of the logarithm of shares far out, along as many cells as there are
_MANY = 20  # cells, of which those at the ends may be empty
_STANDS_OUT, _STANDS_OUT_ALONE = 2.0, 4.0  # standard deviations of a sum of counts, from an end of the cells on
_HEAP = 5.0  # of a cell by itself, which a sum over many empty ones would hide
_NEXT, _STANDS_OUT_NEXT = 3, 3.0  # cells at least behind them, of a sum of as many, and its standard deviations


@dataclass(frozen=True, eq=False)
class Margin:
    """The noisy histogram of one raw column.

    Attributes
    ----------
    name : str
        The raw column.
    edges : ndarray of float64, shape (m - 1,)
        Between the m cells of numbers, ascending: a value is in the cell of index k if k of them are at most as large.
        Empty where cells are levels without an order.
    labels : tuple of str
        The levels, one for each cell; empty where these are of numbers alone.
    has_gaps : bool
        Whether there is a last cell, of rows without a value.
    counts : ndarray of int64, shape (m,) or (m + 1,)
        With noise.
    response : RandomizedResponse or None
        The chance by which levels were replaced, where that is the noise.
    """

    name: str
    edges: Floats
    labels: tuple[str, ...] = ()
    has_gaps: bool = False
    counts: Counts = field(default_factory=lambda: np.zeros(0, dtype=np.int64), repr=False)
    response: RandomizedResponse | None = None

    @property
    def counts_numbers(self) -> bool:
        """True if cells are of numbers, places of levels in an order among them."""
        return bool(len(self.edges)) or not self.labels

    @property
    def n_filled(self) -> int:
        """The number of cells of rows with a value."""
        return len(self.counts) - self.has_gaps

    def shares(self, n_rows: int, sigma: float) -> Floats:
        """Return the share of all rows in each cell: not negative, and 1 together.

        The counts of cells at either end of many numbers are taken together as long as their sum does not stand out
        from the noise, and that sum, if it is positive, is shared out over them, most to the innermost. All others have
        what is left, as the nearest shares that are not negative.

        Parameters
        ----------
        n_rows : int
            The number of rows, which is public.
        sigma : float
            The standard deviation of the noise on a count.
        """
        if self.response is not None:
            return shares_of(self.response.share_before(self.counts / n_rows))
        shares, at_ends = self.counts / n_rows, np.zeros(len(self.counts), dtype=bool)
        if not self.labels and self.n_filled > _MANY:
            filled = shares[: self.n_filled]
            first, last = _not_alone(filled, sigma / n_rows), _not_alone(filled[::-1], sigma / n_rows)
            at_ends[:first] = at_ends[self.n_filled - last : self.n_filled] = first + last < self.n_filled
            if at_ends.any():
                _share_out(filled[:first], self.n_filled)
                _share_out(filled[::-1][:last], self.n_filled)
        left = 1.0 - float(shares[at_ends].sum())
        if left <= 0.0:  # noise alone
            return shares_of(self.counts / n_rows)
        shares[~at_ends] = shares_of(shares[~at_ends], left)
        return shares


def response_margins(release: Release, means: Floats) -> tuple[Margin, ...]:
    """Return the counts of the levels that were replaced at random, from the means of all published columns."""
    columns, found = {column.name: place for place, column in enumerate(release.columns)}, []
    for source in release.sources:
        places = [columns[name] for name in source.columns]
        if (response := release.columns[places[0]].response) is not None:
            seen = means[places] if source.has_level_columns else np.append(1.0 - means[places], means[places])
            counts = np.rint(release.n_rows * seen).astype(np.int64)
            found.append(Margin(source.name, np.empty(0), source.levels, counts=counts, response=response))
    return tuple(found)


@dataclass(frozen=True, eq=False)
class Scores:
    """The map of one column of numbers to the scores of its cells: public.

    Attributes
    ----------
    edges : ndarray of float64, shape (m - 1,)
        Between the cells.
    scores : ndarray of float64, shape (m,)
        Of the cells, ascending.
    """

    edges: Floats
    scores: Floats

    def of(self, values: Floats) -> Floats:
        """Return the scores of values; a gap, which is NaN, remains one."""
        found: Floats = self.scores[np.searchsorted(self.edges, values, side="right")]
        return np.where(np.isnan(values), np.nan, found)


def middle_scores(shares: Floats, n_rows: int) -> Floats:
    """Return the normal score of every cell, shape (m,): the standard normal quantile of its middle rank.

    Parameters
    ----------
    shares : ndarray, shape (m,)
        Of cells in their order, not negative.
    n_rows : int
        The number of rows: no rank is taken to be nearer to an end than half a row is.
    """
    from scipy import special  # which a run without scores has no use for

    total = float(shares.sum())
    if total <= 0:
        return np.zeros(len(shares))
    ranks = (np.cumsum(shares) - 0.5 * shares) / total
    scores: Floats = special.ndtri(np.clip(ranks, 0.5 / n_rows, 1 - 0.5 / n_rows))
    return scores


def mean_and_deviation(values: Floats, shares: Floats) -> tuple[float, float]:
    """Return the mean and the standard deviation of values that have these shares, which need not add up to 1."""
    weights = shares / max(float(shares.sum()), np.finfo(np.float64).tiny)
    mean = float(weights @ values)
    return mean, math.sqrt(max(0.0, float(weights @ (values - mean) ** 2)))


def _not_alone(counts: Floats, sigma: float) -> int:
    """Return how many cells at the beginning are taken together, as their sum does not stand out.

    Of so many sums one may well exceed twice its noise by chance, so what comes next must stand out by itself then.
    They end before a cell that stands out alone, as a heap does.
    """
    size = np.arange(1, len(counts) + 1)
    sums = np.cumsum(counts)
    ends = np.minimum(size + np.maximum(size, _NEXT), len(counts))
    scores = sums / (sigma * np.sqrt(size))
    next_scores = (sums[ends - 1] - sums) / (sigma * np.sqrt(np.maximum(ends - size, 1)))
    together = (scores > _STANDS_OUT_ALONE) | ((scores > _STANDS_OUT) & (next_scores > _STANDS_OUT_NEXT))
    found = np.flatnonzero(together | (counts > _HEAP * sigma))
    return int(found[0]) if found.size else len(counts)


def _share_out(counts: Floats, n_cells: int) -> None:
    """Share out the sum of counts at a beginning over their cells, each having a part of the next one's; in place.

    The more cells there are, the finer they are, and the larger is that part.
    """
    if not len(counts):
        return
    parts = np.exp(-_FALL / n_cells * np.arange(len(counts))[::-1])
    counts[:] = max(0.0, float(counts.sum())) * parts / parts.sum()


def shares_of(shares: Floats, total: float = 1.0) -> Floats:
    """Return the nearest shares that are not negative and add up to a total (the projection onto the simplex)."""
    falling = np.sort(shares)[::-1]
    excess = (np.cumsum(falling) - total) / np.arange(1, len(shares) + 1)
    level = excess[np.flatnonzero(falling > excess)[-1]]
    projected: Floats = np.maximum(shares - level, 0.0)
    return projected
