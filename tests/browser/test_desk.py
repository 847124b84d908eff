"""The desk in a browser: from a table to a signed bundle, by keyboard, at two widths, in both schemes."""

import re
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from playwright.sync_api import Browser, Page
from tests.browser.judging import axe_violations, keyboard_complaints, outside_the_window
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


def complaints_about(page: Page) -> list[str]:
    """Return what is wrong with the page as it is."""
    return [*axe_violations(page), *outside_the_window(page)]


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
    assert not complaints_about(page)
    assert not keyboard_complaints(page)
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
    go_to(page, '[data-do="ask"]')
    page.keyboard.press("Enter")
    asked = page.inner_text("dialog")
    assert all(f"{what}:" in asked for what in ("You promise", "Protected is", "Researchers will see"))
    assert not complaints_about(page)
    take_picture(page, f"desk/{size[0]}/asking")
    go_to(page, 'dialog [data-do="publish"]')
    page.keyboard.press("Enter")
    page.wait_for_selector("text=done in", timeout=60_000)
    assert "wrote survey.bundle.tar" in page.inner_text("#working")
    assert 0 <= page.evaluate("document.getElementById('work-title').getBoundingClientRect().top") < size[1] / 2
    assert not complaints_about(page)
    take_picture(page, f"desk/{size[0]}/published")
    with page.context.expect_page() as opened:
        go_to(page, "#working a")
        page.keyboard.press("Enter")
    opened.value.wait_for_selector("text=What this release promises")
    with open_bundle("survey.bundle.tar", trust=UnsafeTrustAnyone()) as bundle:
        assert bundle.release.dataset.title == "A survey"
        assert MARKUP in {column.source_name for column in bundle.release.columns}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_an_existing_policy_and_back(
    open_desk: Callable[..., Page], take_picture: Callable[[Page, str], None], scheme: str
) -> None:
    """What a policy says is in the form, one change changes one line, and an objection is beside its field."""
    survey().to_csv("survey.csv", index=False)
    written = (
        '# ours\n[dataset]\nname = "survey" # kept\n[privacy]\nmu = 2.0\nrelease = "covariance"\n'
        '[columns.age]\nbounds = [18, 100]\nkind = "integer"\n[columns.region]\nkind = "category"\n'
        'categories = ["north", "south", "west"]\n[columns."q*"]\nmissing = "midpoint"\n'
    )
    Path("survey.policy.toml").write_text(written)
    page = open_desk("survey.csv", scheme=scheme)
    assert page.input_value("#privacy-mu") == "2.0"
    page.click("summary:has-text('region')")
    assert page.input_value("#column-3-levels") == "north\nsouth\nwest"
    assert "'visit'" in page.text_content("#column-5-kind-says")
    assert page.is_disabled('[data-do="ask"]')
    page.click("#standing a >> nth=0")
    assert page.evaluate("document.activeElement.id") == "column-5-kind"
    assert "like identifiers" in page.inner_text("#standing")
    page.fill("#dataset-contact", "data@example.org")
    page.click('[data-do="save"]')
    page.wait_for_selector("text=wrote survey.policy.toml")
    assert Path("survey.policy.toml").read_text() == written.replace("# kept", '# kept\ncontact = "data@example.org"')
    assert not complaints_about(page)
    take_picture(page, f"desk/{scheme}/policy")


def test_two_hundred_columns_answer_at_once(
    open_desk: Callable[..., Page], take_picture: Callable[[Page, str], None]
) -> None:
    """A form of 200 columns is opened, filtered and answered without a pause that is felt."""
    rng = np.random.default_rng(2)
    pd.DataFrame(rng.normal(size=(3000, 200)), columns=[f"c{i:03}" for i in range(200)]).to_parquet("wide.parquet")
    page = open_desk("wide.parquet")
    page.fill("#find", "c19")
    assert page.inner_text("#found") == "10 columns"
    page.fill("#find", "")
    began = time.monotonic()
    page.fill("#privacy-mu", "3")
    page.wait_for_selector("#policy >> text=mu = 3")
    assert time.monotonic() - began < 3  # of a busy machine; .3 on an idle one
    assert not complaints_about(page)
    take_picture(page, "desk/wide")


def test_a_budget_and_too_few_rows_are_told(
    open_desk: Callable[..., Page], take_picture: Callable[[Page, str], None]
) -> None:
    """A budget that forbids it is said beside the budget; a table of twelve rows publishes only if she insists."""
    frame = survey(12)[["age", "q1", "q2"]]
    frame.to_parquet("few.parquet")
    Path("few.policy.toml").write_text("[privacy]\nmu = 1.0\nbudget_mu = 0.5\n")
    page = open_desk("few.parquet", PHONE)
    assert "more than the budget" in page.inner_text("#privacy-budget_mu-says")
    page.click("#standing a >> nth=0")
    page.fill("#privacy-budget_mu", "5")
    page.wait_for_selector("#policy >> text=budget_mu = 5")
    assert "would refuse this, unless you insist below" in page.inner_text("#standing")
    assert page.is_disabled('[data-do="ask"]')
    assert not complaints_about(page)
    take_picture(page, "desk/few")
    page.check("#anyway")
    page.wait_for_selector('[data-do="ask"]:enabled')
    assert tomllib.loads(page.inner_text("#policy"))["privacy"]["budget_mu"] == 5


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


@pytest.mark.parametrize("size", SIZES)
def test_a_table_from_a_spreadsheet_of_elsewhere(
    open_desk: Callable[..., Page], take_picture: Callable[[Page, str], None], size: tuple[int, int]
) -> None:
    """Semicolons, decimal commas and Latin-1: what the first line does not tell is asked for, and then read anew."""
    frame = survey(600)[["age", "q1", "q2", "q3"]].assign(town=["Lörrach", "Basel", "Basel"] * 200)
    frame["q1"] += 0.5
    frame.to_csv("visits.csv", index=False, sep=";", decimal=",", encoding="latin-1")
    page = open_desk("visits.csv", size)
    assert page.is_disabled('[data-do="ask"]')
    assert page.is_hidden("#anyway")  # there is nothing to insist on
    page.click("#standing a >> nth=0")
    assert page.evaluate("document.activeElement.id") == "table-encoding"
    assert not complaints_about(page)
    take_picture(page, f"desk/{size[0]}/written")
    page.keyboard.type("West")
    page.wait_for_selector("text=words, 2 different: Basel, Lörrach")
    assert page.evaluate("document.activeElement.id") == "table-encoding"
    assert page.is_enabled('[data-do="ask"]')
    assert tomllib.loads(page.inner_text("#policy"))["table"] == {"encoding": "cp1252"}
    assert not complaints_about(page)


def test_a_table_without_names(open_desk: Callable[..., Page], take_picture: Callable[[Page, str], None]) -> None:
    """The page comes without a column; said that the first line is a row, it comes again with all of them."""
    survey(600).drop(columns=MARKUP).to_csv("bare.csv", index=False, header=False)
    page = open_desk("bare.csv")
    page.fill("#dataset-title", "Without names")
    assert "It cannot be read yet" in page.inner_text("#main")
    assert not complaints_about(page)
    take_picture(page, "desk/nameless")
    page.select_option("#table-header", "none")
    page.wait_for_selector("summary:has-text('column_13')")
    assert "600 rows, 13 columns" in page.inner_text("#main")
    assert page.input_value("#dataset-title") == "Without names"
    page.wait_for_selector('[data-do="ask"]:enabled')
    page.click("summary:has-text('column_1') >> nth=0")
    page.check("#column-0-drop")
    page.wait_for_selector("#policy >> text=[columns.column_1]")


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
