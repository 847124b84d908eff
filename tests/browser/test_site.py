"""Pages of the site, as they are built: what a reader's browser and a screen reader make of them."""

from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from playwright.sync_api import Browser
from tests.browser.judging import LOOKS, faults
from tests.browser.opening import open_page

pytestmark = pytest.mark.browser

SITE = Path(__file__).parents[2] / "docs" / "_build" / "html"
PAGES = [
    "index",
    "architecture",
    "explained/index",
    "researcher",
    "tutorials/researcher",
    "reference/policy",
    "reference/glossary",
    "reference/api/dp_learn.learn_graph",
]
THEME_SAYS = "console.log: [PST]:"  # the theme tells every reader's console which colours it chose; no option stops it


class Links(HTMLParser):
    """What a page links to, and the places in it that can be linked to."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.targets: set[str] = set()
        self.places = {""}
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the addresses and the names of one element."""
        given = dict(attrs)
        self.places |= {given.get("id") or "", (tag == "a" and given.get("name")) or ""}
        self.targets |= {given.get("href") or "", given.get("src") or ""}


def test_every_link_inside_the_site_resolves() -> None:
    """Links and pictures of all pages lead to files of the site, and to places that are in them."""
    pages = {page: Links(page) for page in SITE.rglob("*.html") if "_static" not in page.parts}
    broken = []
    for page, links in pages.items():
        for target in links.targets:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            file = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            places = pages[file].places if file in pages else {parts.fragment}
            if not file.is_file() or unquote(parts.fragment) not in places:
                broken.append(f"{page.relative_to(SITE)}: {target}")

    assert len(pages) > 60
    assert broken == []


@pytest.mark.parametrize("name", ["desk", "questions", "series", "synthetic"])
def test_a_tutorial_that_draws_has_its_pictures(name: str) -> None:
    """What a notebook draws without a backend that shows it would be missing without a word."""
    assert any("_images/" in target for target in Links(SITE / "tutorials" / f"{name}.html").targets)


@pytest.mark.parametrize("name", PAGES)
def test_page_is_sound_in_light_and_on_a_phone_in_the_dark(
    browser: Browser, name: str, take_picture: Callable[..., None]
) -> None:
    """A page asks for nothing outside the site, has no violation, fits the window, and shows where the focus is."""
    for place, look in enumerate(LOOKS):
        with open_page(browser, SITE / f"{name}.html", files=SITE, **look) as opened:
            take_picture(opened.page, f"site {name} {place}")
            assert faults(opened.page, keyboard=not place) == []
            assert [complaint for complaint in opened.complaints if not complaint.startswith(THEME_SAYS)] == []
