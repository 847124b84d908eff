"""The check of a finished site, by its files alone: links, checksums, and what other machines read."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree

from dp_bundle.bundle.writing import sha256_of

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
