"""The folder of a site: only what changed is written, each file whole, and nothing is touched that is not ours.

`.dpgraph-catalog.json` in it names the files that are ours, each with its digest and the digest of what it was made
from. It is written first, with all files that are to come, and again when all is done. A process that was killed
between leaves pages of which each is whole, and files that have no name yet. The next run goes on from there, and
removes those.

A preview of a site in a browser on this machine, and on no other.

The check of a finished site, by its files alone: links, checksums, and what other machines read.

Releases that a portal has withdrawn: a note beside the bundle, or in its place, from which a page stays.

Whoever cited a release, or has its file, still finds at its address that it was withdrawn, when, why, and what replaces
it. The bundle itself is no longer offered, and may be deleted: the note alone is enough.

References
----------
DCAT 3 (W3C, 2024), 11.4, has `adms:status` and `dct:isReplacedBy`. EU vocabulary dataset-status
(publications.europa.eu).
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import cache, partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from dp_bundle.base.errors import BundleError, BundleFormatError, DpGraphError
from dp_bundle.base.quoting import quote_path
from dp_bundle.bundle.packing import write_tar
from dp_bundle.bundle.reading import is_bundle, open_bundle
from dp_bundle.bundle.writing import sha256_of
from dp_bundle.files.new_files import is_inside
from dp_bundle.trust.judging import UnsafeTrustAnyone

STATE = ".dpgraph-catalog.json"
_PARTIAL = ".partial"


@dataclass(frozen=True)
class Output:
    """A file of the site.

    Attributes
    ----------
    made_from : str
        A digest of all that it depends on; if it is the same as last time, the file stays.
    make : callable, optional
        Returns its content.
    source : Path, optional
        The tar that it is a copy of, or the folder that it is packed from, with the digest `made_from`.
    """

    made_from: str
    make: Callable[[], str] | None = None
    source: Path | None = None


@dataclass
class Site:
    """A folder with a site, and what is known of it.

    Attributes
    ----------
    folder : Path
        The folder.
    files : dict
        Of every file that is ours, by its path in the folder: its digest, and the digest of what it was made from.
    kept : dict
        What the last run learned of every bundle, by the digest of its file.
    version : str
        What bundles are learned with: a version of the software, and its settings.
    """

    folder: Path
    version: str
    files: dict[str, list[str]] = field(default_factory=dict)
    kept: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def open(cls, folder: Path, version: str) -> Site:
        """Return the site in a folder, or a new one; what another version of the software learned is forgotten."""
        try:
            state = json.loads((folder / STATE).read_text(encoding="utf-8"))
            files = {str(name): [str(pair[0]), str(pair[1])] for name, pair in state["files"].items()}
            kept = dict(state["bundles"]) if state["version"] == version else {}
        except FileNotFoundError:
            return cls(folder, version)
        except (OSError, ValueError, TypeError, KeyError, AttributeError, IndexError) as error:
            raise DpGraphError(
                f"{quote_path(folder / STATE)} is unreadable: write the site to a new folder, and remove this one"
            ) from error
        return cls(folder, version, {name: pair for name, pair in files.items() if is_inside(name)}, kept)

    def write(self, outputs: Mapping[str, Output], kept: Mapping[str, Any]) -> tuple[int, int]:
        """Write what changed, in the order given, and then remove what is ours and no longer wanted.

        Returns
        -------
        tuple of int
            The numbers of files written and removed.

        Raises
        ------
        DpGraphError
            A file that is not ours is in the way, or the folder cannot be written.
        """
        try:
            for name in outputs:
                if name not in self.files and os.path.lexists(self.folder / name):
                    raise DpGraphError(
                        f"{quote_path(self.folder / name)} is there and was not made by dp-bundle catalog: move it "
                        "away, or give another folder with --out"
                    )
            known = {name: self.files.get(name, ["", ""]) for name in outputs}
            self._save({**self.files, **known}, {**self.kept, **kept})
            self._clear({STATE, *self.files, *known})
            written = {name: self._renew(name, output) for name, output in outputs.items()}
            removed = [name for name in self.files if name not in outputs and self._remove(name)]
            self.files = {name: pair for name, (pair, _) in written.items()}
            self._save(self.files, kept)
        except OSError as error:
            raise DpGraphError(
                f"the site in {quote_path(self.folder)} cannot be written: {error.strerror or error}"
            ) from error
        return sum(changed for _, changed in written.values()), len(removed)

    def _clear(self, names: Iterable[str]) -> None:
        """Remove what killed runs left of files of these names; no other run is writing."""
        paths = [self.folder / name for name in names]
        found = {folder: list(folder.glob(f".*{_PARTIAL}")) for folder in {path.parent for path in paths}}
        for path in paths:
            half = re.compile(rf"\.{re.escape(path.name)}\.[0-9]+{re.escape(_PARTIAL)}")
            for left in found[path.parent]:
                if half.fullmatch(left.name) and not left.is_dir():
                    left.unlink(missing_ok=True)

    def _renew(self, name: str, output: Output) -> tuple[list[str], bool]:
        """Write a file unless it is there already; return what is noted of it, and True if it was written."""
        path, (digest, made_from) = self.folder / name, self.files.get(name, ["", ""])
        if digest and made_from == output.made_from and _digest(path) == digest:
            return [digest, made_from], False
        if output.source is not None:
            return [self._copy(path, output.source, output.made_from), output.made_from], True
        content = output.make().encode() if output.make is not None else b""
        fresh = hashlib.sha256(content).hexdigest()
        if _digest(path) == fresh:
            return [fresh, output.made_from], False
        with _replacing(path) as partial:
            partial.write_bytes(content)
        return [fresh, output.made_from], True

    def _copy(self, path: Path, source: Path, sha256: str) -> str:
        """Copy a bundle, and refuse it if it is no longer the file that was verified."""
        with _replacing(path) as partial:
            if source.is_dir():
                _pack(source, partial)
            else:
                shutil.copyfile(source, partial)
            if _digest(partial) != sha256:
                raise _changed(source)
        return sha256

    def _remove(self, name: str) -> bool:
        """Remove a file of ours, unless somebody else wrote to it since, and folders that are then empty."""
        path = self.folder / name
        if path.is_symlink() or _digest(path) != self.files[name][0]:
            return False
        path.unlink(missing_ok=True)  # of a run that was killed before it wrote the file
        for folder in path.parents:
            if folder == self.folder:
                break
            with contextlib.suppress(OSError):
                folder.rmdir()
        return True

    def _save(self, files: Mapping[str, list[str]], kept: Mapping[str, Any]) -> None:
        document = {"version": self.version, "files": files, "bundles": kept}
        content = json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
        path = self.folder / STATE
        if not (path.exists() and path.read_bytes() == content):
            with _replacing(path) as partial:
                partial.write_bytes(content)


@contextlib.contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """Give the path of a new file, which takes the place of another when the block ends without an error."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}{_PARTIAL}")
    try:
        yield partial
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _pack(source: Path, tar: Path) -> None:
    try:
        with open_bundle(source, UnsafeTrustAnyone()) as bundle, tar.open("wb") as file:
            write_tar(bundle, file)
    except BundleError as error:
        raise _changed(source) from error


