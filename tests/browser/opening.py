"""Pages opened in a headless Chromium that has no network: what they asked for, and what they said, is kept."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, Page, Playwright, Route

DESKTOP = (1280, 900)
PHONE = (390, 844)
_FLAGS = [
    "--no-sandbox",  # CI is root in a container, and opens its own pages only
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
_NAMES = ("chromium", "chromium-browser", "google-chrome")


@dataclass
class Opened:
    """A page in the browser, and what it did that no page of ours should do."""

    page: Page
    path: Path
    requests: list[str] = field(default_factory=list)  # for anything but its own files
    messages: list[str] = field(default_factory=list)  # on the console, of any kind, and errors that nothing caught

    @property
    def complaints(self) -> list[str]:
        """What was asked for and said, as sentences."""
        return [f"asked for {url}" for url in self.requests] + self.messages


def find_chromium() -> str | None:
    """Return the path of this machine's Chromium; nothing is ever downloaded."""
    return next((path for name in _NAMES if (path := shutil.which(name))), None)


def start_browser(playwright: Playwright, chromium: str) -> Browser:
    """Start one browser for all pages."""
    return playwright.chromium.launch(executable_path=chromium, args=_FLAGS)


@contextmanager
def open_page(
    browser: Browser,
    path: Path,
    *,
    files: Path | None = None,
    size: tuple[int, int] = DESKTOP,
    scheme: Literal["light", "dark"] = "light",
    scripts: bool = True,
) -> Iterator[Opened]:
    """Open a page from the disk in a context of its own, and close it.

    Parameters
    ----------
    browser : Browser
        What `start_browser` returned.
    path : Path
        The page's file.
    files : Path, optional
        A folder that the page may read more files from. A page that has none may read itself alone.
    size : tuple of int, default (1280, 900)
        Width and height of the window in CSS pixels.
    scheme : str
        The reader's preference: a light or dark page.
    scripts : bool, default True
        Let the page's scripts run.
    """
    path = path.resolve()
    allowed = f"{files.resolve().as_uri()}/" if files else path.as_uri()
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]},
        color_scheme=scheme,
        reduced_motion="reduce",
        java_script_enabled=scripts,
        service_workers="block",
    )
    opened = Opened(context.new_page(), path)

    def answer(route: Route) -> None:
        url = route.request.url.partition("#")[0]
        own = url.startswith(allowed) if files else url == allowed
        if own:
            route.continue_()
        else:
            opened.requests.append(route.request.url)
            route.abort()

    page = opened.page
    page.route("**/*", answer)
    page.on("websocket", lambda socket: opened.requests.append(socket.url))
    page.on("popup", lambda other: opened.requests.append(other.url))
    page.on("console", lambda message: opened.messages.append(f"console.{message.type}: {message.text}"))
    page.on("pageerror", lambda error: opened.messages.append(f"script error: {error}"))
    page.on("crash", lambda _: opened.messages.append("the page crashed"))
    page.on("dialog", lambda dialog: (opened.messages.append(f"dialog: {dialog.message}"), dialog.dismiss()))

    try:
        page.goto(path.as_uri(), wait_until="load")
        yield opened
    finally:
        context.close()
