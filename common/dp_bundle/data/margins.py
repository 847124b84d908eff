"""The histograms of a release: noisy counts of what each raw column holds, and what follows from them.

Levels that were replaced at random are counted as they came out.

A raw column is counted in cells: a number between two ends, a level, or a gap, each row in exactly one. Noisy counts
become shares that are not negative and add up to 1. A cell's normal score is the standard normal quantile of its middle
rank. That is the share of the cells below it and half its own, among rows with a value.

**The file** has one row for each cell of each raw column, as Parquet. It has the raw column's name, the level, both
ends of the cell, and the noisy count. A cell of numbers holds x with low <= x < high, and the first and the last of a
column reach to infinity. Levels that are published as a column each have no ends, which are NaN then; the level of a
cell without one is empty. Rows without a value are counted in the last cell, whose level is `(no value)`. No other
order is accepted, no ends beyond the bounds, and no count that the stated noise cannot have produced. Texts are
compared once each, and a file has no more cells than bytes but for some, so that a small one takes little memory.

References
----------
Liu, Lafferty & Wasserman (2009), The nonparanormal, JMLR 10. Duchi, Shalev-Shwartz, Singer & Chandra (2008), Efficient
projections onto the l1-ball, ICML, for the projection onto the simplex.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import BinaryIO

import numpy as np
import pyarrow as pa

from dp_bundle.base.arrays import Floats, Integers
from dp_bundle.base.errors import BundleFormatError
from dp_bundle.base.quoting import Brief
from dp_bundle.data.parquet import GROUP_ROWS, CheckedParquet, FileShape, write_labelled
from dp_bundle.data.rows import label_places, text_to_arrow, to_numpy
from dp_bundle.manifest.columns import NO_VALUE, Column, RandomizedResponse, Source
from dp_bundle.manifest.release import MARGINS_NAME, Release

_FALL = 60.0  # of the logarithm of shares far out, along as many cells as there are
_MANY = 20  # cells, of which those at the ends may be empty
_STANDS_OUT, _STANDS_OUT_ALONE = 2.0, 4.0  # standard deviations of a sum of counts, from an end of the cells on
_HEAP = 5.0  # of a cell by itself, which a sum over many empty ones would hide
_NEXT, _STANDS_OUT_NEXT = 3, 3.0  # cells at least behind them, of a sum of as many, and its standard deviations
MOST_CELLS = 1_024  # of a raw column
_TYPES = {"column": pa.string(), "level": pa.string(), "low": pa.float64(), "high": pa.float64(), "count": pa.int64()}
_SCHEMA = pa.schema([pa.field(name, kind, nullable=False) for name, kind in _TYPES.items()])
_DEVIATIONS = 1000.0  # that no noise is away from its mean: with a probability of less than e^-1000
_FARTHEST = 1e70  # an end of a cell, so that products of four are still numbers
_LEAST_BYTES = 2**16  # in addition to one for each cell, the least that noise takes
_OTHER = f"{MARGINS_NAME} does not hold the histograms that its manifest describes"


@dataclass(frozen=True, eq=False)
class Margin(Brief):
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
    counts: Integers = field(default_factory=lambda: np.zeros(0, dtype=np.int64), repr=False)
    response: RandomizedResponse | None = None

    @property
    def counts_numbers(self) -> bool:
        """True if cells are of numbers, places of levels in an order among them."""
        return bool(len(self.edges)) or not self.labels

    @property
    def is_whole(self) -> bool:
        """True if cells are of whole numbers."""
        return bool(len(self.edges)) and bool((self.edges % 1.0 == 0.5).all())

    @property
    def n_filled(self) -> int:
        """The number of cells of rows with a value."""
        return len(self.counts) - self.has_gaps

    def shares(self, n_rows: int, sigma: float) -> Floats:
        """Return the share of all rows in each cell: not negative, and 1 together.

        The counts of cells at either end of many numbers are taken together as long as their sum does not stand out
        from the noise. That sum, if it is positive, is shared out over them, most to the innermost. All others have
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
    weights = parts_of(shares)
    mean = float(weights @ values)
    return mean, math.sqrt(max(0.0, float(weights @ (values - mean) ** 2)))


def parts_of(shares: Floats) -> Floats:
    """Return shares as parts of their sum, all zero where that is."""
    return shares / max(float(shares.sum()), np.finfo(np.float64).tiny)


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


def write_margins(margins: Sequence[Margin], file: BinaryIO) -> None:
    """Write histograms; the inverse of `read_margins`.

    Parameters
    ----------
    margins : sequence of Margin
        Of all raw columns, in order.
    file : binary file
        New and empty.
    """
    write_labelled(margin_table(margins), file, ["column", "level"], compression="ZSTD")


def margin_table(margins: Sequence[Margin]) -> pa.Table:
    """Return histograms as a table, with the columns and the order of the file."""
    columns, levels, lows, highs, counts = list[str](), list[str](), list[Floats](), list[Floats](), list[int]()
    for margin in margins:
        size, low, high = len(margin.counts), *_ends(margin)
        columns += [margin.name] * size
        levels += [*(margin.labels or [""] * margin.n_filled), *([NO_VALUE] if margin.has_gaps else [])]
        lows.append(low)
        highs.append(high)
        counts += margin.counts.tolist()
    arrays = [pa.array(columns, pa.string()), pa.array(levels, pa.string())]
    arrays += [pa.array(np.concatenate(each), pa.float64(), from_pandas=False) for each in (lows, highs)]
    return pa.Table.from_arrays([*arrays, pa.array(counts, pa.int64())], schema=_SCHEMA)


