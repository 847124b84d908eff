"""The facts that a site shows of one verified bundle: plain texts and numbers, which can be kept for the next run."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import Any

from dp_bundle.base.errors import BundleError
from dp_bundle.base.quoting import quote_path
from dp_bundle.bundle.companions import cosigners, published_files
from dp_bundle.bundle.opened import Bundle
from dp_bundle.bundle.reading import open_bundle
from dp_bundle.catalog.label import worded_label
from dp_bundle.catalog.values import SHOWN_COLUMNS, show_values
from dp_bundle.describe.sentences import describe_bounds, describe_size
from dp_bundle.describe.subject import TAR, PublishedFile, Subject
from dp_bundle.manifest.columns import Column
from dp_bundle.portals.dcat import dcat_dataset
from dp_bundle.portals.portal_json import schema_org_document
from dp_bundle.trust.judging import UnsafeTrustAnyone
from dp_bundle.trust.rules import read_quorum
from dp_bundle.trust.signing import PublicKey
from dp_bundle.trust.store import TrustStore

_NOT_IN_NAMES = re.compile(r"[^a-z0-9]+")


def digest_bundle(path: Path) -> str:
    """Return a digest, in hexadecimal digits, that changes with anything in a tar or a folder: a tar's SHA-256."""
    if not path.is_dir():
        return _digest_file(path)
    whole = hashlib.sha256()
    for each in sorted(path.rglob("*")):
        content = _digest_file(each) if each.is_file() and not each.is_symlink() else "no file"
        whole.update(f"{each.relative_to(path).as_posix()!a} {content}\n".encode())
    return whole.hexdigest()


def _digest_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def survey(path: Path, key: str, address: str) -> dict[str, Any]:
    """Return what a site shows of a bundle, whoever signed it, or why it cannot be trusted.

    Parameters
    ----------
    path : Path
        The tar or the folder.
    key : str
        Its digest, by `digest_bundle`.
    address : str
        The site's address, which ends with a slash, or nothing.

    Returns
    -------
    dict
        Its `key`, and `why`, a sentence, if it does not verify; otherwise its facts, which are JSON. A folder is
        offered as the tar that it packs to.
    """
    try:
        with open_bundle(path, UnsafeTrustAnyone()) as bundle:
            if not path.is_dir():
                return {"key": key, **_facts(bundle, key, path.stat().st_size, address)}
            tar = published_files(bundle)[0]
            return {"key": key, **_facts(bundle, tar.sha256, tar.size, address)}
    except BundleError as error:
        why = str(error).replace(quote_path(path), "the file").replace(os.fspath(path), "the file")
        return {"key": key, "why": why}


def find_cosigners(path: Path, store: TrustStore, dataset: str) -> tuple[PublicKey, ...]:
    """Return who else signed a verified bundle, where this machine has decided how many must."""
    if read_quorum(store.folder, dataset) is None:
        return ()
    with open_bundle(path, UnsafeTrustAnyone()) as bundle:
        return cosigners(bundle)


def _facts(bundle: Bundle, sha256: str, size: int, address: str) -> dict[str, Any]:
    release, lineage = bundle.release, bundle.release.lineage
    clip = release.second_moments.column_clip if release.second_moments is not None else None
    signer = bundle.signer.key.fingerprint
    folder = f"datasets/{_slug(release.dataset.name, signer)}"
    stem = _plain(release.dataset.name)
    page, tar = f"release-{lineage.number}.html", f"{stem}-{lineage.number}.bundle.tar"
    whole = PublishedFile(f"{address}{folder}/{tar}", size, sha256, TAR)
    near = PublishedFile(whole.path if address else tar, size, sha256, TAR)
    return {
        "sha256": sha256,
        "size": size,
        "signer": signer,
        "manifest_sha256": bundle.manifest_sha256,
        "folder": folder,
        "page": page,
        "tar": tar,
        "name": release.dataset.name,
        "series": release.series,
        "number": lineage.number,
        "created": lineage.created,
        "previous": lineage.previous,
        "kind": release.kind,
        "measure": describe_size(release),
        "software": release.software,
        "n_columns": len(release.columns),
        "label": worded_label(release),
        "about": _about(Subject(release)),
        "columns": [_column(column, clip) for column in release.columns[:SHOWN_COLUMNS]],
        **show_values(bundle),
        "dcat": dcat_dataset(release, [whole], address=f"{address}{folder}/{page}"),
        "schema_org": schema_org_document(release, [near], address=f"{address}{folder}/{page}" if address else ""),
    }


def _about(subject: Subject) -> dict[str, Any]:
    """Return the publisher's own words."""
    dataset, more = subject.dataset, subject.more
    creators = [creator.name for creator in more.creators]
    return {
        "title": subject.title,
        "description": dataset.description,
        "creators": creators,
        "publisher": more.publisher,
        "license": dataset.license,
        "license_address": subject.licence_address,
        "contact": dataset.contact,
        "url": dataset.url,
        "url_is_safe": bool(subject.homepage),
        "doi": more.doi or "",
        "keywords": list(more.keywords),
        "period": subject.period.replace("/", " to "),
        "places": list(more.spatial),
        "citation": dataset.citation or _citation(subject, "; ".join(creators) or more.publisher),
    }


def _citation(subject: Subject, by: str) -> str:
    """Return a citation in the manner of DataCite: creators (year): title, version, publisher, identifier."""
    more, by = subject.more, by or "Unnamed publisher"
    said = (
        f"{by} ({subject.date[:4]}). {subject.title}. Release {subject.number}, with differential privacy [data set]."
    )
    said += f" {more.publisher}." if more.publisher and more.publisher != by else ""
    return said + (f" https://doi.org/{more.doi}" if more.doi else "")


def _column(column: Column, clip: float | None) -> dict[str, Any]:
    bounds = column.bounds
    if column.ball is not None:
        reach = column.ball.radius * column.ball.scale
        bounds = (column.ball.center - reach, column.ball.center + reach)
    return {
        "name": column.name,
        "description": column.description,
        "unit": column.unit,
        "kept": describe_bounds(column, clip),
        "bounds": bounds,
    }


def _plain(name: str) -> str:
    """Return a name as a part of an address: at most 40 letters and digits of ASCII, joined by hyphens."""
    return _NOT_IN_NAMES.sub("-", name.lower()).strip("-")[:40].strip("-") or "dataset"


def _slug(name: str, signer: str) -> str:
    """Return a folder's name that no other dataset has, and that stays the same."""
    return f"{_plain(name)}-{hashlib.sha256(f'{signer} {name}'.encode()).hexdigest()[:8]}"
