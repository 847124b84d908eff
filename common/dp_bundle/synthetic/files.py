"""Synthetic rows in a file, and beside it what they keep of the release and what not, as measured on them."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from dp_bundle.base.errors import DpGraphError, ParameterError
from dp_bundle.base.quoting import guard_cell, name_columns, quote_path
from dp_bundle.bundle.opened import Bundle
from dp_bundle.bundle.writing import errors_of_writing
from dp_bundle.data.margins import Floats
from dp_bundle.files.new_files import require_folder, whole_file
from dp_bundle.synthetic.calibration import RawColumn, correlations_of
from dp_bundle.synthetic.columns import Drawn, Normal, NumberColumn
from dp_bundle.synthetic.copula import Copula, copula_of

ENDINGS = (".parquet", ".csv")
_KEPT = ["the distribution of each column by itself", "how strongly columns go together, two at a time"]
_NORMAL = (
    "the mean and the standard deviation of each column, as far as its bounds allow, and the shares of levels; numbers "
    "have a normal distribution that is clipped to the bounds, as the release has no histograms"
)
_LOST = [
    "everything else: links that bend or come and go, what three columns do together, subgroups and rare combinations",
    "any row of the original table: no row here is about somebody",
    "standard errors: an analysis of these rows takes them for certain, and does not know the noise of the release",
]
_SEED = "The seed is no secret: everything here follows from the release, which is public, and costs no privacy."


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
        parts.append(f"means within {max(off):.2g} standard deviations of the release, these within {percent:.3g} %")
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
