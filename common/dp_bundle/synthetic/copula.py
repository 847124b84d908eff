"""The Gaussian copula of a release: its raw columns, and the correlations of the variables behind them.

A release by normal scores has the margins. Of any other, numbers are taken for normal, with the mean and the deviation
that are learned from it, and levels have the shares that follow from their means.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dp_bundle.base.errors import EstimationError
from dp_bundle.base.quoting import name_columns
from dp_bundle.bundle.opened import Bundle
from dp_bundle.data.margins import Floats, Margin, shares_of
from dp_bundle.manifest.columns import Column, source_names
from dp_bundle.manifest.release import Release
from dp_bundle.manifest.sources import NO_VALUE, Source
from dp_bundle.portals.learned import Spread, require_reader
from dp_bundle.synthetic.calibration import RawColumn, draw_rows, root_of
from dp_bundle.synthetic.columns import Drawn, Histogram, LevelColumn, Normal, NumberColumn

_NUMBERS = 2**21  # of variables at once
_MOST_ROWS = 2**16
_LEAST_PART = 1e-3  # of a number's variance
_STANDS_OUT = 3.0  # standard deviations of a count of gaps


@dataclass(frozen=True, eq=False)
class Copula:
    """What rows are drawn from.

    Attributes
    ----------
    columns : tuple of RawColumn
        Those that rows have, in order.
    unknown : tuple of str
        Raw columns that noise drowns, of which nothing is known: rows do not have them.
    released : ndarray, shape (p, p)
        The correlations of the published columns; NaN where they are unknown.
    root : ndarray, shape (p, p)
        What independent variables are multiplied by.
    n_apart : int
        How many further variables are independent of all.
    has_margins : bool
        Whether the release has histograms, or numbers are taken for normal.
    """

    columns: tuple[RawColumn, ...]
    unknown: tuple[str, ...]
    released: Floats
    root: Floats
    n_apart: int
    has_margins: bool

    @property
    def batch_rows(self) -> int:
        """How many rows are drawn at once at most, which the rows of a seed depend on."""
        return max(1, min(_MOST_ROWS, _NUMBERS // (len(self.root) + self.n_apart)))

    def draw(self, n_rows: int, seed: int) -> Iterator[list[Drawn]]:
        """Yield rows in batches, by raw column."""
        rng = np.random.Generator(np.random.PCG64(seed))
        n_batches = -(-n_rows // self.batch_rows)
        for batch in range(n_batches):
            size = n_rows * (batch + 1) // n_batches - n_rows * batch // n_batches
            yield draw_rows(self.columns, rng, size, self.root, self.n_apart)


def copula_of(bundle: Bundle) -> Copula:
    """Return the Gaussian copula of a verified bundle.

    Raises
    ------
    DpGraphError
        Nobody on this machine learns from releases.
    EstimationError
        Nothing can be learned from this one, or noise drowns all its columns.
    BundleFormatError
        The data are not what the manifest says.
    """
    reader, release = require_reader(), bundle.release
    learned = reader.correlations(bundle, of_scores=True)
    if release.margins is not None:
        margins, spread = {margin.name: margin for margin in bundle.margins()}, None
    else:
        margins, spread = {}, reader.spread(bundle)
    p, n_apart, columns, unknown = len(release.columns), 0, list[RawColumn](), list[str]()
    sources = {source.name: source for source in release.sources}
    places = dict[str, list[int]]()
    for place, each in enumerate(release.columns):
        places.setdefault(each.source_name, []).append(place)

    for name in source_names(release.columns):
        described = _Described(release, sources.get(name), tuple(places[name]))
        column = described.by_histogram(margins[name], p + n_apart) if spread is None else described.as_normal(spread)
        if column is None:
            unknown.append(name)
            continue
        n_apart += isinstance(column, NumberColumn) and column.gap_variable == p + n_apart
        columns.append(column)
    if not columns:
        raise EstimationError(f"the noise drowns {name_columns(unknown)}: there is nothing to draw rows from")
    root = root_of(columns, learned.values, learned.standard_errors, n_apart)
    return Copula(tuple(columns), tuple(unknown), learned.values, root, n_apart, spread is None)


@dataclass(frozen=True)
class _Described:
    """A raw column as the manifest has it: the places of its published columns, and what these hold."""

    release: Release
    source: Source | None
    places: tuple[int, ...]

    @property
    def first(self) -> Column:
        """The first published column."""
        return self.release.columns[self.places[0]]

    @property
    def name(self) -> str:
        """The raw column's."""
        return self.first.source_name

    @property
    def labels(self) -> tuple[str, ...]:
        """The levels, if it has any."""
        return self.source.levels if self.source is not None else ()

    @property
    def gap_label(self) -> str | None:
        """The level that stands for no value, and for nothing else."""
        return NO_VALUE if NO_VALUE in self.labels else None

    def by_histogram(self, margin: Margin, variable: int) -> RawColumn | None:
        """Return the column with the margin that was released; a variable decides on gaps without an indicator."""
        n_rows, stated = self.release.n_rows, self.release.margins
        sigma = 0.0 if stated is None else stated.sigma
        shares = margin.shares(n_rows, sigma)
        if self.source is not None and self.source.has_level_columns:
            return LevelColumn(self.name, self.places, self.labels, self.gap_label, shares)
        body = Histogram(margin, shares[: margin.n_filled], n_rows, self.first.bounds, sigma)
        if not margin.has_gaps:
            return self._numbers(body)
        if margin.counts[-1] <= _STANDS_OUT * sigma:  # noise alone, as far as anybody can tell
            return self._numbers(body, 0.0, self.places[1] if len(self.places) > 1 else None)
        return self._numbers(body, float(shares[-1]), self.places[1] if len(self.places) > 1 else variable)

    def as_normal(self, spread: Spread) -> RawColumn | None:
        """Return the column with a normal margin, and levels by their shares; None if its deviation is unknown."""
        place = self.places[0]
        mean, deviation = float(spread.means[place]), float(spread.deviations[place])
        if self.source is not None and self.source.has_level_columns:
            shares = shares_of(spread.means[list(self.places)])
            return LevelColumn(self.name, self.places, self.labels, self.gap_label, shares)
        if len(self.labels) == 2 and len(self.places) == 1:
            share = min(max(mean, 0.0), 1.0)
            margin = Margin(self.name, np.array([0.5]), self.labels, counts=np.zeros(2, dtype=np.int64))
            return self._numbers(Histogram(margin, np.array([1.0 - share, share]), self.release.n_rows))
        if not np.isfinite(deviation):
            return None

        gap_share, gap_variable, column = 0.0, None, self.first
        low, high = column.bounds or (-np.inf, np.inf)
        if len(self.places) > 1:  # gaps stand at the center
            gap_variable, gap_share = self.places[1], min(max(float(spread.means[self.places[1]]), 0.0), 0.99)
            fill = column.standards[0].center if column.standards else 0.5 * (low + high)
            mean = (mean - gap_share * fill) / (1.0 - gap_share)
            variance = deviation**2 / (1.0 - gap_share) - gap_share * (mean - fill) ** 2
            deviation = max(variance, _LEAST_PART * deviation**2) ** 0.5
        is_whole = column.kind == "integer" or (self.source is not None and self.source.is_whole)
        body = Normal(mean, deviation, (low, high), is_whole=is_whole)
        return self._numbers(body, gap_share, gap_variable)

    def _numbers(
        self, body: Histogram | Normal, gap_share: float = 0.0, gap_variable: int | None = None
    ) -> NumberColumn:
        kind = "number" if self.source is None else self.source.kind
        return NumberColumn(self.name, kind, self.places, body, self.labels, self.gap_label, gap_share, gap_variable)
