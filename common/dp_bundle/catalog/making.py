"""The making of a site: bundles are found, verified or remembered, chosen, sorted by dataset, and shown.

Offered are bundles that verify, of signers who are trusted for them, one for each number, with the signatures beside
them, which are checked once, and known again by their digests.

A portal's files for other machines: a DCAT catalog, an Atom feed, a sitemap and checksums.

References
----------
DCAT-AP 3.0.0. RFC 4287 (Atom). sitemaps.org, protocol 0.9. GNU coreutils, sha256sum.
What a site shows of one bundle are plain texts and numbers, which can be kept for the next run. What is shown of
values, a histogram for each column and the first lines, is computed from noisy values alone, which reveals nothing
that the bundle does not.
"""

import contextlib
import hashlib
import json
import math
import os
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from itertools import combinations_with_replacement, islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_bundle.base.errors import BundleError, DpGraphError
from dp_bundle.base.quoting import counted, quote_path
from dp_bundle.bundle.opened import Bundle, tar_beside
from dp_bundle.bundle.packing import belongs, minisig_path, published_files, read_minisig
from dp_bundle.bundle.reading import find_bundles, open_bundle
from dp_bundle.bundle.writing import MANIFEST_NAME, sha256_of
from dp_bundle.catalog.label import SHOWN_COLUMNS, worded_label
from dp_bundle.catalog.pages import ASSETS, Facts, Refused, list_page, release_page, survey_moments
from dp_bundle.catalog.site import Output, Site
from dp_bundle.data.learned import find_reader_package
from dp_bundle.data.margin_summary import share_interval
from dp_bundle.data.rows import to_numpy
from dp_bundle.describe.sentences import column_meanings, describe_bounds, describe_size
from dp_bundle.describe.subject import TAR, PublishedFile, Subject
from dp_bundle.files.new_files import locked_folder
from dp_bundle.manifest.columns import Column
from dp_bundle.page.document import fill_template
from dp_bundle.portals.vocabularies import describe_in, read_template
from dp_bundle.trust.judging import Entries, Sighting, UnsafeTrustAnyone
from dp_bundle.trust.signing import PublicKey
from dp_bundle.trust.store import TrustStore

_PACKAGE = Path(__file__).parents[1]
_SOURCES = {".py", ".html", ".css", ".js", ".json", ".txt", ".xml"}
_BARS = 30
_BEYOND = 3.0  # standard deviations of the noise that a histogram reaches beyond the bounds
_ROWS, _ACROSS = 8, 12  # of the preview
_HOLDS = {"rows": "noisy rows", "covariance": "second moments", "histograms": "histograms and second moments"}
_NOT_IN_NAMES = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True)
class SiteSettings:
    """A person's wishes for a site.

    Attributes
    ----------
    title : str
        The portal's name.
    address : str
        Where the site will stand, such as https://data.example.org/; needed for a sitemap, and for absolute links.
    any_signer : bool
        Offer bundles of signers whom this machine does not trust, too.
    """

    title: str = "Data with differential privacy"
    address: str = ""
    any_signer: bool = False


@dataclass(frozen=True)
class SiteSummary:
    """The numbers of a run: bundles offered and refused, bundles read anew, files written and removed.

    `left_out` counts files beside bundles offered that are no signatures of them, by their names.
    """

    offered: int
    refused: int
    read: int
    written: int
    removed: int
    left_out: int = 0


def make_catalog(
    folder: Path, out: Path, settings: SiteSettings | None = None, store: TrustStore | None = None
) -> SiteSummary:
    """Write a static site about all bundles in a folder; a second run touches only what changed.

    Parameters
    ----------
    folder : Path
        Where the bundles are, also in folders within it. Nothing in it is changed.
    out : Path
        The site's folder; files in it that are not the site's stay as they are.
    settings : Settings, optional
        Title and address of the site.
    store : TrustStore, optional
        Whom to trust; the user's own store by default.

    Raises
    ------
    DpGraphError
        The folder cannot be read, the site cannot be written, or another run is writing it.
    """
    files = _find(folder, out)
    with _alone(out):
        return _make(folder, files, out, settings or SiteSettings(), store or TrustStore())


