"""Pages of several releases in the browser: sound in both schemes and on a phone, their slider moved by keyboard."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.browser.judging import LOOKS, faults
from tests.browser.opening import Opened
from tests.browser.results import HOSTILE_NAMES, Results
from tests.browser.test_report import wait_for_figures

pytestmark = pytest.mark.browser
N_PERIODS = 6


@pytest.fixture(scope="module")
def learn(results: Results) -> Callable[[str], Path]:
    """Publish six months of columns with hostile names, of which one link changes its sign in the fourth.

    Return a function that learns from some, and returns the page; each is made once.
    """
    p = len(HOSTILE_NAMES)
    for place in range(N_PERIODS):
        precision = np.eye(p) - 0.4 * (np.eye(p, k=1) + np.eye(p, k=-1))
        precision[0, 1] = precision[1, 0] = -0.4 + 0.8 * (place >= 3)
        rows = np.random.default_rng(place).multivariate_normal(np.zeros(p), np.linalg.inv(precision), size=1500)
        table, bounds = pd.DataFrame(rows, columns=HOSTILE_NAMES), {each: [-8.0, 8.0] for each in HOSTILE_NAMES}
        results.publish(f"month-{place + 1}", table, bounds, seed=place, mu=20.0, unit="cell")

    def start(kind: str) -> Path:
        months = range(1, N_PERIODS + 1, 1 if kind == "joint" else N_PERIODS - 1)
        page = results.root / kind / "report.html"
        if not page.exists():
            files = [f"month-{month}.bundle.tar" for month in months]
            results.run("dp-learn", kind, *files, "--out", kind)
        return page

    return start


@pytest.mark.parametrize("kind", ["compare", "joint"])
def test_page_is_sound(
    kind: str, learn: Callable[..., Path], open_silent: Callable[..., Opened], take_picture: Callable[..., None]
) -> None:
    """The page is silent, has no violation in axe-core, fits 390 pixels, and draws its figures."""
    path = learn(kind)
    for place, look in enumerate(LOOKS):
        page = open_silent(path, **look).page
        wait_for_figures(page)
        take_picture(page, f"{kind} {place}")
        assert faults(page, keyboard=not place) == []
        assert page.locator("figure canvas").count() >= 2


def test_tables_can_be_read_without_scripts(learn: Callable[..., Path], open_silent: Callable[..., Opened]) -> None:
    """Every pair is in the table, and what the figures show is told in words."""
    page = open_silent(learn("compare"), scripts=False).page
    n_columns = len(HOSTILE_NAMES)

    assert page.locator("#differences-table tbody tr:visible").count() == n_columns * (n_columns - 1) // 2
    assert page.locator("#strengths-table tbody tr:visible").count() == n_columns
    assert page.locator("#graph-0-says").is_visible()


def test_slider_goes_through_time_by_keyboard(learn: Callable[..., Path], open_silent: Callable[..., Opened]) -> None:
    """An arrow key shows the next period; what changed is in colour from the change point on; places stay."""
    page = open_silent(learn("joint")).page
    page.evaluate("async () => { await dpgraph.ready; }")
    drawn = "async () => (await dpgraph.ready).graph.document.get_model_by_name('joint-links').data"
    slider = page.locator("#joint-period")
    slider.focus()

    seen = [page.evaluate(drawn)]
    for place in range(2, N_PERIODS + 1):
        page.keyboard.press("ArrowRight")
        assert page.locator("#joint-period-shown").inner_text() == f"month-{place}"
        assert slider.get_attribute("aria-valuetext") == f"month-{place}"
        seen.append(page.evaluate(drawn))
    first = dict(zip(seen[0]["ends"], zip(seen[0]["x0"], seen[0]["y0"], strict=True), strict=True))
    for place, data in enumerate(seen):
        changed = [ends for ends, kind in zip(data["ends"], data["kind"], strict=True) if kind != "same"]
        assert len(changed) == (1 if place >= 3 else 0)
        at = dict(zip(data["ends"], zip(data["x0"], data["y0"], strict=True), strict=True))
        assert all(at[ends] == first[ends] for ends in {*at} & {*first})


def test_links_can_be_read_without_scripts(learn: Callable[..., Path], open_silent: Callable[..., Opened]) -> None:
    """Every link has its small chart and what became of it in words, the changed one first."""
    page = open_silent(learn("joint"), scripts=False).page
    charts = page.locator(".charts li")
    assert charts.count() >= len(HOSTILE_NAMES) - 1
    assert charts.first.get_attribute("class") == "changed"
    assert "in month-4" in charts.first.inner_text()
    assert page.locator("#changes-table tbody tr:visible").count() == 1
    assert page.locator("#periods-table tbody tr:visible").count() == N_PERIODS