def _changed(source: Path) -> DpGraphError:
    return DpGraphError(f"{quote_path(source)} changed while it was read: run the command again")


def _digest(path: Path) -> str:
    """Return a file's SHA-256 in hexadecimal digits, or nothing if it cannot be read."""
    try:
        with path.open("rb") as file:
            return sha256_of(file)
    except OSError:
        return ""


_LOOPBACK = "127.0.0.1"


class _Quiet(SimpleHTTPRequestHandler):
    """Files of the site without a word; nothing is kept by the browser, and no hidden file is shown, nor one outside.

    Another name than this machine's may have been made to lead here by a page of somebody else.
    """

    server: ThreadingHTTPServer
    extensions_map = {  # noqa: RUF012  as the standard library has it
        **SimpleHTTPRequestHandler.extensions_map,
        ".jsonld": "application/ld+json",
        ".xml": "application/xml",
    }

    def send_head(self):  # type: ignore[no-untyped-def]
        name, site = unquote(self.path), os.path.realpath(self.directory)
        if self.headers["Host"] not in [f"{host}:{self.server.server_port}" for host in (_LOOPBACK, "localhost")]:
            self.send_error(403)
        elif "\0" in name or "/." in name or not Path(self.translate_path(self.path)).resolve().is_relative_to(site):
            self.send_error(404)
        else:
            return super().send_head()
        return None

    def end_headers(self) -> None:
        self.send_header("Cache-Control", "no-store")
        super().end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def serve_site(site: Path, port: int = 8000) -> ThreadingHTTPServer:
    """Return a server of a site for this machine alone; `serve_forever` starts it.

    Parameters
    ----------
    site : Path
        What `make_catalog` wrote.
    port : int
        0 for any that is free.

    Raises
    ------
    DpGraphError
        There is no site, or the port cannot be used.
    """
    if not (site / "index.html").is_file():
        raise DpGraphError(f"{quote_path(site)} holds no site: make one with dp-bundle catalog DIR --out {site}")
    try:
        return ThreadingHTTPServer((_LOOPBACK, port), partial(_Quiet, directory=str(site)))
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise DpGraphError(
                f"port {port} is in use: give another one with --port, or 0 for any that is free"
            ) from error
        raise DpGraphError(f"port {port} cannot be used ({error.strerror}): give another one with --port") from error


