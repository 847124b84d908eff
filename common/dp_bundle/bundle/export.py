"""The published numbers as CSV, for tools that read nothing else."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv

from dp_bundle.bundle.opened import Bundle
from dp_bundle.data import part_schema, triangle_table
from dp_bundle.errors import DpGraphError
from dp_bundle.files import require_folder, whole_file
from dp_bundle.quoting import guard_cell, quote_path


def export_csv(bundle: Bundle, path: Path) -> None:
    """Write the noisy rows of a bundle, or the upper triangle of its noisy second moments, to a new CSV file.

    Numbers have as many digits as it takes to read them back exactly; names pass through `guard_cell`. It needs memory
    for one batch.

    Raises
    ------
    BundleFormatError
        The data are not what the manifest says.
    ParameterError
        There is no such folder.
    DpGraphError
        There is a file at `path` already, or it cannot be written.
    """
    require_folder(path)
    batches = _batches(bundle)
    first = next(batches)
    try:
        with whole_file(path) as file, pa_csv.CSVWriter(file, first.schema) as writer:
            writer.write_batch(first)
            for batch in batches:
                writer.write_batch(batch)
    except FileExistsError as error:
        raise DpGraphError(f"there is a file at {quote_path(path)} already: give another --out") from error
    except OSError as error:
        raise DpGraphError(f"{quote_path(path)} cannot be written: {error.strerror or error}") from error


def _batches(bundle: Bundle) -> Iterator[pa.RecordBatch]:
    if bundle.release.kind == "covariance":
        labels = [guard_cell(label) for label in bundle.release.labels]
        yield from triangle_table(bundle.second_moments(), labels).to_batches()
        return
    names = [guard_cell(column.name) for column in bundle.release.columns]
    empty = pa.RecordBatch.from_pylist([], part_schema(bundle.release.columns))  # the header, if there were no rows
    for batch in itertools.chain([empty], bundle.batches()):
        yield batch.rename_columns(names)
