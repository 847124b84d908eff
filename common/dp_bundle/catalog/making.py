"""The making of a site: bundles are found, verified or remembered, chosen, sorted by dataset, and shown.

Offered are bundles that verify, of signers who are trusted for them, one for each number. Signatures beside them are
checked once, and known again by their digests.

A portal's files for other machines: a DCAT catalog, an Atom feed, a sitemap and checksums.

References
----------
DCAT-AP 3.0.0. RFC 4287 (Atom). sitemaps.org, protocol 0.9. GNU coreutils, sha256sum.
What a site shows of one bundle are plain texts and numbers, which can be kept for the next run.
"""

import contextlib
import datetime
import hashlib
import json
import os
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from dp_bundle.base.document import fill_template
from dp_bundle.base.errors import BundleError, DpGraphError
from dp_bundle.base.quoting import counted, quote_path
from dp_bundle.bundle.opened import Bundle, tar_beside
from dp_bundle.bundle.packing import belongs, minisig_path, published_files, read_minisig
from dp_bundle.bundle.reading import find_bundles, open_bundle
from dp_bundle.bundle.writing import MANIFEST_NAME, sha256_of
from dp_bundle.catalog.label import worded_label
from dp_bundle.catalog.pages import ASSETS, Listed, Refused, list_page, release_page, withdrawn_page
from dp_bundle.catalog.shown import Facts, show_data
from dp_bundle.catalog.site import Output, Site, Withdrawal, find_withdrawals, note_path, replacements, told_of
from dp_bundle.catalog.vocabularies import describe_in, read_template
from dp_bundle.data.learned import find_reader_package
from dp_bundle.describe.sentences import describe_gaps, describe_size
from dp_bundle.describe.subject import TAR, PublishedFile, Subject
from dp_bundle.files.new_files import locked_folder, write_whole
from dp_bundle.trust.judging import Entries, Sighting, UnsafeTrustAnyone
from dp_bundle.trust.signing import PublicKey
from dp_bundle.trust.store import TrustStore

_PACKAGE = Path(__file__).parents[1]
_SOURCES = {".py", ".html", ".css", ".js", ".json", ".txt", ".xml"}
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

    `left_out` counts files beside bundles offered that are no signatures of them, by their names. `withdrawn` counts
    releases that were offered before, and no longer are.
    """

    offered: int
    refused: int
    read: int
    written: int
    removed: int
    left_out: int = 0
    withdrawn: int = 0


def withdraw(path: Path, why: str, store: TrustStore | None = None) -> Path:
    """Write the note beside a bundle by which sites no longer offer it, and say why; return its path.

    Parameters
    ----------
    path : Path
        The tar or the folder, whoever signed it; it stays as it is.
    why : str
        A sentence for the public.
    store : TrustStore, optional
        Which keys belong together; the user's own store by default.

    Raises
    ------
    DpGraphError
        The bundle does not verify, there is a note already, or it cannot be written.
    """
    with open_bundle(path, UnsafeTrustAnyone((store or TrustStore()).entries())) as bundle:
        folder, page, _ = _places(bundle)
        release = bundle.release
        note = Withdrawal(
            when=datetime.datetime.now(datetime.UTC).replace(microsecond=0),
            why=why,
            title=Subject(release).title,
            name=release.dataset.name,
            number=release.lineage.number,
            created=release.lineage.created,
            signer=bundle.signer.key.fingerprint,
            sha256=published_files(bundle)[0].sha256 if path.is_dir() else digest_bundle(path),
            manifest_sha256=bundle.manifest_sha256,
            folder=folder,
            page=page,
        )
    place = note_path(path)
    try:
        write_whole(place, f"{note.model_dump_json(indent=1)}\n".encode(), replace=False)
    except FileExistsError as error:
        raise DpGraphError(f"{quote_path(place)} is there already: remove it to write another note") from error
    except OSError as error:
        raise DpGraphError(f"{quote_path(place)} cannot be written: {error.strerror or error}") from error
    return place


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
    notes = find_withdrawals(folder)
    gone = {each.manifest_sha256 for each in notes}
    surveyed = [facts for facts in kept.values() if facts.get("manifest_sha256") not in gone]
    offered, refused = _choose(surveyed, paths, folder, store, any_signer=settings.any_signer)
    withdrawn = told_of(notes, offered)
    _tell_apart(offered, names)

    # 3. Signatures beside a bundle are offered with it; others are not.
    for facts in offered:
        facts["beside"] = _judge_beside(paths[facts["key"]], facts.get("beside", {}))
    left_out = sum(not is_good for facts in offered for is_good in facts["beside"].values())

    # 4. Each dataset's releases, newest first, and the files that show them; the list comes last.
    series: dict[str, list[Facts]] = {}
    for facts in sorted(offered, key=lambda each: (each["folder"], -each["number"])):
        series.setdefault(facts["folder"], []).append(facts)
    newest = sorted((each[0] for each in series.values()), key=lambda each: (each["created"], each["folder"]))[::-1]
    ordered = [facts for each in series.values() for facts in each]
    listed = Listed(newest, ordered, refused, withdrawn, replacements(withdrawn, newest))
    outputs: dict[str, Output] = {}
    for releases in series.values():
        outputs |= _pages_of(code, settings, releases, listed, names)
        outputs |= _downloads_of(releases, paths)
    for each in withdrawn:
        values = {"portal": settings.title, "gone": each, "instead": listed.instead.get(each.place, "")}
        made_from = _key(code, each.model_dump_json(), settings.title, values["instead"])
        outputs[each.place] = Output(made_from, make=partial(withdrawn_page, values))
    outputs |= _lists(code, settings, listed, names)

    written, removed = site.write(outputs, kept)
    return SiteSummary(len(offered), len(refused), fresh, written, removed, left_out, len(withdrawn))


def _pages_of(
    code: str, settings: SiteSettings, releases: Sequence[Facts], listed: Listed, names: Mapping[str, str]
) -> dict[str, Output]:
    """Return the pages of a dataset's releases, each of which tells of all."""
    of_all = [[each["sha256"] for each in releases], releases[0]["about"]["title"]]
    gone = [each.model_dump(mode="json") for each in listed.withdrawn if each.folder == releases[0]["folder"]]
    outputs = {}
    for facts in releases:
        context: Facts = {"title": settings.title, "signer_name": names.get(facts["signer"], ""), "withdrawn": gone}
        made_from = _key(code, facts["sha256"], settings.address, context, of_all, facts["beside"])
        make = partial(release_page, facts, history=releases, **context)
        outputs[f"{facts['folder']}/{facts['page']}"] = Output(made_from, make=make)
    return outputs