def _make(folder: Path, files: list[Path], out: Path, settings: SiteSettings, store: TrustStore) -> SiteSummary:
    entries = store.entries()
    lines = sorted((key.fingerprint, entry.root.fingerprint) for key, entry in entries.items() if entry.predecessors)
    code = _key(_code_version(), lines)
    site = Site.open(out, _key(code, settings.address))

    # 1. Every bundle is read for its digest, and what is none for its beginning alone; only those not seen before are
    # verified and surveyed.
    paths: dict[str, Path] = {}
    kept: dict[str, Facts] = {}
    fresh = 0
    for path in files:
        try:
            key = digest_bundle(path) if may_be_bundle(path) else f"{path!a} {path.stat().st_size}"
        except OSError as error:
            raise DpGraphError(f"{quote_path(path)} cannot be read: {error.strerror}") from error
        known = site.kept.get(key)
        fresh += known is None and key not in kept
        kept[key] = known or kept.get(key) or _plain(survey(path, key, settings.address, entries))
        paths.setdefault(key, path)

    # 2. Bundles that cannot be trusted are told apart.
    names = {trusted.key.fingerprint: trusted.name for trusted in entries.values()}
    offered, refused = _choose(list(kept.values()), paths, folder, store, any_signer=settings.any_signer)

    # 3. Signatures beside a bundle are offered with it; others are not.
    for facts in offered:
        facts["beside"] = _judge_beside(paths[facts["key"]], facts.get("beside", {}))
    left_out = sum(not is_good for facts in offered for is_good in facts["beside"].values())

    # 4. Each dataset's releases, newest first, and the files that show them; the list comes last.
    outputs: dict[str, Output] = {}
    series: dict[str, list[Facts]] = {}
    for facts in sorted(offered, key=lambda each: (each["folder"], -each["number"])):
        series.setdefault(facts["folder"], []).append(facts)
    for place, releases in series.items():
        files_of_all = [each["sha256"] for each in releases]
        for facts in releases:
            context: Facts = {"title": settings.title, "signer_name": names.get(facts["signer"], "")}
            made_from = _key(code, facts["sha256"], settings.address, context, files_of_all, facts["beside"])
            source = paths[facts["key"]]
            outputs[f"{place}/{facts['tar']}"] = Output(facts["sha256"], source=source)
            for sha256 in filter(facts["beside"].get, facts["beside"]):
                outputs[f"{place}/{facts['tar']}.minisig"] = Output(
                    sha256, source=minisig_path(tar_beside(source) if source.is_dir() else source)
                )
            outputs[f"{place}/{facts['page']}"] = Output(
                made_from, make=partial(release_page, facts, history=releases, **context)
            )
    newest = sorted((each[0] for each in series.values()), key=lambda each: (each["created"], each["folder"]))[::-1]
    ordered = [facts for each in series.values() for facts in each]
    outputs |= _lists(code, settings, newest, ordered, refused, names)

    written, removed = site.write(outputs, kept)
    return SiteSummary(len(offered), len(refused), fresh, written, removed, left_out)


def _find(folder: Path, out: Path) -> list[Path]:
    if not folder.is_dir():
        raise DpGraphError(f"{quote_path(folder)} is not a folder: give the one that holds the bundles")
    if folder.resolve().is_relative_to(out.resolve()):
        raise DpGraphError(
            f"{quote_path(out)} would hold both the bundles and the site: give another folder with --out"
        )
    return find_bundles(folder, out)


@contextlib.contextmanager
def _alone(out: Path) -> Iterator[None]:
    """Keep other runs from writing to the site's folder, which is made if missing."""
    if out.exists() and not out.is_dir():
        raise DpGraphError(f"{quote_path(out)} is a file: give the name of a folder with --out")
    with contextlib.ExitStack() as lock:
        try:
            out.mkdir(parents=True, exist_ok=True)
            lock.enter_context(locked_folder(out, 0.0))
        except TimeoutError as error:
            raise DpGraphError(
                f"another dp-bundle catalog is writing {quote_path(out)}: run the command again when that one has ended"
            ) from error
        except OSError as error:
            raise DpGraphError(f"the site in {quote_path(out)} cannot be written: {error.strerror}") from error
        yield


def _choose(
    surveyed: Sequence[Facts], paths: Mapping[str, Path], folder: Path, store: TrustStore, *, any_signer: bool
) -> tuple[list[Facts], list[Refused]]:
    """Return the bundles to offer, and those to list as refused, each with the reason.

    Parameters
    ----------
    surveyed : sequence of dict
        What `survey` found.
    paths : dict of str to Path
        The tars and folders, by the facts' `key`.
    folder : Path
        Where they are.
    store : TrustStore
        Whom to trust.
    any_signer : bool
        Whether to offer bundles of others, too.
    """
    offered, refused = [], []
    twice: dict[tuple[str, int], list[Facts]] = {}
    for facts in surveyed:
        why = facts.get("why") or _distrust(facts, store, any_signer=any_signer)
        if why:
            refused.append(Refused(paths[facts["key"]].relative_to(folder).as_posix(), why))
        else:
            twice.setdefault((facts["folder"], facts["number"]), []).append(facts)
    for (_, number), same in twice.items():
        if len({facts["manifest_sha256"] for facts in same}) == 1:
            offered.append(same[0])
            continue
        why = f"{counted(len(same), 'file')} here claim to be release {number} of this dataset, and differ: ask the "
        why += "publisher which one counts"
        refused += [Refused(paths[facts["key"]].relative_to(folder).as_posix(), why) for facts in same]
    return offered, sorted(refused)


def _distrust(facts: Facts, store: TrustStore, *, any_signer: bool) -> str:
    """Return a sentence if this machine does not trust a signer, or holds this release to be revoked."""
    key = PublicKey.from_fingerprint(facts["signer"])
    try:
        if not any_signer:
            store.require(key)
    except BundleError:
        return f"every byte is as it was signed, but this portal does not know its signer, {key.fingerprint}"

    try:
        known = ("name", "series", "number", "kind", "manifest_sha256", "previous")
        store.vouch(key, Sighting(*(facts[name] for name in known)))
    except BundleError as error:
        return str(error)
    return ""


