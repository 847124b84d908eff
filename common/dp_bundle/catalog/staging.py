"""A verified bundle laid out for a portal: the tar, Parquet files beside it, and metadata in the portal's vocabulary.

Portals give a tar no preview, and some read it as something else, so the same data stand beside it. All is written to a
new folder that appears in one step, from the bytes that were verified.
"""

import itertools
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO, Any

import pandas as pd
import pyarrow as pa
import pyarrow.csv as pa_csv

from dp_bundle.base.arrays import Floats
from dp_bundle.base.errors import DpGraphError, ParameterError
from dp_bundle.base.quoting import counted, guard_cell, quote_path
from dp_bundle.bundle.opened import Bundle
from dp_bundle.bundle.packing import find_minisig, published_files, signature_file, write_tar
from dp_bundle.bundle.writing import errors_of_writing, sha256_of
from dp_bundle.catalog.names import PORTALS
from dp_bundle.catalog.vocabularies import dataverse_dataset, dataverse_files, describe_in, hugging_face_card
from dp_bundle.data.learned import Correlations, require_reader
from dp_bundle.data.margins import margin_table
from dp_bundle.data.matrix import triangle_table
from dp_bundle.data.rows import part_schema
from dp_bundle.describe.sentences import describe_scale
from dp_bundle.describe.subject import PublishedFile
from dp_bundle.files.new_files import new_file, new_folder, whole_file
from dp_bundle.manifest.release import CONSTANT_LABEL, FIRST_ROUND_NAME, MARGINS_NAME, TRANSFORM_NAME

_IN_ONE_FOLDER = ("static", "huggingface")  # all others get the files to upload in a folder of their own, `files`
_STATIC = {
    "datapackage.json": "frictionless",
    "croissant.json": "croissant",
    "dcat.jsonld": "dcat",
    "schema.org.jsonld": "schema.org",
    "datacite.json": "datacite",
}


def describe_as(bundle: Bundle, form: str) -> bytes:
    """Return a description of a bundle, in one of `FORMS`, for the folder that `stage_bundle` makes for `static`."""
    return _json(describe_in(form, bundle.release, published_files(bundle)))


def stage_bundle(bundle: Bundle, portal: str, folder: Path) -> tuple[list[Path], list[str]]:
    """Write a new folder for a portal; return its files, and a sentence about a signature that was left out.

    Parameters
    ----------
    bundle : Bundle
        A verified bundle.
    portal : str
        One of `PORTALS`.
    folder : Path
        The new folder. Nothing is ever replaced.

    Raises
    ------
    ParameterError
        There is no such portal.
    BundleFormatError
        The file was changed after it was verified.
    DpGraphError
        There is something of that name already, or the folder cannot be written.
    """
    if portal not in PORTALS:
        raise ParameterError("--for", f"one of {', '.join(PORTALS)}", portal)
    if os.path.lexists(folder):
        raise DpGraphError(f"there is something at {quote_path(folder)} already: give the name of a new folder")
    signature, left_out = find_minisig(bundle)
    with errors_of_writing(folder), new_folder(folder) as new:
        flat = portal not in _IN_ONE_FOLDER
        place = new / "files" if flat else new
        _write_data(bundle, place, flat=flat, readme=portal != "huggingface")
        signed = []
        if signature is not None:
            signed = [signature_file(bundle, signature)]
            _write(place / signed[0].name, signature)
        for name, content in _metadata(bundle, portal, signed).items():
            _write(new / name, content)
        if portal == "static":
            sums = []
            for path in _files_in(new):
                with (new / path).open("rb") as file:
                    sums.append(f"{sha256_of(file)}  {path.as_posix()}\n")
            _write(new / "SHA256SUMS", "".join(sums).encode())
    return [folder / name for name in _files_in(folder)], left_out