_ATOM, _MAP = "{http://www.w3.org/2005/Atom}", "{http://www.sitemaps.org/schemas/sitemap/0.9}"
_ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)  # a scheme, whatever follows it
_OF_AN_ENTRY = ("id", "title", "updated", "author", "link", "summary")  # RFC 4287, 4.1.2
_OF_A_DATASET = ("@id", "dct:title", "dct:description")  # mandatory in DCAT-AP 3


def check_site(site: Path, address: str) -> list[str]:
    """Return what is wrong with a site, a sentence for each fault.

    Links within the site lead to a file, and to a place in it; downloads have their checksums. Feed, sitemap and
    catalog say what their formats demand, and name what is there. Links to elsewhere are not followed.

    Parameters
    ----------
    site : Path
        What `make_catalog` wrote.
    address : str
        Where it will stand, which ends with a slash, or nothing.
    """
    return [*_broken_links(site, address), *_wrong_sums(site), *_wrong_lists(site, address)]


class _Links(HTMLParser):
    """The links of a page, and the places in it that links may lead to."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.places: set[str] = set()

    def handle_starttag(self, _: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.links.append(value)
            elif name == "id" and value:
                self.places.add(value)


@cache
def _read(page: Path) -> _Links:
    found = _Links()
    found.feed(page.read_text(encoding="utf-8"))
    return found


def _broken_links(site: Path, address: str) -> Iterator[str]:
    _read.cache_clear()
    for page in sorted(site.rglob("*.html")):
        for link in _read(page).links:
            path, _, place = link.partition("#")
            target = page if not path else _file_of(path, page.parent, site, address)
            if target is None:
                continue
            if not target.is_file():
                yield f"{page.relative_to(site)}: the link to {link} leads to no file"
            elif place and target.suffix == ".html" and place not in _read(target).places:
                yield f"{page.relative_to(site)}: the link to {link} leads to no place in that page"


def _file_of(link: str, folder: Path, site: Path, address: str) -> Path | None:
    """Return the file that a link of a site leads to; None for one to elsewhere."""
    if address and link.startswith(address):
        target = site / unquote(link.removeprefix(address))
    elif _ELSEWHERE.match(link):
        return None
    else:
        target = folder / unquote(link)
    return target / "index.html" if target.is_dir() else target


def _wrong_sums(site: Path) -> Iterator[str]:
    for line in (site / "SHA256SUMS").read_text(encoding="utf-8").splitlines():
        digest, _, name = line.partition("  ")
        try:
            with (site / name).open("rb") as file:
                found = sha256_of(file)
        except OSError:
            yield f"SHA256SUMS: {name} is not there"
            continue
        if found != digest:
            yield f"SHA256SUMS: {name} has another checksum"


def _wrong_lists(site: Path, address: str) -> Iterator[str]:
    feed = ElementTree.parse(site / "feed.xml").getroot()  # noqa: S314
    named = [("feed.xml", entry.findtext(f"{_ATOM}title", ""), _target(entry)) for entry in feed.iter(f"{_ATOM}entry")]
    for entry in feed.iter(f"{_ATOM}entry"):
        lacking = [name for name in _OF_AN_ENTRY if entry.find(f"{_ATOM}{name}") is None]
        if lacking:
            yield f"feed.xml: an entry has no {', '.join(lacking)}"
    if address:
        places = ElementTree.parse(site / "sitemap.xml").getroot().iter(f"{_MAP}loc")  # noqa: S314
        named += [("sitemap.xml", each.text or "", each.text or "") for each in places]

    catalog: dict[str, Any] = json.loads((site / "catalog.jsonld").read_text(encoding="utf-8"))
    for dataset in catalog["dcat:dataset"]:
        lacking = [name for name in _OF_A_DATASET if not dataset.get(name)]
        if lacking:
            yield f"catalog.jsonld: {dataset.get('@id', 'a dataset')} has no {', '.join(lacking)}"
        named.append(("catalog.jsonld", dataset.get("dct:title", ""), dataset.get("@id", "")))
    for file, title, link in named:
        target = _file_of(link, site, site, address)
        if target is None or not target.is_file():
            yield f"{file}: {title} leads to {link or 'nothing'}, which is no file of the site"


def _target(entry: ElementTree.Element) -> str:
    link = entry.find(f"{_ATOM}link")
    return "" if link is None else link.get("href", "")


SUFFIX = ".withdrawn.json"
LONGEST_REASON = 2_000  # characters of a reason
_STATUS = "http://publications.europa.eu/resource/authority/dataset-status/WITHDRAWN"


class Withdrawal(BaseModel):
    """That a release is no longer offered, and why.

    Attributes
    ----------
    when : datetime
        When it was withdrawn.
    why : str
        In a sentence of the portal's.
    title, name, number, created, signer, sha256, manifest_sha256, folder, page
        What a site had of the release, as its survey found it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    when: AwareDatetime
    why: str = Field(min_length=1, max_length=LONGEST_REASON)
    title: str
    name: str
    number: int
    created: str
    signer: str
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    manifest_sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    folder: str = Field(pattern=r"^datasets/[a-z0-9-]+$")
    page: str = Field(pattern=r"^release-[0-9]+\.html$")

    @property
    def date(self) -> date:
        """The day on which it was withdrawn, in UTC."""
        return self.when.date()

    @property
    def place(self) -> str:
        """Where its page is, from the site's folder."""
        return f"{self.folder}/{self.page}"

    def described(self, address: str, replacement: str) -> dict[str, Any]:
        """Return it in DCAT, for a site at an address, with the place of what replaces it, if anything does."""
        return {
            "@id": f"{address}{self.place}",
            "@type": "dcat:Dataset",
            "dct:title": f"{self.title}, release {self.number} (withdrawn)",
            "dct:description": f"Withdrawn on {self.date}: {self.why}",
            "dct:modified": {"@type": "xsd:date", "@value": str(self.date)},
            "adms:status": {
                "@id": _STATUS,
                "@type": "skos:Concept",
                "skos:prefLabel": {"@language": "en", "@value": "withdrawn"},
            },
            **({"dct:isReplacedBy": {"@id": f"{address}{replacement}"}} if replacement else {}),
        }


