"""The making of a site: bundles are found, verified or remembered, chosen, sorted by dataset, and shown.

Offered are bundles that verify, of signers who are trusted for them, one for each number, with the signatures beside
them, which are checked once, and known again by their digests.

A portal's files for other machines: a DCAT catalog, an Atom feed, a sitemap and checksums.

References
----------
DCAT-AP 3.0.0. RFC 4287 (Atom). sitemaps.org, protocol 0.9. GNU coreutils, sha256sum.
"""

import contextlib
import hashlib
import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape as escape_xml
from xml.sax.saxutils import quoteattr

from dp_bundle.base.errors import BundleError, DpGraphError
from dp_bundle.base.quoting import counted, escape, quote_path
from dp_bundle.bundle.packing import belongs, minisig_path, read_minisig
from dp_bundle.bundle.reading import find_bundles, open_bundle
from dp_bundle.catalog.pages import Facts, Refused, brief, list_page, release_page
from dp_bundle.catalog.site import Output, Site
from dp_bundle.catalog.survey import digest_bundle, may_be_bundle, survey
from dp_bundle.files.new_files import locked_folder
from dp_bundle.files.tar import packed_path
from dp_bundle.portals.learned import find_reader_package
from dp_bundle.portals.portal_json import DCAT_CONTEXT
from dp_bundle.trust.judging import UnsafeTrustAnyone
from dp_bundle.trust.seen import Sighting
from dp_bundle.trust.signing import PublicKey
from dp_bundle.trust.store import TrustStore

_PACKAGE = Path(__file__).parents[1]
_SOURCES = {".py", ".html", ".css", ".js"}


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
        history = [brief(each) for each in releases]
        for facts in releases:
            name = names.get(facts["signer"], "")
            context: Facts = {"title": settings.title, "signer_name": name, "history": history}
            made_from = _key(code, facts["sha256"], settings.address, context, facts["beside"])
            source = paths[facts["key"]]
            outputs[f"{place}/{facts['tar']}"] = Output(facts["sha256"], source=source)
            for sha256 in filter(facts["beside"].get, facts["beside"]):
                outputs[f"{place}/{facts['tar']}.minisig"] = Output(
                    sha256, source=minisig_path(packed_path(source) if source.is_dir() else source)
                )
            outputs[f"{place}/{facts['page']}"] = Output(made_from, make=partial(release_page, facts, **context))
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
    found = read_minisig(packed_path(path) if path.is_dir() else path)
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
    makers = {
        "catalog.jsonld": partial(catalog_document, title, address, ordered),
        "feed.xml": partial(atom_feed, title, address, ordered, names),
        "SHA256SUMS": partial(checksums, ordered),
    }
    if address:
        makers["sitemap.xml"] = partial(sitemap, address, ordered)
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
_EPOCH = "1970-01-01T00:00:00Z"  # of a feed without entries, which must have a date


def catalog_document(title: str, address: str, offered: Sequence[Facts]) -> str:
    """Return the catalog of all offered releases as DCAT in JSON-LD."""
    catalog = {
        "@context": DCAT_CONTEXT,
        "@id": address or "#catalog",
        "@type": "dcat:Catalog",
        "dct:title": title,
        "dct:description": "Data sets that carry random noise for differential privacy, each signed by its publisher.",
        "dct:publisher": {"@type": "foaf:Agent", "foaf:name": title},
        "dcat:dataset": [facts["dcat"] for facts in offered],
    }
    return json.dumps(catalog, indent=1, ensure_ascii=False) + "\n"


def atom_feed(title: str, address: str, offered: Sequence[Facts], names: Mapping[str, str]) -> str:
    """Return the newest releases as an Atom feed; `names` are what the portal calls signers, by their keys."""
    newest = sorted(offered, key=lambda facts: (facts["created"], facts["manifest_sha256"]), reverse=True)[:_NEWEST]
    updated = newest[0]["created"] if newest else _EPOCH
    name = address or f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, title)}"
    links = [f"<link href={quoteattr(address or 'index.html')}/>"]
    if address:
        links.append(f'<link rel="self" href={quoteattr(f"{address}feed.xml")}/>')
    head = [
        '<?xml version="1.0" encoding="utf-8"?>',
        '<feed xmlns="http://www.w3.org/2005/Atom">',
        f"<title>{_text(title)}</title><id>{_text(name)}</id><updated>{updated}</updated>{''.join(links)}",
    ]
    return "\n".join([*head, *(_entry(address, facts, names) for facts in newest), "</feed>", ""])


def _entry(address: str, facts: Facts, names: Mapping[str, str]) -> str:
    about, label = facts["about"], facts["label"]
    name = uuid.uuid5(uuid.NAMESPACE_URL, f"sha256:{facts['manifest_sha256']}")
    by = about["creators"] or [about["publisher"] or names.get(facts["signer"]) or facts["signer"]]
    authors = "".join(f"<author><name>{_text(each)}</name></author>" for each in by)
    summary = " ".join([label["who"], *label["strength"]])
    link = f"{address}{facts['folder']}/{facts['page']}"
    return (
        f"<entry><title>{_text(about['title'])}, release {facts['number']}</title><id>urn:uuid:{name}</id>"
        f"<updated>{facts['created']}</updated>{authors}"
        f"<link href={quoteattr(link)}/>"
        f"<summary>{_text(summary)}</summary></entry>"
    )


def sitemap(address: str, offered: Sequence[Facts]) -> str:
    """Return the sitemap of a site whose address is known."""
    pages = [f"{facts['folder']}/{facts['page']}" for facts in offered]
    dates = [facts["created"][:10] for facts in offered]
    urls = [f"<url><loc>{_text(address)}</loc></url>"]
    urls += [
        f"<url><loc>{_text(address + page)}</loc><lastmod>{date}</lastmod></url>"
        for page, date in zip(pages, dates, strict=True)
    ]
    head = '<?xml version="1.0" encoding="utf-8"?>\n<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">'
    return "\n".join([head, *urls, "</urlset>", ""])


def checksums(offered: Sequence[Facts]) -> str:
    """Return the digest of every download, as sha256sum -c reads it."""
    lines = []
    for facts in offered:
        name = f"{facts['folder']}/{facts['tar']}"
        lines.append(f"{facts['sha256']}  {name}\n")
        lines += [f"{sha256}  {name}.minisig\n" for sha256, is_good in facts["beside"].items() if is_good]
    return "".join(lines)


def _text(text: str) -> str:
    return escape_xml(escape(text))
