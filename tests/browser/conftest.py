"""One browser for all pages; its absence is an error in one sentence, never a skipped test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright
from tests.browser.judging import AXE
from tests.browser.opening import Opened, find_chromium, open_page, start_browser

PICTURES = Path(__file__).parent / "pictures"


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Start Chromium once."""
    chromium = find_chromium()
    if chromium is None:
        pytest.exit(
            "the tests of pages need Chromium, and no chromium is on the PATH: install it (apt-get install chromium)", 1
        )
    if not AXE.exists():
        pytest.exit("the tests of pages need axe-core, which `make test-browser` installs by npm", 1)
    with sync_playwright() as playwright:
        browser = start_browser(playwright, chromium)
        yield browser
        browser.close()


@pytest.fixture
def open_silent(browser: Browser) -> Iterator[Callable[..., Opened]]:
    """Return a function that opens a page, which must ask for nothing and say nothing until the test is over."""
    with ExitStack() as stack:
        pages: list[Opened] = []

        def start(path: Path, **options: object) -> Opened:
            pages.append(stack.enter_context(open_page(browser, path, **options)))  # type: ignore[arg-type]
            return pages[-1]

        yield start
        complaints = [complaint for opened in pages for complaint in opened.complaints]
    assert not complaints
