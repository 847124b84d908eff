"""Synthetic rows in a file, and beside it what they keep of the release and what not, as measured on them.

They are drawn from the Gaussian copula of a release: its raw columns, and the correlations of the variables behind
them. A release with histograms has the margins. Of any other, numbers are taken for normal, with the mean and the
deviation that are learned from it. Levels have the shares that follow from their means.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from dp_bundle.base.arrays import Floats
from dp_bundle.base.errors import DpGraphError, EstimationError, ParameterError
from dp_bundle.base.quoting import guard_cell, name_columns, quote_path
from dp_bundle.bundle.opened import Bundle
from dp_bundle.bundle.writing import errors_of_writing
from dp_bundle.data.learned import Spread, require_reader
from dp_bundle.data.margins import Margin, shares_of
from dp_bundle.files.new_files import require_folder, whole_file
from dp_bundle.manifest.columns import NO_VALUE, Column, Source, source_names
from dp_bundle.manifest.dataset import POSITIVE, WHOLE
from dp_bundle.manifest.release import Release
from dp_bundle.synthetic.columns import (
    Drawn,
    Histogram,
    LevelColumn,
    Normal,
    NumberColumn,
    RawColumn,
    correlations_of,
    draw_rows,
    root_of,
)

ENDINGS = (".parquet", ".csv")
_KEPT = ["the distribution of each column by itself", "how strongly columns go together, two at a time"]
_NORMAL = (
    "the mean and the standard deviation of each column, as far as its bounds allow, and the shares of levels. As "
    "there are no histograms, numbers have a normal distribution. It is clipped to the bounds, or at zero if the "
    "release says that none seems to be below"
)
_LOST = [
    "everything else: links that bend or come and go, what three columns do together, subgroups and rare combinations",
    "any row of the original table: no row here is about somebody",
    "standard errors: an analysis of these rows takes them for certain, and does not know the noise of the release",
]
_SEED = "The seed is no secret: everything here follows from the release, which is public, and costs no privacy."
_NUMBERS = 2**21  # of variables at once
_MOST_ROWS = 2**16
_LEAST_PART = 1e-3  # of a number's variance
_TWO_VALUES = 1.5  # times the least variance that whole numbers from 0 can have, which zeros and ones have
_STANDS_OUT = 3.0  # standard deviations of a count of gaps


def side_path(path: Path) -> Path:
    """Return the path of the file that says what synthetic rows keep: NAME.synthetic.json beside them."""
    return path.with_name(f"{path.name.removesuffix(path.suffix).removesuffix('.synthetic')}.synthetic.json")


def write_synthetic(bundle: Bundle, path: Path, n_rows: int, seed: int) -> dict[str, Any]:
    """Draw rows from a verified bundle into a new file, and write beside it what they keep.

    It needs memory for one batch of rows. The same bundle, number of rows and seed give the same bytes, with the same
    versions of numpy and pyarrow.

    Parameters
    ----------
    bundle : Bundle
        Of any release; correlations come without the noise's part.
    path : Path
        A name that ends in .parquet or .csv.
    n_rows, seed : int
        How many rows, and what they follow from.

    Returns
    -------
    dict
        What the file beside the rows says.

    Raises
    ------
    ParameterError
        The name ends otherwise, or there is no such folder.
    DpGraphError
        A file is there already or cannot be written, or nobody on this machine learns from releases.
    EstimationError
        Nothing can be learned from this release.
    BundleFormatError
        The data are not what the manifest says.

    Notes
    -----
    The entries:

    synthetic
        true
    note
        that no row is real, and the seed no secret
    n_rows, seed
        as asked for
    dataset, release_number, manifest_sha256
        the release that they were drawn from
    file
        the rows
    keeps, does_not_keep
        sentences
    columns_left_out
        raw columns that noise drowns
    measured.correlation_pairs
        pairs with a released correlation
    measured.correlation_difference_median, _largest
        over these, of the rows from the release without the noise's part
    measured.kolmogorov_distance
        by raw column with a histogram or levels: the largest difference of cumulative shares from the release
    measured.mean_difference, measured.deviation_ratio
        by other column: the mean from the release's, in standard deviations; the standard deviation over the
        release's
    """
    if path.suffix.lower() not in ENDINGS:
        raise ParameterError("--out", "a file whose name ends in .parquet or .csv", str(path))
    require_folder(path)
    beside = side_path(path)
    for target in (path, beside):
        if os.path.lexists(target):
            raise DpGraphError(_taken(target))

    copula = copula_of(bundle)
    label = {
        "synthetic": True,
        "note": f"Rows drawn from a release with differential privacy; none is real. {_SEED}",
        "n_rows": n_rows,
        "seed": seed,
        "dataset": bundle.release.dataset.name,
        "release_number": bundle.release.lineage.number,
        "manifest_sha256": bundle.manifest_sha256,
    }
    measured = _Measured(copula)
    with errors_of_writing(beside, _taken(beside)), whole_file(beside) as about:
        with errors_of_writing(path, _taken(path)), whole_file(path) as file:
            batches = _batches(copula, copula.draw(n_rows, seed), measured)
            _write(batches, file, label, is_csv=path.suffix.lower() == ".csv")
        document = {**label, "file": path.name, **_kept(copula), "measured": measured.figures()}
        about.write(json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False).encode() + b"\n")
    return document


def describe_kept(document: dict[str, Any]) -> str:
    """Return in words how well rows keep the release, and which columns they do not have."""
    measured, left_out = document["measured"], document["columns_left_out"]
    median, distances = measured["correlation_difference_median"], measured["kolmogorov_distance"].values()
    off, ratios = measured["mean_difference"].values(), measured["deviation_ratio"].values()
    parts = [f"distributions within {max(distances):.2g} of the release"] if distances else []
    if off:
        percent = 100.0 * max(abs(each - 1.0) for each in ratios)
        parts.append(f"means within {max(off):.2g} standard deviations of the release")
        parts.append(f"standard deviations within {percent:.3g} %")
    said = "; ".join(parts)
    if median is not None:
        largest = measured["correlation_difference_largest"]
        said += f", correlations within {median:.2g} in the median and {largest:.2g} at most"
    return f"{said}; without {name_columns(left_out)}, which noise drowns" if left_out else said


def _taken(path: Path) -> str:
    return f"there is a file at {quote_path(path)} already: give another --out"


def _kept(copula: Copula) -> dict[str, Any]:
    keeps = _KEPT if copula.has_margins else [_NORMAL, *_KEPT[1:]]
    return {"keeps": keeps, "does_not_keep": _LOST, "columns_left_out": list(copula.unknown)}


def _batches(copula: Copula, drawn: Iterator[list[Drawn]], measured: _Measured) -> Iterator[pa.RecordBatch]:
    names = [column.name for column in copula.columns]
    for batch in drawn:
        measured.add(batch)
        yield pa.RecordBatch.from_arrays([each.values() for each in batch], names)


def _write(batches: Iterator[pa.RecordBatch], file: BinaryIO, label: dict[str, Any], *, is_csv: bool) -> None:
    first = next(batches)
    writer = _csv(first.schema, file) if is_csv else _parquet(first.schema, file, label)
    with writer as write:
        write(first)
        for batch in batches:
            write(batch)


@contextmanager
def _parquet(schema: pa.Schema, file: BinaryIO, label: dict[str, Any]) -> Iterator[Callable[[pa.RecordBatch], None]]:
    stated = schema.with_metadata({"synthetic": json.dumps(label, ensure_ascii=False)})
    with pq.ParquetWriter(file, stated, compression="ZSTD") as writer:
        yield lambda batch: writer.write_batch(batch.replace_schema_metadata(stated.metadata))


@contextmanager
def _csv(schema: pa.Schema, file: BinaryIO) -> Iterator[Callable[[pa.RecordBatch], None]]:
    names = [guard_cell(name) for name in schema.names]
    plain = pa.schema([(name, _plain(kind)) for name, kind in zip(names, schema.types, strict=True)])
    with pa_csv.CSVWriter(file, plain) as writer:
        yield lambda batch: writer.write_batch(
            pa.RecordBatch.from_arrays([_plain_array(each) for each in batch.columns], schema=plain)
        )


def _plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return pa.string()
    return pa.float64() if pa.types.is_duration(kind) else kind


def _plain_array(values: pa.Array) -> pa.Array:
    """Return values as CSV has them: levels as guarded text, durations in seconds."""
    if pa.types.is_dictionary(values.type):
        guarded = pa.array([guard_cell(level) for level in values.dictionary.to_pylist()], pa.string())
        return pa.DictionaryArray.from_arrays(values.indices, guarded).cast(pa.string())
    if pa.types.is_duration(values.type):
        return pa.array(values.cast(pa.int64()).to_numpy(zero_copy_only=False) / 1e6, from_pandas=True)
    return values


class _Measured:
    """What rows that were drawn are like, beside the release."""

    def __init__(self, copula: Copula) -> None:
        self.copula, p = copula, len(copula.released)
        self.n_rows, self.sums, self.products = 0, np.zeros(p), np.zeros((p, p))
        self.counts = [np.zeros(len(column.shares), dtype=np.int64) for column in copula.columns]

    def add(self, batch: Sequence[Drawn]) -> None:
        """Count some rows."""
        published = np.zeros((len(batch[0].cells), len(self.sums)))
        for column, counts, drawn in zip(self.copula.columns, self.counts, batch, strict=True):
            published[:, list(column.places)] = drawn.published
            counts += np.bincount(drawn.cells, minlength=len(counts))
        self.n_rows += len(published)
        self.sums += published.sum(axis=0)
        self.products += published.T @ published

    def figures(self) -> dict[str, Any]:
        """Return the differences of correlations of published columns, and the Kolmogorov distance of each margin."""
        found = correlations_of(self.products, self.sums, self.n_rows)
        raw = np.full(len(found), -1)
        for number, column in enumerate(self.copula.columns):
            raw[list(column.places)] = number
        pairs = np.nonzero(np.triu(raw[:, None] != raw))  # levels or gaps of one column tell nothing of two
        missed: Floats = np.abs(found - np.clip(self.copula.released, -1.0, 1.0))[pairs]
        missed = missed[np.isfinite(missed)]
        distances = {
            column.name: round(float(np.abs(np.cumsum(counts / self.n_rows - column.shares)).max()), 6)
            for column, counts in zip(self.copula.columns, self.counts, strict=True)
            if not _is_normal(column)
        }
        means, deviations = self._moments()
        return {
            "correlation_pairs": len(missed),
            "correlation_difference_median": round(float(np.median(missed)), 6) if len(missed) else None,
            "correlation_difference_largest": round(float(missed.max()), 6) if len(missed) else None,
            "kolmogorov_distance": distances,
            "mean_difference": means,
            "deviation_ratio": deviations,
        }

    def _moments(self) -> tuple[dict[str, float], dict[str, float]]:
        """Return of the numbers without a histogram how far their means are off, in deviations, and these, relative."""
        means, deviations = dict[str, float](), dict[str, float]()
        for column in self.copula.columns:
            if isinstance(column, NumberColumn) and _is_normal(column):
                place, n_filled = column.places[0], (1.0 - column.gap_share) * self.n_rows
                mean, square = self.sums[place] / n_filled, self.products[place, place] / n_filled
                means[column.name] = round(abs(float(mean)), 6)
                deviations[column.name] = round(math.sqrt(max(float(square - mean * mean), 0.0)), 6)
        return means, deviations


def _is_normal(column: RawColumn) -> bool:
    return isinstance(column, NumberColumn) and isinstance(column.body, Normal)


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
        kept = self.release.ends_of(self.first)
        body = Histogram(margin, shares[: margin.n_filled], n_rows, self.first.bounds, sigma, kept)
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
        low, high = column.limits
        if len(self.places) > 1:  # gaps stand at the center
            gap_variable, gap_share = self.places[1], min(max(float(spread.means[self.places[1]]), 0.0), 0.99)
            fill = column.standards[0].center if column.standards else 0.5 * (low + high)
            mean = (mean - gap_share * fill) / (1.0 - gap_share)
            variance = deviation**2 / (1.0 - gap_share) - gap_share * (mean - fill) ** 2
            deviation = max(variance, _LEAST_PART * deviation**2) ** 0.5
        is_whole = column.kind == "integer" or self._is_listed(WHOLE)
        is_whole = is_whole or (self.source is not None and self.source.is_whole)
        if column.bounds is None and self._is_listed(POSITIVE):
            low = 0.0
            if is_whole and deviation**2 < _TWO_VALUES * mean * (1.0 - mean):
                high = 1.0
        body = Normal(mean, deviation, (low, high), is_whole=is_whole)
        return self._numbers(body, gap_share, gap_variable)

    def _is_listed(self, field: str) -> bool:
        """Return whether a further field of the dataset, which may hold anything, is a list with this column."""
        listed = self.release.dataset.further.get(field)
        return isinstance(listed, list) and self.first.name in listed

    def _numbers(
        self, body: Histogram | Normal, gap_share: float = 0.0, gap_variable: int | None = None
    ) -> NumberColumn:
        kind = "number" if self.source is None else self.source.kind
        return NumberColumn(self.name, kind, self.places, body, self.labels, self.gap_label, gap_share, gap_variable)
