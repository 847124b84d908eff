"""The published numbers as CSV, for tools that read nothing else."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
from numpy.typing import NDArray

from dp_bundle.base.errors import DpGraphError
from dp_bundle.base.quoting import guard_cell, quote_path
from dp_bundle.bundle.opened import Bundle
from dp_bundle.bundle.writing import errors_of_writing
from dp_bundle.data.matrix import triangle_table
from dp_bundle.data.rows import part_schema
from dp_bundle.files.new_files import whole_file
from dp_bundle.manifest.release import CONSTANT_LABEL, FIRST_ROUND_NAME, TRANSFORM_NAME


def export_csv(bundle: Bundle, path: Path) -> list[Path]:
    """Write the noisy rows of a bundle, or the upper triangle of its noisy second moments, to a new CSV file.

    Numbers have as many digits as it takes to read them back exactly; names pass through `guard_cell`. It needs memory
    for one batch. Of a release of two rounds, the matrix of the first and the transform get files of their own beside
    it, with names that end in `-first-round` and `-transform`.

    Returns
    -------
    list of Path
        The files.

    Raises
    ------
    BundleFormatError
        The data are not what the manifest says.
    DpGraphError
        There is a file of such a name already, no such folder, or it cannot be written.
    """
    if not path.parent.is_dir():
        raise DpGraphError(f"--out must be in a folder that exists: there is no folder {quote_path(path.parent)}")
    tables = {path: _batches(bundle)}
    if FIRST_ROUND_NAME in bundle.members:
        columns = [column.name for column in bundle.release.columns]
        for name, matrix, labels in (
            (FIRST_ROUND_NAME, bundle.first_round, [*columns, CONSTANT_LABEL]),
            (TRANSFORM_NAME, bundle.transform, columns),
        ):
            tables[path.with_name(f"{path.stem}-{Path(name).stem}{path.suffix}")] = _triangle(matrix, labels)
    taken = {target: f"there is a file at {quote_path(target)} already: give another --out" for target in tables}
    for target, said in taken.items():
        if os.path.lexists(target):
            raise DpGraphError(said)
    for target, batches in tables.items():
        first = next(batches)
        with (
            errors_of_writing(target, taken[target]),
            whole_file(target) as file,
            pa_csv.CSVWriter(file, first.schema) as writer,
        ):
            for batch in itertools.chain([first], batches):
                writer.write_batch(batch)
    return list(tables)


def _batches(bundle: Bundle) -> Iterator[pa.RecordBatch]:
    """Yield the rows, after a batch that has none, for the header; or the triangle of the (final) matrix."""
    if bundle.release.kind == "covariance":
        yield from _triangle(bundle.second_moments, bundle.release.labels)
        return
    names = [guard_cell(column.name) for column in bundle.release.columns]
    empty = pa.RecordBatch.from_pylist([], part_schema(bundle.release.columns))
    for batch in itertools.chain([empty], bundle.batches()):
        yield batch.rename_columns(names)


def _triangle(matrix: Callable[[], NDArray[np.float64]], labels: list[str]) -> Iterator[pa.RecordBatch]:
    yield from triangle_table(matrix(), [guard_cell(label) for label in labels]).to_batches()
