"""The desk in a browser: from a table to a signed bundle, by keyboard, at two widths, in both schemes."""

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from playwright.sync_api import Browser, Page
from tests.browser.judging import faults
from tests.browser.opening import DESKTOP, PHONE

from dp_bundle import open_bundle
from dp_bundle.trust.judging import UnsafeTrustAnyone

pytestmark = [pytest.mark.browser]
MARKUP = "<b onclick=alert(1)>x</b>"
SIZES = [DESKTOP, PHONE]


@pytest.fixture
def desks() -> list[subprocess.Popen[str]]:
    """Return the processes that `open_desk` starts, in order; what is written to one is typed at its terminal."""
    return []


@pytest.fixture
def open_desk(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, desks: list[subprocess.Popen[str]]
) -> Iterator[Callable[..., Page]]:
    """Return a function that starts the desk of a table and comes in by its address; it may fail in nothing."""
    monkeypatch.chdir(tmp_path)
    complaints: list[str] = []
    with ExitStack() as stack:

        def start(data: str, size: tuple[int, int] = DESKTOP, scheme: Any = "light") -> Page:
            words = [sys.executable, "-m", "dp_publish", "desk", data, "--no-browser"]
            process = subprocess.Popen(words, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            desks.append(stack.enter_context(process))
            stack.callback(process.terminate)
            address, host = address_of(process)
            context = browser.new_context(viewport={"width": size[0], "height": size[1]}, color_scheme=scheme)
            stack.callback(context.close)
            page = context.new_page()
            page.on("console", lambda message: complaints.append(message.text))
            page.on("pageerror", lambda error: complaints.append(str(error)))
            page.on("request", lambda asked: complaints.append(asked.url) if host not in asked.url else None)
            page.on("dialog", lambda dialog: complaints.append(dialog.message))
            page.goto(address)
            page.wait_for_selector("#form")
            assert page.url == f"http://{host}/"  # the token is in no address
            page.evaluate("document.getElementById('as-text').open = true")
            return page

        yield start
    assert not [said for said in complaints if not said.startswith("data:")]


def address_of(process: subprocess.Popen[str]) -> tuple[str, str]:
    """Return the address that a desk tells, and its host and port."""
    assert process.stderr is not None
    found = re.search(r"open (http://(127\.0\.0\.1:\d+)/#\S+) ", process.stderr.readline())
    assert found is not None
    return found[1], found[2]


def settle(page: Page) -> None:
    """Wait until the desk has answered to what was typed last."""
    page.wait_for_selector('#promise:not([aria-busy="true"])')


def go_to(page: Page, selector: str, most: int = 400) -> None:
    """Press Tab until an element has the focus."""
    for _ in range(most):
        if page.evaluate("asked => document.activeElement?.matches(asked)", selector):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"Tab does not come to {selector}")


def survey(n: int = 2000) -> pd.DataFrame:
    """Return a table of 14 columns with words, dates, gaps, an id, and a name that is markup."""
    rng = np.random.default_rng(1)
    score = rng.normal(50, 10, n).round(1)
    frame = pd.DataFrame({"id": np.arange(n), "age": rng.integers(18, 90, n), MARKUP: score})
    frame["region"] = rng.choice(["north", "south", "west"], n)
    frame["smoker"] = rng.choice(["yes", "no"], n)
    frame["visit"] = (pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), "D")).strftime("%d.%m.%Y")
    for number in range(8):
        frame[f"q{number}"] = (3 + (score - 50) / 15 + rng.normal(0, 1, n)).round().clip(1, 5)
    frame.loc[rng.random(n) < 0.05, "q3"] = np.nan
    return frame


@pytest.mark.parametrize("size", SIZES)
def test_from_a_survey_to_a_signed_bundle_by_keyboard(
    open_desk: Callable[..., Page], take_picture: Callable[[Page, str], None], size: tuple[int, int]
) -> None:
    """Nothing is declared but a title: two keys publish, and the receipt and the label page are there."""
    survey().to_csv("survey.csv", index=False)
    page = open_desk("survey.csv", size)
    assert not faults(page)
    take_picture(page, f"desk/{size[0]}/opened")

    page.evaluate("document.activeElement?.blur(); window.scrollTo(0, 0)")
    go_to(page, "#dataset-title")
    page.keyboard.type("A survey")
    settle(page)
    go_to(page, "#slider")
    before = page.inner_text("#promise .big")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    settle(page)
    assert page.inner_text("#promise .big") != before
    go_to(page, '[popovertarget="about-mu"]')
    page.keyboard.press("Enter")
    assert "At mu = 1" in page.inner_text(".about:popover-open")
    assert not faults(page, keyboard=False)
    page.keyboard.press("Escape")
    assert not page.query_selector(":popover-open")
    go_to(page, '[data-do="ask"]')
    page.keyboard.press("Enter")
    page.wait_for_selector('dialog [data-do="back"]:focus')  # no is the default
    asked = page.inner_text("dialog")
    assert all(f"{what}:" in asked for what in ("You promise", "Protected is", "Researchers will see"))
    assert not faults(page, keyboard=False)
    take_picture(page, f"desk/{size[0]}/asking")
    go_to(page, 'dialog [data-do="publish"]')
    page.keyboard.press("Enter")
    page.wait_for_selector("text=done in", timeout=60_000)
    assert "wrote survey.bundle.tar" in page.inner_text("#working")
    assert 0 <= page.evaluate("document.getElementById('work-title').getBoundingClientRect().top") < size[1] / 2
    assert not faults(page, keyboard=False)
    take_picture(page, f"desk/{size[0]}/published")
    with page.context.expect_page() as opened:
        go_to(page, "#working a")
        page.keyboard.press("Enter")
    opened.value.wait_for_selector("text=What this release promises")
    with open_bundle("survey.bundle.tar", trust=UnsafeTrustAnyone()) as bundle:
        assert bundle.release.dataset.title == "A survey"
        assert MARKUP in {column.source_name for column in bundle.release.columns}


def test_closed_it_says_so_and_the_address_is_spent(open_desk: Callable[..., Page]) -> None:
    """After closing, nothing of the table is on the page or in the browser's storage."""
    survey(500).to_csv("survey.csv", index=False)
    page = open_desk("survey.csv")
    stored = page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])")
    assert "region" not in stored
    page.reload()
    page.wait_for_selector("#form")
    page.click('[data-do="close"]')
    page.wait_for_selector("text=The desk is closed")
    assert "region" not in page.content()
    assert page.evaluate("sessionStorage.length") == 0
    assert [each.name for each in Path.cwd().iterdir()] == ["survey.csv"]


def test_a_page_that_was_lost_is_found_again_by_enter(
    open_desk: Callable[..., Page], desks: list[subprocess.Popen[str]]
) -> None:
    """A closed tab does not take along what was not saved; another address has it, and nothing is in the browser."""
    survey(500).to_csv("survey.csv", index=False)
    page = open_desk("survey.csv")
    page.fill("#dataset-title", "Not saved yet")
    settle(page)
    another = page.context.new_page()
    another.goto(page.url)
    another.wait_for_selector("text=press Enter where dp-publish desk runs")
    page.close()
    typed = desks[0].stdin
    assert typed is not None
    typed.write("\n")
    typed.flush()
    another.goto(address_of(desks[0])[0])
    another.reload()
    another.wait_for_selector("#form")
    assert another.input_value("#dataset-title") == "Not saved yet"
    assert "Not saved yet" not in another.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}])")
    assert not Path("survey.policy.toml").exists()
