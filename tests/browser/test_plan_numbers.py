"""The numbers of a plan's page at a position of its slider, held against the command's own and against scipy."""

import json
import re
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import brentq
from scipy.stats import norm
from tests.browser.opening import Opened
from tests.browser.results import Results

pytestmark = pytest.mark.browser

_SAID = (
    "() => Object.fromEntries([...document.querySelectorAll('[data-say]')].map(e => [e.dataset.say, e.textContent]))"
)


def epsilon_of(mu: float, delta: float) -> float:
    """Return the epsilon of Gaussian differential privacy at a delta (Dong, Roth and Su 2022, corollary 1)."""

    def excess(epsilon: float) -> float:
        return norm.cdf(mu / 2 - epsilon / mu) - np.exp(epsilon + norm.logcdf(-mu / 2 - epsilon / mu)) - delta

    return float(brentq(excess, 0.0, mu**2 / 2 + 8 * mu))


@pytest.mark.parametrize("release", ["rows", "covariance"])
def test_every_strength_of_the_plan_is_on_the_slider_with_its_numbers(
    release: str, results: Results, open_silent: Callable[..., Opened]
) -> None:
    """At each strength that plan --json lists, the page tells its errors, and the epsilon and errors of an attacker."""
    name = f"plan-{release}"
    table = pd.DataFrame(np.zeros((2000, 30)), columns=[f"c{place}" for place in range(30)])
    table.to_parquet(results.root / f"{name}.parquet")
    (results.root / f"{name}.policy.toml").write_text(
        f'[privacy]\nmu = 2.0\nrelease = "{release}"\n[columns."*"]\nbounds = [0, 1]\n', encoding="utf-8"
    )
    forecast = json.loads(results.run("dp-publish", "plan", f"{name}.parquet", "--report", f"{name}.html", "--json"))
    page = open_silent(results.root / f"{name}.html").page
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
