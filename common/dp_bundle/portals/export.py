"""The published numbers as CSV, for tools that read nothing else."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
from numpy.typing import NDArray

from dp_bundle.base.errors import DpGraphError
from dp_bundle.base.quoting import guard_cell, quote_path
from dp_bundle.bundle.opened import Bundle
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
        tables |= {_beside(path, name): _matrix(bundle, name) for name in (FIRST_ROUND_NAME, TRANSFORM_NAME)}
    for target in tables:
        if os.path.lexists(target):
            raise _already_there(target)
    for target, batches in tables.items():
        _write(target, batches)
    return list(tables)


def _beside(path: Path, name: str) -> Path:
    """Return the file's name with that of a data member at its end."""
    return path.with_name(f"{path.stem}-{Path(name).stem}{path.suffix}")


def _write(path: Path, batches: Iterator[pa.RecordBatch]) -> None:
    first = next(batches)
    try:
        with whole_file(path) as file, pa_csv.CSVWriter(file, first.schema) as writer:
            writer.write_batch(first)
            for batch in batches:
                writer.write_batch(batch)
    except FileExistsError as error:
        raise _already_there(path) from error
    except OSError as error:
        raise DpGraphError(f"{quote_path(path)} cannot be written: {error.strerror or error}") from error


def _already_there(path: Path) -> DpGraphError:
    return DpGraphError(f"there is a file at {quote_path(path)} already: give another --out")


def _batches(bundle: Bundle) -> Iterator[pa.RecordBatch]:
    if bundle.release.kind == "covariance":
        yield from _triangle(bundle.second_moments(), bundle.release.labels)
        return
    names = [guard_cell(column.name) for column in bundle.release.columns]
    empty = pa.RecordBatch.from_pylist([], part_schema(bundle.release.columns))  # the header, if there were no rows
    for batch in itertools.chain([empty], bundle.batches()):
        yield batch.rename_columns(names)


def _matrix(bundle: Bundle, name: str) -> Iterator[pa.RecordBatch]:
    """Yield the triangle of a release of two rounds that is not the final one's."""
    matrix = bundle.first_round() if name == FIRST_ROUND_NAME else bundle.transform()
    yield from _triangle(matrix, [*(column.name for column in bundle.release.columns), CONSTANT_LABEL][: len(matrix)])


def _triangle(matrix: NDArray[np.float64], labels: list[str]) -> list[pa.RecordBatch]:
    batches: list[pa.RecordBatch] = triangle_table(matrix, [guard_cell(label) for label in labels]).to_batches()
    return batches
