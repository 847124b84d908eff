"""Pages as the tutorials show them, in this machine's Chromium: a real desk, and results that are pages."""

from __future__ import annotations

import asyncio
import re
import shutil
import sys
from pathlib import Path

from IPython.display import Image
from playwright.async_api import Page, Playwright, async_playwright

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_WIDTH, _HEIGHT, _HIGH = 1180, 940, 1500  # pixels of the window


async def picture_of_page(path: str, selector: str, focus: str, key: str, times: int) -> Image:
    """Return a picture of a part of a page in a file, after a key was pressed some times in one of its fields."""
    async with async_playwright() as playwright:
        page = await _new_page(playwright)
        await page.goto(Path(path).resolve().as_uri())
        await page.evaluate("async () => { await dpgraph.ready; }")
        for _ in range(times):
            await page.press(focus, key)
        await page.wait_for_timeout(800)
        return Image(await page.locator(selector).screenshot(), width=760)


async def _new_page(playwright: Playwright) -> Page:
    chromium = next((path for name in _NAMES if (path := shutil.which(name))), None)
    if chromium is None:
        raise RuntimeError("the pictures of pages need Chromium: install it (apt-get install chromium)")
    browser = await playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
    return await browser.new_page(viewport={"width": _WIDTH, "height": _HEIGHT}, color_scheme="light")


class Desk:
    """A desk that was started as a reader starts it, and the browser that came in by its address."""

    def __init__(self, playwright: Playwright, process: asyncio.subprocess.Process, page: Page) -> None:
        self._playwright, self._process, self.page = playwright, process, page

    @classmethod
    async def of(cls, data: str) -> Desk:
        """Start the desk of a table, and open it."""
        words = [sys.executable, "-m", "dp_publish", "desk", data, "--no-browser"]
        process = await asyncio.create_subprocess_exec(*words, stderr=asyncio.subprocess.PIPE)
        if process.stderr is None:
            raise TypeError("the process was started with a pipe")
        said = (await process.stderr.readline()).decode()
        playwright = await async_playwright().start()
        page = await _new_page(playwright)
        await page.goto(re.findall(r"http://\S+", said)[0])
        await page.wait_for_selector("#form")
        return cls(playwright, process, page)

    async def settle(self) -> None:
        """Wait until it has answered."""
        await self.page.wait_for_timeout(400)
        await self.page.wait_for_load_state("networkidle")

    async def picture(self, selector: str = "") -> Image:
        """Return a picture of a part of the page as a high window shows it, or of the window."""
        await self.page.set_viewport_size({"width": _WIDTH, "height": _HIGH if selector else _HEIGHT})
        await self.settle()
        part = self.page.locator(selector) if selector else self.page
        return Image(await part.screenshot(), width=760 if not selector else None)

    async def close(self) -> None:
        """Close the desk and the browser."""
        await self.page.click('[data-do="close"]')
        await self._process.wait()
        await self._playwright.stop()
