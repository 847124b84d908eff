"""The page of a plan in the browser: its slider, by keyboard too, on a desktop, a phone, paper, light and dark."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from playwright.sync_api import Page
from scipy.optimize import brentq
from scipy.stats import norm
from tests.browser.judging import LOOKS, faults
from tests.browser.opening import Opened
from tests.browser.printing import print_page
from tests.browser.results import Results

from dp_publish.forecast.page.report import make_page
from dp_publish.forecast.page.texts import Asked
from dp_publish.forecast.plan import make_plan
from dp_publish.policy.file import load_policy

pytestmark = pytest.mark.browser

_SAID = (
    "() => Object.fromEntries([...document.querySelectorAll('[data-say]')].map(e => [e.dataset.say, e.textContent]))"
)


@pytest.fixture(scope="module", params=["rows", "covariance"])
def plan_page(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the page of a plan for 2,000 rows of 30 columns, some of whose names are hard to show."""
    folder = tmp_path_factory.mktemp("plan")
    names = ["<script>alert('name')</script>", "$$x$$", "n" * 200, *(f"c{place}" for place in range(27))]
    pd.DataFrame(np.zeros((2000, 30)), columns=names).to_parquet(folder / "t.parquet")
    policy = f'[privacy]\nmu = 2.2\nrelease = "{request.param}"\n[columns."*"]\nbounds = [0, 1]\n'
    (folder / "t.policy.toml").write_text(policy)
    plan = make_plan(folder / "t.parquet", load_policy(folder / "t.policy.toml", "t", {}))
    asked = Asked("t.parquet", notes=["a note on <b>names</b>"], looked=True)
    path = folder / "plan.html"
    path.write_text(make_page(plan, asked), encoding="utf-8")
    return path


def shown(page: Page, key: str) -> str:
    """Return a text of the page that depends on the strength."""
    text: str = page.locator(f'[data-say="{key}"]').first.inner_text()
    return text


@pytest.mark.parametrize("options", LOOKS, ids=["desk", "phone"])
def test_a_plan_is_a_sound_page(plan_page: Path, options: dict[str, Any], open_silent: Callable[..., Opened]) -> None:
    """An axe-core run finds nothing, nothing hangs over the edge, and all controls are in the reach of Tab."""
    page = open_silent(plan_page, **options).page
    page.wait_for_timeout(300)
    assert faults(page) == []


def test_the_slider_changes_words_and_marks(plan_page: Path, open_silent: Callable[..., Opened]) -> None:
    """Arrow keys move the strength; words, the line to type, the table's row and the figures follow."""
    page = open_silent(plan_page).page
    slider = page.get_by_role("slider", name="Strength of protection")
    assert (shown(page, "mu"), shown(page, "own")) == ("2.2", "the policy’s own strength")
    before = {key: shown(page, key) for key in ("guess-two", "error-rows", "line", "epsilon-1e-06", "miss-0.05")}
    pictures = [page.locator(f"#{name}").screenshot() for name in ("error", "trade-off")]

    slider.focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_timeout(200)
    assert (shown(page, "mu"), shown(page, "own")) == ("2.5", "")
    assert slider.get_attribute("aria-valuetext") == "mu = 2.5"
    assert all(shown(page, key) != text for key, text in before.items())
    assert "--mu 2.5" in shown(page, "line")
    assert page.locator("#strengths tr[aria-current] th").inner_text() == "2.5"
    assert all(
        page.locator(f"#{name}").screenshot() != old for name, old in zip(("error", "trade-off"), pictures, strict=True)
    )


def test_a_plan_is_printed_with_its_figures(
    plan_page: Path, tmp_path: Path, open_silent: Callable[..., Opened]
) -> None:
    """On paper the chosen strength is named, without the slider, and the three figures are there."""
    page = open_silent(plan_page).page
    page.wait_for_timeout(300)
    printed = print_page(page, tmp_path / "plan.pdf")
    assert "mu = 2.2" in printed.text
    assert "do not pass this page on" in printed.text
    assert printed.n_pictures >= 3


def epsilon_of(mu: float, delta: float) -> float:
    """Return the epsilon of Gaussian differential privacy at a delta (Dong, Roth and Su 2022, corollary 1)."""

    def excess(epsilon: float) -> float:
        return norm.cdf(mu / 2 - epsilon / mu) - np.exp(epsilon + norm.logcdf(-mu / 2 - epsilon / mu)) - delta

    return float(brentq(excess, 0.0, mu**2 / 2 + 8 * mu))


def test_every_strength_of_the_plan_is_on_the_slider_with_its_numbers(
    plan_page: Path, results: Results, open_silent: Callable[..., Opened]
) -> None:
    """At each strength that plan --json lists, the page tells its errors, and the epsilon and errors of an attacker."""
    forecast = json.loads(results.run("dp-publish", "plan", str(plan_page.with_name("t.parquet")), "--json"))
    page = open_silent(plan_page).page
    page.get_by_role("slider", name="Strength of protection").focus()
    page.keyboard.press("Home")
    told = {}
    while (said := page.evaluate(_SAID))["mu"] not in told:
        told[said["mu"]] = said
        page.keyboard.press("ArrowRight")

    assert len(forecast["forecast"]) >= 5
    for row in forecast["forecast"]:
        said = told[f"{row['mu']:.4g}"]
        for key, value in (("error-rows", row["error_in_rows"]), ("error-moments", row["error_in_moments"])):
            assert float(said[key].replace(",", "")) == pytest.approx(value, rel=0.06)
        if (epsilon := said["epsilon-1e-06"].replace(",", "")) and re.fullmatch(r"[\d.]+", epsilon):
            assert float(epsilon) == pytest.approx(epsilon_of(row["mu"], 1e-6), rel=2e-3)
        missed = 100.0 * norm.cdf(norm.isf(0.05) - row["mu"])
        assert float(said["miss-0.05"].removesuffix(" %").split()[-1]) == pytest.approx(missed, rel=0.006, abs=0.05)
