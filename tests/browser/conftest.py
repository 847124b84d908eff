"""One browser for all pages; its absence is an error in one sentence, never a skipped test."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright
from tests.browser.judging import AXE
from tests.browser.opening import Opened, find_chromium, open_page, start_browser
from tests.browser.results import Results

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


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Return the results by name; each is made once."""
    return Results(tmp_path_factory.mktemp("results"))


@pytest.fixture(scope="session")
def take_picture() -> Callable[[Page, str], None]:
    """Return a function that keeps a picture of a whole page under a name, for people to look at: with PICTURES=1."""
    wanted = "PICTURES" in os.environ
    PICTURES.mkdir(exist_ok=True)

    def take(page: Page, name: str) -> None:
        if wanted:
            page.screenshot(path=PICTURES / f"{name.replace('/', ' ')}.png", full_page=True)

    return take
