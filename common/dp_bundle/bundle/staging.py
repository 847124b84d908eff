"""A verified bundle laid out for a portal: the tar, Parquet files beside it, and metadata in the portal's vocabulary.

Portals give a tar no preview, and some read it as something else, so the same data stand beside it. All is written to a
new folder that appears in one step, from the bytes that were verified.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

from dp_bundle.bundle.minisig import minisig_path
from dp_bundle.bundle.opened import Bundle
from dp_bundle.bundle.portals import FORMS, PORTALS
from dp_bundle.describe import (
    PARQUET,
    TAR,
    PublishedFile,
    ckan_package,
    croissant_document,
    datacite_document,
    dataverse_dataset,
    dataverse_files,
    dcat_document,
    frictionless_document,
    hugging_face_card,
    invenio_record,
    registry_record,
    ro_crate_document,
    schema_org_document,
    to_yaml,
    zenodo_deposit,
)
from dp_bundle.errors import DpGraphError, ParameterError
from dp_bundle.files import UNSUPPORTED, read_regular, rename_new, settle, sync_folder, write_archive
from dp_bundle.quoting import quote_path

_IN_ONE_FOLDER = ("static", "huggingface")  # all others get the files to upload in a folder of their own, `files`
_STATIC = {
    "datapackage.json": "frictionless",
    "croissant.json": "croissant",
    "dcat.jsonld": "dcat",
    "schema.org.jsonld": "schema.org",
    "datacite.json": "datacite",
    "ro-crate-metadata.json": "ro-crate",
    "dp-registry.yaml": "registry",
}
_LONGEST_MINISIG = 4096


def describe_as(bundle: Bundle, form: str) -> bytes:
    """Return a description of a bundle for the folder that `stage_bundle` makes for a static site, as JSON or YAML.

    Parameters
    ----------
    bundle : Bundle
        A verified bundle.
    form : str
        One of `FORMS`.

    Raises
    ------
    ParameterError
        There is no such form.
    PrivacyError
        The registry was asked for, and the release states no guarantee.
    """
    return _spell(form, _describe(bundle, form, published_files(bundle)))


def published_files(bundle: Bundle, *, flat: bool = False) -> list[PublishedFile]:
    """Return the tar and the Parquet files that stand beside it, in `data` or, if flat, in the same folder."""
    whole = _Digest()
    _copy_tar(bundle, cast(BinaryIO, whole))
    files = [PublishedFile(bundle.path.name, whole.size, whole.sha256.hexdigest(), TAR)]
    for name, member in bundle.members.items():
        if name.startswith("data/"):
            path = name.removeprefix("data/") if flat else name
            files.append(PublishedFile(path, member.size, bundle.sha256(name), PARQUET))
    return files


def stage_bundle(bundle: Bundle, portal: str, folder: Path) -> list[Path]:
    """Write a new folder for a portal, and return its files.

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
    try:
        with _new_folder(folder) as new:
            flat = portal not in _IN_ONE_FOLDER
            _write_data(bundle, new / "files" if flat else new, flat=flat, readme=portal != "huggingface")
            for name, content in _metadata(bundle, portal).items():
                _write(new / name, content)
            if portal == "static":
                sums = "".join(f"{_sha256(new / name)}  {name.as_posix()}\n" for name in _files_in(new))
                _write(new / "SHA256SUMS", sums.encode())
    except OSError as error:
        raise DpGraphError(f"{quote_path(folder)} cannot be written: {error.strerror}") from error
    return [folder / name for name in _files_in(folder)]


def _metadata(bundle: Bundle, portal: str) -> dict[str, bytes]:
    """Return the files of metadata that a portal gets."""
    release, signer = bundle.release, bundle.signer.key.fingerprint
    files = published_files(bundle, flat=portal not in _IN_ONE_FOLDER)
    if portal == "huggingface":
        return {"README.md": hugging_face_card(release, files, signer).encode()}
    if portal == "ckan":
        return {"package.json": _json(ckan_package(release, files, signer))}
    if portal == "dataverse":
        return {"dataset.json": _json(dataverse_dataset(release)), "files.json": _json(dataverse_files(files))}
    if portal == "zenodo":
        deposits = {"zenodo.json": zenodo_deposit(release), "invenio-rdm.json": invenio_record(release)}
        return {name: _json(document) for name, document in deposits.items()}
    forms = {name: form for name, form in _STATIC.items() if form != "registry" or release.guarantee is not None}
    return {name: _spell(form, _describe(bundle, form, files)) for name, form in forms.items()}