def note_path(bundle: Path) -> Path:
    """Return where the note about a bundle is, a tar or a folder."""
    named = bundle if bundle.name.strip(".") else bundle.resolve()
    return named.with_name(f"{named.name}{SUFFIX}")


def find_withdrawals(folder: Path) -> list[Withdrawal]:
    """Return the notes in a folder and in folders within it, the latest first; bundles in folders hold none.

    Raises
    ------
    BundleFormatError
        One is not as it was written.
    """
    found = []
    for path in sorted(folder.rglob(f"*{SUFFIX}")):
        if any(is_bundle(folder / each) for each in path.relative_to(folder).parents):
            continue
        try:
            found.append(Withdrawal.model_validate_json(path.read_bytes()))
        except (OSError, ValidationError) as error:
            raise BundleFormatError(
                f"{quote_path(path)} is no note of dp-bundle withdraw: write it again, or remove it"
            ) from error
    return sorted(found, key=lambda each: (each.when, each.place), reverse=True)


def told_of(notes: Sequence[Withdrawal], offered: Sequence[dict[str, Any]]) -> list[Withdrawal]:
    """Return the latest note for each page, but for those of releases that are offered, whose number others claimed."""
    taken = {f"{facts['folder']}/{facts['page']}" for facts in offered}
    told: dict[str, Withdrawal] = {}
    for each in notes:
        if each.place not in taken:
            told.setdefault(each.place, each)
    return [*told.values()]


def replacements(withdrawn: Sequence[Withdrawal], newest: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Return, by the place of a withdrawn release, that of the newest one of its dataset, if a newer one is offered."""
    by_folder = {facts["folder"]: facts for facts in newest}
    pairs = [(each, by_folder.get(each.folder)) for each in withdrawn]
    return {
        each.place: f"{facts['folder']}/{facts['page']}"
        for each, facts in pairs
        if facts is not None and facts["number"] > each.number
    }
