"""A verified bundle laid out for a portal: the tar, Parquet files beside it, and metadata in the portal's vocabulary.

Portals give a tar no preview, and some read it as something else, so the same data stand beside it. All is written to a
new folder that appears in one step, from the bytes that were verified.
"""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dp_bundle.base.errors import DpGraphError, ParameterError
from dp_bundle.base.quoting import quote_path
from dp_bundle.bundle.opened import Bundle
from dp_bundle.bundle.packing import find_minisig, published_files, signature_file, write_tar
from dp_bundle.bundle.writing import errors_of_writing, sha256_of
from dp_bundle.describe.subject import PublishedFile
from dp_bundle.files.new_files import new_file, new_folder
from dp_bundle.manifest.release import Release
from dp_bundle.portals.deposits import (
    ckan_package,
    dataverse_dataset,
    dataverse_files,
    hugging_face_card,
    invenio_record,
)
from dp_bundle.portals.names import PORTALS
from dp_bundle.portals.portal_json import (
    croissant_document,
    datacite_document,
    dcat_document,
    frictionless_document,
    schema_org_document,
)

_IN_ONE_FOLDER = ("static", "huggingface")  # all others get the files to upload in a folder of their own, `files`
_STATIC = {
    "datapackage.json": "frictionless",
    "croissant.json": "croissant",
    "dcat.jsonld": "dcat",
    "schema.org.jsonld": "schema.org",
    "datacite.json": "datacite",
}
_MAKERS: dict[str, Callable[[Release, list[PublishedFile]], dict[str, Any]]] = {
    "frictionless": frictionless_document,
    "croissant": croissant_document,
    "dcat": dcat_document,
    "datacite": datacite_document,
    "schema.org": schema_org_document,
}


def describe_as(bundle: Bundle, form: str) -> bytes:
    """Return a description of a bundle, in one of `FORMS`, for the folder that `stage_bundle` makes for `static`."""
    return _json(_MAKERS[form](bundle.release, published_files(bundle)))


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
        return {"package.json": _json(ckan_package(release, [*files, *signatures], signer))}
    if portal == "dataverse":
        described = dataverse_files([*files, *signatures])
        return {"dataset.json": _json(dataverse_dataset(release)), "files.json": _json(described)}
    if portal == "zenodo":
        return {"invenio-rdm.json": _json(invenio_record(release))}
    return {name: _json(_MAKERS[form](release, files)) for name, form in _STATIC.items()}


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