def _describe(bundle: Bundle, form: str, files: list[PublishedFile]) -> dict[str, Any]:
    makers: dict[str, Callable[[], dict[str, Any]]] = {
        "frictionless": lambda: frictionless_document(bundle.release, files),
        "croissant": lambda: croissant_document(bundle.release, files),
        "dcat": lambda: dcat_document(bundle.release, files),
        "datacite": lambda: datacite_document(bundle.release, files),
        "ro-crate": lambda: ro_crate_document(bundle.release, files),
        "registry": lambda: registry_record(bundle.release),
        "schema.org": lambda: schema_org_document(bundle.release, files),
    }
    if form not in makers:
        raise ParameterError("--as", f"one of {', '.join(FORMS)}", form)
    return makers[form]()


def _spell(form: str, document: dict[str, Any]) -> bytes:
    """Return the document as the registry takes it, which is YAML, or as all others do."""
    return to_yaml(document).encode() if form == "registry" else _json(document)


def _write_data(bundle: Bundle, folder: Path, *, flat: bool, readme: bool) -> None:
    """Write the tar, the signature beside it if there is one, the README if asked for, and the Parquet files."""
    folder.mkdir(exist_ok=True)
    with _new_file(folder / bundle.path.name) as tar:
        _copy_tar(bundle, tar)
    with contextlib.suppress(FileNotFoundError):
        signature = read_regular(minisig_path(bundle.path), _LONGEST_MINISIG)
        _write(folder / minisig_path(bundle.path).name, signature)
    for name in bundle.members:
        if not name.startswith("data/") and not (readme and name == "README.md"):
            continue
        target = folder / (name.removeprefix("data/") if flat else name)
        target.parent.mkdir(exist_ok=True)
        with bundle.open(name) as member, _new_file(target) as file:
            shutil.copyfileobj(member, file)


def _copy_tar(bundle: Bundle, file: BinaryIO) -> None:
    """Write the tar again from its members, of which each byte is compared with what was verified."""
    with contextlib.ExitStack() as opened:
        write_archive(file, [(name, opened.enter_context(bundle.open(name))) for name in bundle.members])


class _Digest:
    """A file that keeps the size and the SHA-256 of what is written to it."""

    def __init__(self) -> None:
        self.size, self.sha256 = 0, hashlib.sha256()

    def write(self, content: bytes) -> int:
        self.size += len(content)
        self.sha256.update(content)
        return len(content)


@contextlib.contextmanager
def _new_folder(folder: Path) -> Iterator[Path]:
    """Make a hidden folder that gets its name when the block ends, and vanishes if it ends by an error."""
    if not folder.parent.is_dir():
        raise DpGraphError(f"the folder must be in one that exists: there is no folder {quote_path(folder.parent)}")
    hidden = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        yield hidden
        hidden.chmod(0o755)
        try:
            rename_new(hidden, folder)
        except OSError as error:
            if error.errno not in UNSUPPORTED:
                raise
            hidden.rename(folder)
        sync_folder(folder.parent)
    finally:
        shutil.rmtree(hidden, ignore_errors=True)


@contextlib.contextmanager
def _new_file(path: Path) -> Iterator[BinaryIO]:
    """Open a new file, whose content is on the disk when the block ends."""
    with path.open("xb") as file:
        yield file
        settle(file)


def _write(path: Path, content: bytes) -> None:
    with _new_file(path) as file:
        file.write(content)


def _files_in(folder: Path) -> list[Path]:
    return sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _json(document: dict[str, Any] | list[dict[str, Any]]) -> bytes:
    return json.dumps(document, indent=1, ensure_ascii=False).encode() + b"\n"
