"""The facts that a site shows of one verified bundle: plain texts and numbers, which can be kept for the next run.

What is shown of values, a histogram for each column and the first lines, is computed from noisy values alone, which
reveals nothing that the bundle does not.
"""

import hashlib
import math
import os
import re
from collections.abc import Mapping
from itertools import combinations_with_replacement, islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_bundle.base.errors import BundleError
from dp_bundle.base.quoting import quote_path
from dp_bundle.bundle.opened import Bundle
from dp_bundle.bundle.packing import published_files
from dp_bundle.bundle.reading import open_bundle
from dp_bundle.bundle.writing import MANIFEST_NAME, sha256_of
from dp_bundle.catalog.label import SHOWN_COLUMNS, worded_label
from dp_bundle.catalog.moments import survey_moments
from dp_bundle.data.margin_summary import share_interval
from dp_bundle.data.row_reader import to_numpy
from dp_bundle.describe.meanings import column_meanings
from dp_bundle.describe.sentences import describe_bounds, describe_size
from dp_bundle.describe.subject import TAR, PublishedFile, Subject
from dp_bundle.manifest.columns import Column
from dp_bundle.portals.portal_json import dcat_dataset, schema_org_document
from dp_bundle.trust.judging import Entries, UnsafeTrustAnyone

_BARS = 30
_BEYOND = 3.0  # standard deviations of the noise that a histogram reaches beyond the bounds
_ROWS, _ACROSS = 8, 12  # of the preview
_NOT_IN_NAMES = re.compile(r"[^a-z0-9]+")


def digest_bundle(path: Path) -> str:
    """Return a digest, in hexadecimal digits, that changes with anything in a tar or a folder: a tar's SHA-256."""
    if not path.is_dir():
        with path.open("rb") as file:
            return sha256_of(file)
    whole = hashlib.sha256()
    for each in sorted(path.rglob("*")):
        content = digest_bundle(each) if each.is_file() and not each.is_symlink() else "no file"
        whole.update(f"{each.relative_to(path).as_posix()!a} {content}\n".encode())
    return whole.hexdigest()


def may_be_bundle(path: Path) -> bool:
    """Return whether a tar begins with a manifest, or it is a folder."""
    if path.is_dir():
        return True
    with path.open("rb") as file:
        return file.read(len(MANIFEST_NAME)) == MANIFEST_NAME.encode()


def survey(path: Path, key: str, address: str, entries: Entries) -> dict[str, Any]:
    """Return what a site shows of a bundle, whoever signed it, or why it cannot be trusted.

    Parameters
    ----------
    path : Path
        The tar or the folder.
    key : str
        Its digest, by `digest_bundle`.
    address : str
        The site's address, which ends with a slash, or nothing.
    entries : mapping of PublicKey to TrustedKey
        The trusted keys: releases of one dataset have one folder, whichever key of a line signed them.

    Returns
    -------
    dict
        Its `key`, and `why`, a sentence, if it does not verify; otherwise its facts, which are JSON. A folder is
        offered as the tar that it packs to.
    """
    try:
        with open_bundle(path, UnsafeTrustAnyone(entries)) as bundle:
            if not path.is_dir():
                return {"key": key, **_facts(bundle, key, path.stat().st_size, address)}
            tar = published_files(bundle)[0]
            return {"key": key, **_facts(bundle, tar.sha256, tar.size, address)}
    except BundleError as error:
        why = str(error).replace(quote_path(path), "the file").replace(os.fspath(path), "the file")
        return {"key": key, "why": why}