def _downloads_of(releases: Sequence[Facts], paths: Mapping[str, Path]) -> dict[str, Output]:
    """Return the tars of a dataset's releases, and the signatures beside them."""
    outputs = {}
    for facts in releases:
        name, source = f"{facts['folder']}/{facts['tar']}", paths[facts["key"]]
        outputs[name] = Output(facts["sha256"], source=source)
        for sha256 in filter(facts["beside"].get, facts["beside"]):
            signature = minisig_path(tar_beside(source) if source.is_dir() else source)
            outputs[f"{name}.minisig"] = Output(sha256, source=signature)
    return outputs


def _tell_apart(offered: list[Facts], names: Mapping[str, str]) -> None:
    """Give datasets of one title the name of each in it, and that of its signer where their names are the same, too."""

    def tell(told: Sequence[str]) -> None:
        places: dict[str, set[str]] = {}
        for facts in offered:
            places.setdefault(facts["about"]["title"], set()).add(facts["folder"])
        for index, (facts, more) in enumerate(zip(offered, told, strict=True)):
            title = facts["about"]["title"]
            if len(places[title]) > 1:
                offered[index] = {**facts, "about": {**facts["about"], "title": f"{title} ({more})"}}

    tell([facts["name"] for facts in offered])
    tell([names.get(facts["signer"]) or facts["signer"] for facts in offered])


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


def _lists(code: str, settings: SiteSettings, listed: Listed, names: dict[str, str]) -> dict[str, Output]:
    """Return the files about all datasets together, the list of them last."""
    title, address = settings.title, settings.address
    everything = [each for facts in listed.ordered for each in (facts["sha256"], *facts["beside"])]
    told = [facts["about"]["title"] for facts in listed.ordered]
    gone = [each.model_dump_json() for each in listed.withdrawn]
    made_from = _key(code, *everything, title, address, [tuple(each) for each in listed.refused], names, told, gone)

    values: Facts = {"title": title, "address": address, "offered": listed.ordered}
    values |= {"withdrawn": listed.withdrawn, **_feed_values(address, title, listed, names)}
    makers = {
        "catalog.jsonld": partial(catalog_document, title, address, listed),
        "feed.xml": partial(fill_template, ASSETS, "feed.xml", values),
        "SHA256SUMS": partial(fill_template, ASSETS, "sums.txt", values),
    }
    if address:
        makers["sitemap.xml"] = partial(fill_template, ASSETS, "sitemap.xml", values)
    makers["index.html"] = partial(list_page, listed, title=title, address=address, names=names)
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