def read_margins(file: BinaryIO, release: Release) -> tuple[Margin, ...]:
    """Return the histograms of the raw columns, after checking them against the manifest.

    Parameters
    ----------
    file : binary file
        The verified member, seekable.
    release : Release
        What the manifest says.

    Returns
    -------
    tuple of Margin
        By raw column, in the order in which these are published.

    Raises
    ------
    BundleFormatError
        The release has none, or the file is not Parquet, not in its order, or holds what the noise cannot have
        produced.
    """
    stated = release.margins
    if stated is None:
        raise BundleFormatError("this release has no histograms")
    columns = release.first_columns
    names, sources = [*reversed(columns)], {source.columns[0]: source for source in release.sources}
    levels = [level for source in release.sources for level in source.levels]
    known = [*dict.fromkeys([*names, *levels, "", NO_VALUE])]
    cells = _read_cells(file, known, len(names))

    starts = np.flatnonzero(np.diff(cells.names, prepend=-1))
    if not np.array_equal(cells.names[starts], np.arange(len(names))):
        raise BundleFormatError(_OTHER)
    places = {label: place for place, label in enumerate(known)}
    ends = [*starts[1:].tolist(), len(cells.names)]
    margins = tuple(
        _margin(columns[name], sources.get(columns[name].name), cells.between(start, end), places)
        for name, start, end in zip(names, starts.tolist(), ends, strict=True)
    )
    noise = _DEVIATIONS * stated.sigma
    if cells.counts.min() < -noise or cells.counts.max() > release.n_rows + noise:
        raise BundleFormatError(
            f"{MARGINS_NAME} holds a count below {-noise:.6g} or above {release.n_rows + noise:.6g}, which its rows "
            "and noise cannot give"
        )
    return margins


@dataclass(frozen=True)
class _Cells:
    """The columns of the file; texts are their places among those that may occur."""

    names: Integers
    levels: Integers
    low: Floats
    high: Floats
    counts: Integers

    def between(self, start: int, end: int) -> _Cells:
        """Return the cells from one place to before another."""
        own = slice(start, end)
        return _Cells(self.names[own], self.levels[own], self.low[own], self.high[own], self.counts[own])


def _read_cells(file: BinaryIO, known: list[str], n_names: int) -> _Cells:
    """Return the cells of all histograms in the order of the file, if their texts are known ones."""
    n_bytes = file.seek(0, os.SEEK_END)
    shape = FileShape(n_names * MOST_CELLS, GROUP_ROWS, _SCHEMA, tuple(known))
    parquet = CheckedParquet(MARGINS_NAME, file, shape)
    if not 0 < parquet.n_rows <= n_bytes + _LEAST_BYTES:
        raise BundleFormatError(f"{MARGINS_NAME} has fewer bytes than so many counts with noise")
    groups = enumerate(parquet.group_rows)
    table = pa.Table.from_batches(
        [batch for group, rows in groups for batch in parquet.read(file, group, rows, ["column", "level"])]
    )

    texts, words = [], text_to_arrow(known)
    for name in ("column", "level"):
        found = [label_places(chunk, words) for chunk in table[name].chunks]
        places = [each for each in found if each is not None]
        if len(places) < len(found):
            raise BundleFormatError(_OTHER)
        texts.append(np.concatenate(places))
    if any(table[name].null_count for name in _TYPES):
        raise BundleFormatError(f"{MARGINS_NAME} has empty cells, which no release has")
    low, high, counts = (np.concatenate([*map(to_numpy, table[name].chunks)]) for name in ("low", "high", "count"))
    return _Cells(texts[0], texts[1], low, high, counts)


def _ends(margin: Margin) -> tuple[Floats, Floats]:
    """Return the lower and the upper ends of a histogram's cells."""
    low, high = np.full(len(margin.counts), math.nan), np.full(len(margin.counts), math.nan)
    if margin.counts_numbers:
        low[: margin.n_filled] = [-math.inf, *margin.edges]
        high[: margin.n_filled] = [*margin.edges, math.inf]
    return low, high


def _margin(column: Column, source: Source | None, cells: _Cells, places: dict[str, int]) -> Margin:
    """Return one histogram, if it has the cells of its raw column."""
    labels = source.levels if source is not None else ()
    n_filled = len(cells.counts) - column.has_gap_cell
    if not 0 < n_filled <= MOST_CELLS or (labels and n_filled != len(labels)):
        raise BundleFormatError(_OTHER)
    has_ends = source is None or not source.has_level_columns
    edges = cells.high[: n_filled - 1] if has_ends else np.empty(0)
    margin = Margin(column.source_name, edges, labels, column.has_gap_cell, cells.counts)

    low, high = column.bounds or (-_FARTHEST, _FARTHEST)
    due = [*(labels or [""] * n_filled), *([NO_VALUE] if column.has_gap_cell else [])]
    sound = bool((np.diff(edges) > 0).all() and ((low < edges) & (edges < high)).all())
    sound = sound and np.array_equal(cells.levels, [places[level] for level in due])
    ends = zip((cells.low, cells.high), _ends(margin), strict=True)
    if not sound or not all(np.array_equal(*each, equal_nan=True) for each in ends):
        raise BundleFormatError(_OTHER)
    return margin