def _facts(bundle: Bundle, sha256: str, size: int, address: str) -> dict[str, Any]:
    release, lineage = bundle.release, bundle.release.lineage
    clip = release.second_moments.column_clip if release.second_moments is not None else None
    meanings = column_meanings(release)
    root, name = bundle.origin
    # a name that no other dataset has, and that stays the same
    folder = f"datasets/{_plain(name)}-{hashlib.sha256(f'{root.fingerprint} {name}'.encode()).hexdigest()[:8]}"
    stem = _plain(release.dataset.name)
    page, tar = f"release-{lineage.number}.html", f"{stem}-{lineage.number}.bundle.tar"
    whole = PublishedFile(f"{address}{folder}/{tar}", size, sha256, TAR)
    near = PublishedFile(whole.path if address else tar, size, sha256, TAR)
    return {
        "sha256": sha256,
        "size": size,
        "signer": bundle.signer.key.fingerprint,
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
        "has_margins": release.margins is not None,
        "measure": describe_size(release),
        "software": release.software,
        "n_columns": len(release.columns),
        "label": worded_label(release),
        "about": _about(Subject(release)),
        "columns": [_column(column, clip, meanings) for column in release.columns[:SHOWN_COLUMNS]],
        **_show_values(bundle),
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
    return said + (f" {subject.identifier}" if more.doi else "")


def _column(column: Column, clip: float | None, meanings: Mapping[str, str]) -> dict[str, Any]:
    return {
        "name": column.name,
        "description": column.description,
        "unit": column.unit,
        "holds": meanings.get(column.name, "Whole numbers." if column.kind == "integer" else "Numbers."),
        "kept": describe_bounds(column, clip),
        "bounds": column.bounds,
    }


def _plain(name: str) -> str:
    """Return a name as a part of an address: at most 40 letters and digits of ASCII, joined by hyphens."""
    return _NOT_IN_NAMES.sub("-", name.lower()).strip("-")[:40].strip("-") or "dataset"


def _show_values(bundle: Bundle) -> dict[str, Any]:
    """Return the histograms and the preview of a release of rows, or the first entries of a covariance release.

    Returns
    -------
    dict
        `histograms`, one for each of the first columns; `heads` and `lines`, the preview, a list for each column;
        `moments`, by `survey_moments`.

    Raises
    ------
    BundleFormatError
        The data are not what the manifest says.
    """
    if bundle.release.kind == "covariance":
        return {"histograms": [], **_first_entries(bundle), "moments": survey_moments(bundle)}
    columns = bundle.release.columns
    counted: list[_Histogram] = []
    heads = [column.name for column in columns[:_ACROSS]]
    lines: list[list[float]] = [[] for _ in heads]
    for batch in bundle.batches():
        values = [to_numpy(batch.column(place)) for place in range(min(SHOWN_COLUMNS, len(columns)))]
        counted = counted or [_Histogram(*pair) for pair in zip(columns, values, strict=False)]
        for histogram, found in zip(counted, values, strict=True):
            histogram.add(found)
        for line, found in zip(lines, values, strict=False):
            line.extend(float(value) for value in found[: _ROWS - len(line)])
    drawn = [histogram.document() for histogram in counted]
    return {"histograms": drawn, "heads": heads, "lines": lines, "moments": None}


def _first_entries(bundle: Bundle) -> dict[str, Any]:
    matrix, labels = bundle.second_moments(), bundle.release.matrix_labels
    places = list(islice(combinations_with_replacement(range(len(labels)), 2), _ROWS))
    lines = [[labels[row] for row, _ in places], [labels[column] for _, column in places]]
    return {"heads": ["row", "column", "value"], "lines": [*lines, [float(matrix[place]) for place in places]]}


class _Histogram:
    """Counts of a column's values in bars of one width; what lies beyond is counted in the outermost bars."""

    def __init__(self, column: Column, first: NDArray[Any]) -> None:
        self.response, (self.low, self.high) = column.response, _range(column, first)
        self.counts = np.zeros(_BARS, np.int64)
        self.least, self.most, self.total, self.n = math.inf, -math.inf, 0.0, 0

    def add(self, values: NDArray[Any]) -> None:
        """Count more values."""
        places = (values - self.low) * (_BARS / (self.high - self.low))
        bars = np.clip(places, 0, _BARS - 1).astype(np.int64)
        self.counts += np.bincount(bars, minlength=_BARS)
        self.least, self.most = min(self.least, float(values.min())), max(self.most, float(values.max()))
        self.total += float(values.sum(dtype=np.float64))
        self.n += len(values)

    def document(self) -> dict[str, Any]:
        """Return what a page shows."""
        about = {"low": self.low, "high": self.high, "least": self.least, "most": self.most}
        found = {**about, "mean": self.total / self.n, "counts": [int(count) for count in self.counts]}
        if self.response is not None:
            seen = np.asarray(self.total / self.n)
            share = np.clip(self.response.share_before(seen), 0.0, 1.0)
            found["share"] = [*map(float, (share, *share_interval(seen, self.n, response=self.response)))]
        return found


def _range(column: Column, first: NDArray[Any]) -> tuple[float, float]:
    """Return where the bars begin and end: beyond the bounds, or at the extremes of the first values."""
    beyond = 0.0 if column.response is not None else _BEYOND * column.cell_noise.sigma
    if column.bounds is not None:
        low, high = column.bounds[0] - beyond, column.bounds[1] + beyond
    else:
        low, high = float(first.min()), float(first.max())
    if not (math.isfinite(high - low) and high - low > 0):
        return (low, low + 1.0) if math.isfinite(low) and low + 1.0 > low else (-1.0, 1.0)
    return low, high
