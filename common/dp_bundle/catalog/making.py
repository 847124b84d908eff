"""The making of a site: bundles are found, verified or remembered, sorted by dataset, and shown."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from dp_bundle.base.errors import DpGraphError
from dp_bundle.base.quoting import quote_path
from dp_bundle.bundle.reading import find_bundles
from dp_bundle.catalog.choosing import choose, find_beside
from dp_bundle.catalog.feeds import atom_feed, catalog_document, checksums, sitemap
from dp_bundle.catalog.pages import Refused, list_page, release_page
from dp_bundle.catalog.site import Output, Site
from dp_bundle.catalog.survey import digest_bundle, survey
from dp_bundle.files.folder import packed_path
from dp_bundle.files.locking import locked_folder
from dp_bundle.trust.store import TrustStore

_PACKAGE = Path(__file__).parents[1]
_SHOWN_BY = ("catalog", "describe", "page")  # the rooms whose code decides what a page shows
Facts = dict[str, Any]


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
    code = _code_version()
    site = Site.open(out, _key(code, settings.address))

    # 1. Every bundle is read for its digest; only those not seen before are verified and surveyed.
    paths: dict[str, Path] = {}
    kept: dict[str, Facts] = {}
    fresh = 0
    for path in files:
        try:
            key = digest_bundle(path)
        except OSError as error:
            raise DpGraphError(f"{quote_path(path)} cannot be read: {error.strerror}") from error
        known = site.kept.get(key)
        fresh += known is None and key not in kept
        kept[key] = known or kept.get(key) or _plain(survey(path, key, settings.address))
        paths.setdefault(key, path)

    # 2. Bundles that cannot be trusted are told apart.
    entries = store.keys()
    names = {trusted.key.fingerprint: trusted.name for trusted in entries}
    offered, refused = choose(list(kept.values()), paths, folder, store, any_signer=settings.any_signer)

    # 3. Signatures beside a bundle are offered with it; others are not.
    for facts in offered:
        facts["beside"] = find_beside(paths[facts["key"]], facts.get("beside", ()))
    left_out = sum(not each["good"] for facts in offered for each in facts["beside"])

    # 4. Each dataset's releases, newest first, and the files that show them; the list comes last.
    outputs: dict[str, Output] = {}
    series: dict[str, list[Facts]] = {}
    for facts in sorted(offered, key=lambda each: (each["folder"], -each["number"])):
        series.setdefault(facts["folder"], []).append(facts)
    for place, releases in series.items():
        history = [_brief(each) for each in releases]
        for facts in releases:
            name = names.get(facts["signer"], "")
            context: Facts = {"title": settings.title, "signer_name": name, "history": history}
            made_from = _key(code, facts["sha256"], settings.address, context, facts["beside"])
            source = paths[facts["key"]]
            beside = packed_path(source) if source.is_dir() else source
            outputs[f"{place}/{facts['tar']}"] = Output(facts["sha256"], source=source)
            outputs |= {
                f"{place}/{facts['tar']}.{each['kind']}": Output(
                    each["sha256"], source=beside.with_name(f"{beside.name}.{each['kind']}")
                )
                for each in facts["beside"]
                if each["good"]
            }
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


def _brief(facts: Facts) -> Facts:
    """Return what a dataset's other pages say of a release."""
    names = ("number", "created", "kind", "page", "tar", "size", "sha256", "manifest_sha256", "previous", "series")
    return {**{name: facts[name] for name in names}, **{name: facts["label"][name] for name in ("protects", "right")}}


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
    everything = [each["sha256"] for facts in ordered for each in (facts, *facts["beside"])]
    made_from = _key(code, *everything, title, address, [tuple(each) for each in refused], names)
    makers = {
        "catalog.jsonld": partial(catalog_document, title, address, ordered),
        "feed.xml": partial(atom_feed, title, address, ordered),
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
    """Return a digest of the code that decides what a page shows, and of the version of all the rest."""
    files = sorted(path for room in _SHOWN_BY for path in (_PACKAGE / room).rglob("*") if path.suffix in _SOURCES)
    whole = hashlib.sha256(version("dpgraph").encode())
    for path in files:
        whole.update(path.read_bytes())
    return whole.hexdigest()


_SOURCES = {".py", ".html", ".css", ".js"}