def _metadata(bundle: Bundle, portal: str, signatures: list[PublishedFile]) -> dict[str, bytes]:
    """Return the files of metadata that a portal gets."""
    release, signer = bundle.release, bundle.signer.key.fingerprint
    files = published_files(bundle, flat=portal not in _IN_ONE_FOLDER)
    if portal == "huggingface":
        return {"README.md": hugging_face_card(release, files, signer).encode()}
    if portal == "ckan":
        return {"package.json": _json(describe_in("ckan", release, [*files, *signatures], signer=signer))}
    if portal == "dataverse":
        described = dataverse_files([*files, *signatures])
        return {"dataset.json": _json(dataverse_dataset(release)), "files.json": _json(described)}
    if portal == "zenodo":
        return {"invenio-rdm.json": _json(describe_in("zenodo", release))}
    return {name: _json(describe_in(form, release, files)) for name, form in _STATIC.items()}


def _write_data(bundle: Bundle, folder: Path, *, flat: bool, readme: bool) -> None:
    """Write the tar, the README if asked for, and the Parquet files."""
    folder.mkdir(exist_ok=True)
    with new_file(folder / bundle.tar_path.name) as tar:
        write_tar(bundle, tar)
    for name in bundle.members:
        if not name.startswith("data/") and not (readme and name == "README.md"):
            continue
        target = folder / (name.removeprefix("data/") if flat else name)
        target.parent.mkdir(exist_ok=True)
        with bundle.open(name) as member, new_file(target) as file:
            shutil.copyfileobj(member, file)


def _write(path: Path, content: bytes) -> None:
    with new_file(path) as file:
        file.write(content)


def _files_in(folder: Path) -> list[Path]:
    return sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())


def _json(document: dict[str, Any] | list[dict[str, Any]]) -> bytes:
    return json.dumps(document, indent=1, ensure_ascii=False).encode() + b"\n"


