"""What a plan says of a series of releases, by closed forms, and by a ledger that books such releases."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, stats
from tests.unit.publisher.conftest import Call

from dp_bundle.describe.sentences import chance_in_all
from dp_publish.ledger.ledger import Ledger

BOUNDS = '[columns."*"]\nbounds = [0, 9]\n'
ENTITY = 'unit = { entity = "who", max_rows = 2 }'
MOMENTS = 'release = "covariance"\n'
Planned = Callable[..., dict[str, Any]]


def gaussian_epsilon(mu: float, delta: float = 1e-6) -> float:
    """Return epsilon at delta of a release that is mu-GDP, by the formula of Balle & Wang as it is printed."""

    def excess(epsilon: float) -> float:
        normal = stats.norm
        far = np.exp(epsilon + normal.logcdf(-epsilon / mu - mu / 2))
        return float(normal.cdf(-epsilon / mu + mu / 2) - far) - delta

    return float(optimize.brentq(excess, 0.0, 100.0 + 20.0 * mu * mu, xtol=1e-12))


@pytest.fixture
def planned(tmp_path: Path, call: Call) -> Planned:
    """Return a function that plans a table of whole numbers under a policy, and returns the document."""

    def plan(privacy: str, *words: object, columns: str = BOUNDS, n_rows: int = 2000) -> dict[str, Any]:
        rng = np.random.default_rng(7)
        frame = pd.DataFrame(rng.integers(0, 10, (n_rows, 3)), columns=list("abc"))
        frame.assign(who=np.arange(n_rows)).to_parquet(tmp_path / "t.parquet")
        dropped = "" if "who" in privacy else "[columns.who]\ndrop = true\n"
        (tmp_path / "t.policy.toml").write_text(f"[privacy]\n{privacy}\n{columns}{dropped}")
        ended = call("plan", "t.parquet", *words, "--json")
        assert ended.code == 0, ended.err
        document: dict[str, Any] = json.loads(ended.out, parse_constant=pytest.fail)
        return document

    return plan


@pytest.mark.parametrize(
    "privacy", [f"{MOMENTS}mu = 0.5", 'release = "copula"\nmu = 0.5', f"{MOMENTS}{ENTITY}\nmu = 0.5", "mu = 0.5"]
)
def test_somebody_in_all_periods_loses_the_root_of_their_number(privacy: str, planned: Planned) -> None:
    """N releases at mu are sqrt(N) mu: epsilon and guesses follow by textbook formulas, for any kind of release."""
    columns = BOUNDS + 'kind = "continuous"\n'
    document = planned(privacy, "--series", "12", columns=columns)
    series, mu = document["series"], 0.5 * math.sqrt(12)

    assert series["releases"] == 12
    assert series["in_one"]["mu"] == pytest.approx(0.5)
    assert series["in_one"]["epsilon"] == pytest.approx(gaussian_epsilon(0.5))
    assert series["in_all"]["mu"] == pytest.approx(mu)
    assert series["in_all"]["epsilon"] == pytest.approx(gaussian_epsilon(mu))
    assert series["in_one"]["right_guesses"] == pytest.approx(stats.norm.cdf(0.25))
    assert series["in_all"]["right_guesses"] == pytest.approx(stats.norm.cdf(mu / 2))
    assert series["each_mu"] == pytest.approx(0.5 / math.sqrt(12))
    assert series["ledger_mu_without_partitions"] == pytest.approx(mu)
    assert series["ledger_mu"] == pytest.approx(mu if "entity" in privacy else 0.5)


@pytest.mark.slow
@pytest.mark.parametrize(
    "privacy",
    [
        f"{MOMENTS}mu = 3",
        f"{MOMENTS}{ENTITY}\nmu = 3",
        f'{MOMENTS}unit = "cell"\nmu = 3',
        f'{MOMENTS}mu = 3\nmechanism = "gaussian"\nneighbours = "add-remove"',
        f'{MOMENTS}epsilon = 2\nmechanism = "laplace"',
    ],
)
def test_the_ledger_counts_what_the_plan_says(privacy: str, planned: Planned, call: Call) -> None:
    """Two releases that are booked add up to what was planned, with partitions and without."""
    series = planned(privacy, "--series", "2")["series"]
    for name, words in (("parts", ("--partition",)), ("whole", ())):
        Path("t.policy.toml").write_text(f'[dataset]\nname = "{name}"\n' + Path("t.policy.toml").read_text())
        for number in "12":
            assert call("t.parquet", "--out", f"{name}{number}.tar", *words, *(number * len(words))).code == 0
        Path("t.policy.toml").write_text(Path("t.policy.toml").read_text().split("\n", 2)[2])
    unit = Ledger().entries("whole")[0].cost.unit

    assert Ledger().spent_mu("parts", unit) == pytest.approx(series["ledger_mu"], rel=1e-6)
    assert Ledger().spent_mu("whole", unit) == pytest.approx(series["ledger_mu_without_partitions"], rel=1e-6)
    if "add-remove" not in privacy:
        assert series["in_all"]["mu"] == pytest.approx(series["ledger_mu_without_partitions"], rel=1e-6)


@pytest.mark.slow
def test_whole_numbers_are_guessed_no_better_than_the_label_will_say(planned: Planned, call: Call) -> None:
    """Of discrete noise, mu and guesses by all releases are those of the total that is booked."""
    series = planned("rho = 4.5", "--series", "2")["series"]
    for number in range(2):
        call("t.parquet", "--anyway", "--out", f"{number}.tar")
    total = Ledger().total("t", "row")
    assert Ledger().spent_mu("t", "row") == pytest.approx(series["ledger_mu_without_partitions"], rel=1e-6)
    assert total.mu is None
    by_rho, by_mu = chance_in_all(total), stats.norm.cdf(series["in_all"]["mu"] / 2)
    assert by_rho is not None
    assert series["in_all"]["right_guesses"] == pytest.approx(min(by_rho, by_mu), rel=1e-6)


def test_a_pure_epsilon_adds_up_at_most(planned: Planned) -> None:
    """Twelve releases at a pure epsilon are no worse than twelve times that."""
    series = planned(f'{MOMENTS}epsilon = 1.0\nmechanism = "laplace"', "--series", "12")["series"]
    assert series["in_one"]["epsilon"] == pytest.approx(1.0)
    assert series["in_all"]["epsilon"] == pytest.approx(12.0)
    assert series["in_all"]["mu"] == pytest.approx(math.sqrt(12) * 2 * stats.norm.ppf(math.e / (1 + math.e)))


@pytest.mark.parametrize("privacy", ["mu = 5", f"{MOMENTS}mu = 5"])
def test_each_release_is_forecast_as_one_at_that_strength(privacy: str, planned: Planned) -> None:
    """What one release of the series would show is what the plan of one at mu / sqrt(N) says."""
    columns = BOUNDS + 'kind = "continuous"\n'
    series = planned(privacy, "--series", "6", columns=columns)["series"]
    alone = planned(privacy.replace("mu = 5", f"mu = {5 / math.sqrt(6)!r}"), columns=columns)
    own = next(row for row in alone["forecast"] if row["mu"] == pytest.approx(alone["own_mu"]))
    for name in ("mu", "epsilon", "error_in_rows", "error_in_moments", "least_rows_for_moments"):
        assert series["each"][name] == pytest.approx(own[name]), name
    assert "series" not in alone


def test_a_person_reads_what_a_series_costs(planned: Planned, call: Call) -> None:
    """The terminal says it of a row and of an entity; numbers are rounded to the safe side."""
    planned(f"{MOMENTS}mu = 1")
    said = " ".join(call("plan", "t.parquet", "--series", "12").out.split())
    assert "A series of 12 releases at mu = 1, one a period" in said
    assert "in one period alone is protected as by one release: mu = 1 (epsilon = 4.89 at delta 1e-06)" in said
    assert "by mu = 3.465 (epsilon = 21.9 at delta 1e-06), and at most 96 of 100 guesses" in said
    assert "count mu = 1 for the series if each release has a --partition" in said
    assert "without, mu = 3.465." in said
    assert "give each release mu = 0.288. In it, a correlation has a standard error of 0.0" in said
    assert "A series" not in call("plan", "t.parquet").out

    planned(f"{MOMENTS}{ENTITY}\nmu = 0.05")
    said = " ".join(call("plan", "t.parquet", "--series", "1000").out.split())
    assert 'One "who" with rows in every period' in said
    assert "count mu = 1.582 for the series, with --partition or without" in said
    assert said.endswith("give each release mu = 0.00158. There is no such release: it would be refused.")


def test_a_table_without_a_policy_has_a_series(people: Path, call: Call) -> None:
    """Without a policy a row is protected at mu = 1."""
    Path("people.policy.toml").unlink()
    series = json.loads(call("plan", people.name, "--series", "4", "--json").out)["series"]
    assert (series["in_one"]["mu"], series["in_all"]["mu"]) == (pytest.approx(1.0), pytest.approx(2.0))


@pytest.mark.slow
def test_the_page_says_what_a_series_costs(planned: Planned, call: Call) -> None:
    """The page has a section on it, the line that makes it again has the option, and the one that publishes has not."""
    planned(f"{MOMENTS}mu = 1")
    assert call("plan", "t.parquet", "--series", "12", "--report", "t.html").code == 0
    page = Path("t.html").read_text()
    assert '<h2 id="series-title">A series of releases</h2>' in page
    assert "is protected from all of them together by mu = 3.465" in page
    assert "dp-publish plan t.parquet --series 12" in page
    assert "dp-publish t.parquet --series" not in page
    call("plan", "t.parquet", "--report", "without.html")
    assert "series-title" not in Path("without.html").read_text()


@pytest.mark.parametrize("number", ["1", "1001"])
def test_a_series_has_two_to_a_thousand_releases(number: str, planned: Planned, call: Call) -> None:
    """Any other number is refused in one sentence."""
    planned(f"{MOMENTS}mu = 1")
    ended = call("plan", "t.parquet", "--series", number)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.endswith(f"error: --series must be a number of releases from 2 to 1000, not {number}\n")
