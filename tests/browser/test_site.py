"""Pages of the site, as they are built: what a reader's browser and a screen reader make of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Browser
from tests.browser.judging import axe_violations, keyboard_complaints, outside_the_window
from tests.browser.opening import DESKTOP, PHONE, open_page

pytestmark = pytest.mark.browser

SITE = Path(__file__).parents[2] / "docs" / "_build" / "html"
PAGES = ["index", "researcher", "how-to/index", "reference/index", "known-limits"]
PAGES += [
    "reference/policy",
    "reference/manifest",
    "reference/glossary",
    "reference/api/dp_learn.DebiasedGraphicalLasso",
]
THEME_SAYS = "console.log: [PST]:"  # the theme tells every reader's console which colours it chose; no option stops it


@pytest.mark.parametrize("name", PAGES)
def test_page_is_sound_in_both_schemes_and_on_a_phone(
    browser: Browser, name: str, take_picture: Callable[..., None]
) -> None:
    """A page asks for nothing outside the site, has no violation, fits the window, and shows where the focus is."""
    for kind, size, scheme in (("light", DESKTOP, "light"), ("dark", DESKTOP, "dark"), ("phone", PHONE, "light")):
        with open_page(browser, SITE / f"{name}.html", files=SITE, size=size, scheme=scheme, motion="reduce") as opened:
            take_picture(opened.page, f"site {name} {kind}")

            assert axe_violations(opened.page) == []
            assert outside_the_window(opened.page) == []
            if kind == "light":
                assert keyboard_complaints(opened.page) == []
            assert [complaint for complaint in opened.complaints if not complaint.startswith(THEME_SAYS)] == []