def _judge_beside(path: Path, known: Mapping[str, bool]) -> dict[str, bool]:
    """Return the digest of the file beside a verified bundle, if there is one, and whether it is a signature of it.

    Parameters
    ----------
    path : Path
        The bundle.
    known : mapping of str to bool
        What this returned last time; a file with the same digest is not checked again.
    """
    found = read_minisig(tar_beside(path) if path.is_dir() else path)
    if found is None:
        return {}
    sha256 = hashlib.sha256(found).hexdigest()
    if sha256 in known:
        return {sha256: known[sha256]}
    try:
        with open_bundle(path, UnsafeTrustAnyone()) as bundle:
            return {sha256: belongs(found, bundle)}
    except BundleError:  # it was replaced since it was verified, which will be found when it is copied
        return {sha256: False}


def _lists(
    code: str,
    settings: SiteSettings,
    newest: list[Facts],
    ordered: list[Facts],
    refused: list[Refused],
    names: dict[str, str],
) -> dict[str, Output]:
    """Return the files about all datasets together, the list of them last."""
    title, address = settings.title, settings.address
    everything = [each for facts in ordered for each in (facts["sha256"], *facts["beside"])]
    made_from = _key(code, *everything, title, address, [tuple(each) for each in refused], names)
    values = {"title": title, "address": address, "offered": ordered, "names": names}
    values |= _feed_values(address, title, ordered)
    makers = {
        "catalog.jsonld": partial(catalog_document, title, address, ordered),
        "feed.xml": partial(fill_template, ASSETS, "feed.xml", values),
        "SHA256SUMS": partial(fill_template, ASSETS, "sums.txt", values),
    }
    if address:
        makers["sitemap.xml"] = partial(fill_template, ASSETS, "sitemap.xml", values)
    makers["index.html"] = partial(list_page, newest, refused, title=title, address=address, names=names)
    return {name: Output(made_from, make=make) for name, make in makers.items()}


def _plain(document: Facts) -> Facts:
    """Return the document as it will be read again, so that a second run makes the same bytes."""
    plain: Facts = json.loads(json.dumps(document))
    return plain


def _key(*parts: Any) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _code_version() -> str:
    """Return a digest of the code that decides what a page shows, the learner's too, and of the version."""
    packages = [_PACKAGE, *filter(None, [find_reader_package()])]
    files = sorted(path for package in packages for path in package.rglob("*") if path.suffix in _SOURCES)
    whole = hashlib.sha256(version("dpgraph").encode())
    for path in files:
        whole.update(path.read_bytes())
    return whole.hexdigest()


_NEWEST = 100  # entries of the feed


def catalog_document(title: str, address: str, offered: Sequence[Facts]) -> str:
    """Return the catalog of all offered releases as DCAT in JSON-LD."""
    catalog = {
        "@context": read_template("dcat")["@context"],
        "@id": address or "#catalog",
        "@type": "dcat:Catalog",
        "dct:title": title,
        "dct:description": "Data sets that carry random noise for differential privacy, each signed by its publisher.",
        "dct:publisher": {"@type": "foaf:Agent", "foaf:name": title},
        "dcat:dataset": [
            {name: value for name, value in facts["dcat"].items() if name != "@context"} for facts in offered
        ],
    }
    return json.dumps(catalog, indent=1, ensure_ascii=False) + "\n"


def _feed_values(address: str, title: str, offered: Sequence[Facts]) -> Facts:
    """Return what the feed is filled with: the newest releases, each with a name that no other has."""
    newest = sorted(offered, key=lambda facts: (facts["created"], facts["manifest_sha256"]), reverse=True)[:_NEWEST]
    return {
        "identifier": address or f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, title)}",
        "newest": [(uuid.uuid5(uuid.NAMESPACE_URL, f"sha256:{each['manifest_sha256']}"), each) for each in newest],
    }


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
    folder = f"datasets/{_in_address(name)}-{hashlib.sha256(f'{root.fingerprint} {name}'.encode()).hexdigest()[:8]}"
    stem = _in_address(release.dataset.name)
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
        "holds": _HOLDS["histograms" if release.margins is not None else release.kind],
        "has_margins": release.margins is not None,
        "measure": describe_size(release),
        "software": release.software,
        "n_columns": len(release.columns),
        "label": worded_label(release),
        "about": _about(Subject(release)),
        "columns": [_column(column, clip, meanings) for column in release.columns[:SHOWN_COLUMNS]],
        **_show_values(bundle),
        "dcat": describe_in("dcat", release, [whole], address=f"{address}{folder}/{page}"),
        "schema_org": describe_in(
            "schema.org", release, [near], address=f"{address}{folder}/{page}" if address else ""
        ),
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


def _in_address(name: str) -> str:
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