def catalog_document(title: str, address: str, listed: Listed) -> str:
    """Return the catalog of all releases as DCAT in JSON-LD, those that were withdrawn with that status."""
    offered = [
        {**facts["dcat"], "dct:title": f"{facts['about']['title']}, release {facts['number']}"}
        for facts in listed.ordered
    ]
    gone = [each.described(address, listed.instead.get(each.place, "")) for each in listed.withdrawn]
    catalog = {
        "@context": read_template("dcat")["@context"],
        "@id": address or "#catalog",
        "@type": "dcat:Catalog",
        "dct:title": title,
        "dct:description": "Data sets that carry random noise for differential privacy, each signed by its publisher.",
        "dct:publisher": {"@type": "foaf:Agent", "foaf:name": title},
        "dcat:dataset": [
            {name: value for name, value in each.items() if name != "@context"} for each in (*offered, *gone)
        ],
    }
    return json.dumps(catalog, indent=1, ensure_ascii=False) + "\n"


def _feed_values(address: str, title: str, listed: Listed, names: Mapping[str, str]) -> Facts:
    """Return what the feed is filled with: the latest releases and withdrawals, each release by a name of its own."""
    entries = [_released(facts, names) for facts in listed.ordered]
    entries += [
        {
            "title": f"Withdrawn: {each.title}, release {each.number}",
            "updated": each.when.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "by": [title],
            "place": each.place,
            "told": each.why,
            "manifest_sha256": each.manifest_sha256,
        }
        for each in listed.withdrawn
    ]
    latest = sorted(entries, key=lambda each: (each["updated"], each["manifest_sha256"]), reverse=True)[:_NEWEST]
    for each in latest:
        each["identifier"] = uuid.uuid5(uuid.NAMESPACE_URL, f"sha256:{each['manifest_sha256']}")
    return {"identifier": address or f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, title)}", "latest": latest}


def _released(facts: Facts, names: Mapping[str, str]) -> Facts:
    """Return a release's entry in the feed, which says first what is new."""
    about, number = facts["about"], facts["number"]
    new = f"{facts['measure'][:1].upper()}{facts['measure'][1:]}."
    told = [new, f"It follows release {number - 1}."] if number > 1 else ["A new dataset.", new]
    return {
        "title": f"{about['title']}, release {number}",
        "updated": facts["created"],
        "by": about["creators"] or [about["publisher"] or names.get(facts["signer"]) or facts["signer"]],
        "place": f"{facts['folder']}/{facts['page']}",
        "told": " ".join([*told, facts["label"]["who"]]),  # what it promises is on its page, in full
        "manifest_sha256": facts["manifest_sha256"],
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
    folder, page, tar = _places(bundle)
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
        "measure": describe_size(release),
        "software": release.software,
        "label": worded_label(release),
        "about": _about(Subject(release)),
        "data": json.dumps(show_data(bundle)),  # most of all, and read for the page of a release alone
        "gaps": describe_gaps(release),
        "dcat": describe_in("dcat", release, [whole], address=f"{address}{folder}/{page}"),
        "schema_org": describe_in(
            "schema.org", release, [near], address=f"{address}{folder}/{page}" if address else ""
        ),
    }


def _places(bundle: Bundle) -> tuple[str, str, str]:
    """Return a dataset's folder, whose name is its own and stays the same, and a release's page and tar in it."""
    (root, name), number = bundle.origin, bundle.release.lineage.number
    folder = f"datasets/{_in_address(name)}-{hashlib.sha256(f'{root.fingerprint} {name}'.encode()).hexdigest()[:8]}"
    return folder, f"release-{number}.html", f"{_in_address(bundle.release.dataset.name)}-{number}.bundle.tar"


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


def _in_address(name: str) -> str:
    """Return a name as a part of an address: at most 40 letters and digits of ASCII, joined by hyphens."""
    return _NOT_IN_NAMES.sub("-", name.lower()).strip("-")[:40].strip("-") or "dataset"
