"""The claims on the pages of a site about bundles: the privacy label, the history, and the list of datasets."""

import re
from collections.abc import Iterator
from pathlib import Path

from tests.statistical.stated_figures import Claim, N, number, read_text, shown

from dp_bundle.catalog.making import SiteSettings, make_catalog

_LEAD = re.compile(
    rf"At most {N} % of guesses are right; without the release, 50 %\."
    rf"(?: With all \d+ releases of this dataset so far, (?:no total is stated for [^.]*|at most {N} %)\.)?"
)
_PICTURE = re.compile(r"right because of the release: at most (\d+)|wrong: at least (\d+)|right by chance alone: (50)")
_DRAWN = re.compile(rf"Of 100 guesses between two candidates, at most {N} are right with this release")
_ABOUT = re.compile(r'Release (\d+) of <bdi class="code">([^<]+)</bdi>')
_CARD = re.compile(
    rf'(?s)data-protects="([^"]+)"[^>]* data-right="([^"]+)">(?:(?!data-right).)*?href="([^"]+)"(?:(?!data-right).)*?'
    rf"at most {N} % of guesses right(, with all)?"
)
_PAST = re.compile(rf"(?s)<th scope=\"row\">(?:<a[^>]*>)?(\d+).*?<td>(?:no guarantee|{N} %)</td>")


def claims_of_site(folder: Path, site: Path) -> Iterator[tuple[str, int, Claim]]:
    """Make a site of a folder of bundles, and yield dataset, number of the release, and claim."""
    summary = make_catalog(folder, site, SiteSettings(title="Data"))
    assert not summary.refused
    shown_at: dict[str, tuple[str, int]] = {}
    for page in sorted(site.rglob("*.html")):
        text = page.read_text()
        about = _ABOUT.search(text)
        if about is not None:
            dataset, _, _ = about[2].partition(" / ")  # and a part of its rows
            shown_at[page.relative_to(site).as_posix()] = dataset, int(about[1])
            yield from ((dataset, release, claim) for release, claim in _of_page(text, int(about[1])))
    for protects, share, page_name, right, several in _CARD.findall((site / "index.html").read_text()):
        scope = "all" if several else "own" if protects.endswith("there or not") else "own replaced"
        for value in (number(share), number(right) / 100):
            yield *shown_at[page_name], Claim("right", value, scope, "page, list")


def _of_page(page: str, release: int) -> Iterator[tuple[int, Claim]]:
    yield from ((release, claim) for claim in claims_of_label(page))
    for past, right in _PAST.findall(page[page.index('id="history-caption"') :].partition("</table>")[0]):
        if right:
            yield int(past), Claim("right", number(right) / 100, "own", "page, history")


def claims_of_label(page: str) -> Iterator[Claim]:
    """Yield the claims of the privacy label on a page."""
    yield from (Claim("right", number(right) / 100, "own", "page, dots") for right in _DRAWN.findall(page))
    answers, label = (page[page.index(f'class="{name}">') :].partition("</dl>")[0] for name in ("answers", "label"))
    label = shown(re.sub(r'(?s)<span class="code">.*?</span>|<h3>.*?</h3>', " ", label))
    for right, in_all in _LEAD.findall(label + shown(answers)):
        yield Claim("right", number(right) / 100, "own", "page, lead")
        if in_all:
            yield Claim("right", number(in_all) / 100, "all", "page, lead")
    for more, wrong, _ in _PICTURE.findall(label):
        share = 50 + number(more) if more else 100 - number(wrong) if wrong else None
        if share is not None:
            yield Claim("right", share / 100, "own", "page, legend")
    rest = _PICTURE.sub(" ", _LEAD.sub(" ", label)).replace("of 100 guesses", " ")
    yield from read_text(rest, "page, label")