def export_csv(bundle: Bundle, path: Path) -> list[Path]:
    """Write the noisy rows of a bundle, or the upper triangle of its noisy second moments, to a new CSV file.

    Numbers have as many digits as it takes to read them back exactly; names pass through `guard_cell`. It needs memory
    for one batch. Of a release of two rounds, the matrix of the first and the transform get files of their own beside
    it. Their names end in `-first-round` and `-transform`, and that of histograms in `-margins`.

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
    tables = {path: _batches(bundle)}
    if FIRST_ROUND_NAME in bundle.members:
        columns = [column.name for column in bundle.release.columns]
        for name, matrix, labels in (
            (FIRST_ROUND_NAME, bundle.first_round, [*columns, CONSTANT_LABEL]),
            (TRANSFORM_NAME, bundle.transform, columns),
        ):
            tables[_beside(path, name)] = _triangle(matrix, labels)
    if MARGINS_NAME in bundle.members:
        tables[_beside(path, MARGINS_NAME)] = _histograms(bundle)
    return _write_all({target: partial(_write_batches, batches) for target, batches in tables.items()})


def export_combined(bundle: Bundle, path: Path) -> tuple[list[Path], Correlations]:
    """Write the correlations of a bundle without the noise's part, their standard errors, and what they are worth.

    Both are square matrices with the names of the columns, which pass through `guard_cell`, on both sides.

    Returns
    -------
    list of Path, Correlations
        The files, and what they say.

    Raises
    ------
    EstimationError
        Nothing can be estimated: the sentence says why.
    BundleFormatError, DpGraphError
        As in `export_csv`; or nobody on this machine learns from releases.

    Notes
    -----
    The files beside NAME.csv:

    NAME-correlations.csv : all
        correlations of the published columns without the noise's part; an entry may be beyond 1, and is empty where
        noise drowns a column
    NAME-standard-errors.csv : all
        of each, sampling and noise, of first order; zero on the diagonal
    NAME-combined.json : all
        `dataset`, `release_number`, `manifest_sha256`, `kind`, `n_rows`, `effective_rows` and `errors_are_estimates`
        as in `summary.json`; `columns`, `drowned_columns` and `notes`
    """
    found = require_reader().correlations(bundle)
    about = {
        "dataset": bundle.release.dataset.name,
        "release_number": bundle.release.lineage.number,
        "manifest_sha256": bundle.manifest_sha256,
        "kind": bundle.release.kind,
        "n_rows": found.n_rows,
        "effective_rows": found.effective_rows,
        "errors_are_estimates": found.are_estimates,
        "columns": list(found.columns),
        "drowned_columns": found.drowned,
        "notes": describe_scale(bundle.release.columns),
    }
    writers = {
        "-correlations.csv": partial(_write_square, found.values, found.columns),
        "-standard-errors.csv": partial(_write_square, found.standard_errors, found.columns),
        "-combined.json": partial(_write_json, about),
    }
    named = {path.with_name(f"{path.stem}{ending}"): write for ending, write in writers.items()}
    return _write_all(named), found


def describe_worth(found: Correlations) -> str:
    """Return what correlations are worth, as the end of a sentence."""
    left = f"; {counted(len(found.drowned), 'column')} drowned by noise" if found.drowned else ""
    n_columns = counted(len(found.columns), "column")
    if found.effective_rows is None:
        return f"correlations of {n_columns}, whose errors are unknown{left}"
    worth = f"as precise as {found.effective_rows:.0f} Gaussian rows without noise"
    return f"correlations of {n_columns} over {found.n_rows} rows, {worth}{left}"


def _beside(path: Path, member: str) -> Path:
    """Return the file of another member, beside that of the first."""
    return path.with_name(f"{path.stem}-{Path(member).stem}{path.suffix}")


def _write_all(writers: Mapping[Path, Callable[[IO[bytes]], None]]) -> list[Path]:
    """Write new files, once it is known that none of them exists."""
    taken = {target: f"there is a file at {quote_path(target)} already: give another --out" for target in writers}
    for target, said in taken.items():
        if not target.parent.is_dir():
            raise DpGraphError(f"--out must be in a folder that exists: there is no folder {quote_path(target.parent)}")
        if os.path.lexists(target):
            raise DpGraphError(said)
    for target, write in writers.items():
        with errors_of_writing(target, taken[target]), whole_file(target) as file:
            write(file)
    return list(writers)


def _write_batches(batches: Iterator[pa.RecordBatch], file: IO[bytes]) -> None:
    first = next(batches)
    with pa_csv.CSVWriter(file, first.schema) as writer:
        for batch in itertools.chain([first], batches):
            writer.write_batch(batch)


def _write_square(matrix: Floats, names: Sequence[str], file: IO[bytes]) -> None:
    labels = [guard_cell(name) for name in names]
    pd.DataFrame(matrix, labels, labels).to_csv(file, lineterminator="\n")


def _write_json(document: dict[str, Any], file: IO[bytes]) -> None:
    file.write(json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False).encode() + b"\n")


def _batches(bundle: Bundle) -> Iterator[pa.RecordBatch]:
    """Yield the rows, after a batch that has none, for the header; or the triangle of the (final) matrix."""
    if bundle.release.kind == "covariance":
        yield from _triangle(bundle.second_moments, bundle.release.labels)
        return
    names = [guard_cell(column.name) for column in bundle.release.columns]
    empty = pa.RecordBatch.from_pylist([], part_schema(bundle.release.columns))
    for batch in itertools.chain([empty], bundle.batches()):
        yield batch.rename_columns(names)


def _triangle(matrix: Callable[[], Floats], labels: list[str]) -> Iterator[pa.RecordBatch]:
    yield from triangle_table(matrix(), [guard_cell(label) for label in labels]).to_batches()


def _histograms(bundle: Bundle) -> Iterator[pa.RecordBatch]:
    guarded = [
        replace(margin, name=guard_cell(margin.name), labels=tuple(map(guard_cell, margin.labels)))
        for margin in bundle.margins()
    ]
    yield from margin_table(guarded).to_batches()
