"""The page of a plan: the terminal's numbers, what attackers learn at each strength, and the lines to type."""

import json
import math
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.unit.publisher.conftest import Call

from dp_bundle.base.errors import BudgetExceededError
from dp_bundle.base.quoting import percent_at_least, percent_at_most
from dp_publish.accounting.conversions import Cost
from dp_publish.forecast.page.report import error_ticks, make_page
from dp_publish.forecast.page.texts import Asked, positions_of, start_of
from dp_publish.forecast.plan import Plan, make_plan
from dp_publish.forecast.strengths import printed_epsilon, printed_mu
from dp_publish.ledger.ledger import Ledger
from dp_publish.policy.file import load_policy

BOUNDS = '[columns."*"]\nbounds = [0, 1]\n'


@pytest.fixture
def table_of(tmp_path: Path) -> Any:
    """Return a function that writes a table of zeros and a policy, and returns the table's path."""

    def write(privacy: str, n_rows: int = 500, names: str = "abcd", columns: str = BOUNDS) -> Path:
        frame = pd.DataFrame(np.zeros((n_rows, len(names))), columns=list(names))
        frame.to_parquet(tmp_path / "t.parquet")
        (tmp_path / "t.policy.toml").write_text(f"[privacy]\n{privacy}\n{columns}")
        return tmp_path / "t.parquet"

    return write


def plan_of(path: Path, **overrides: Any) -> Plan:
    """Return the plan of a table by its policy."""
    return make_plan(path, load_policy(path.with_name("t.policy.toml"), "t", overrides))


def data_of(page: str) -> list[dict[str, Any]]:
    """Return what the slider of a page chooses from."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page)
    assert found is not None
    positions: list[dict[str, Any]] = json.loads(found[1])["positions"]
    return positions


def percent(text: str) -> float:
    """Return a percentage as a share."""
    return float(text.removesuffix(" %")) / 100


@pytest.mark.parametrize("share", [1e-9, 0.123456, 0.5, 0.98889, 0.9999999, 1.0])
def test_percentages_are_rounded_to_the_safe_side(share: float) -> None:
    """At most is never less, at least never more, and both are near."""
    assert share - 1e-15 <= percent(percent_at_most(share)) <= min(1.0, share * 1.01 + 1e-9)
    assert share * 0.99 - 1e-9 <= percent(percent_at_least(share)) <= share + 1e-15


@pytest.mark.parametrize(
    ("privacy", "words"),
    [
        ("mu = 1.0", {}),
        pytest.param("rho = 0.5", {"--unit": "cell"}, marks=pytest.mark.slow),
        pytest.param('mu = 1.0\nrelease = "covariance"', {"--policy": "t.policy.toml"}, marks=pytest.mark.slow),
        pytest.param(
            'epsilon = 1.0\ndelta = 1e-6\nrelease = "covariance"\nmechanism = "wishart"', {}, marks=pytest.mark.slow
        ),
    ],
)
def test_the_lines_to_type_publish_what_the_page_shows(
    privacy: str, words: dict[str, str], table_of: Any, call: Call
) -> None:
    """Planned with the options of its line, every third strength is the policy's own, with the same guarantee."""
    path = table_of(privacy, n_rows=5000)
    options = {name[2:]: value for name, value in words.items() if name != "--policy"}
    plan = plan_of(path, **options)
    positions = positions_of(plan)
    texts = data_of(make_page(plan, Asked("t.parquet", words)))
    chosen = {*range(0, len(positions), 6), start_of(plan, positions)}
    for place in sorted(chosen):
        command, data, *line = texts[place]["texts"]["line"].split()
        assert (command, data) == ("dp-publish", "t.parquet")
        document = json.loads(call("plan", "t.parquet", *line, "--json").out)
        own = next(row for row in document["forecast"] if row["mu"] == document["own_mu"])
        row = positions[place].row
        assert own["mu"] == pytest.approx(row.mu, rel=1e-5)
        assert own["epsilon"] == pytest.approx(row.planned.epsilon, rel=1e-4, nan_ok=True) or math.isnan(
            row.planned.epsilon
        )
        assert own["error_in_moments"] == pytest.approx(row.moments.error, rel=1e-4)


def test_a_page_says_what_is_for_the_publisher_alone(table_of: Any, call: Call) -> None:
    """With --look, and where the number of rows is protected, the page must not be passed on; else nothing says so."""
    table_of("mu = 1.0")
    warnings = []
    for words in ((), ("--look",), ("--release", "covariance", "--neighbours", "add-remove")):
        assert call("plan", "t.parquet", "--report", "t.html", *words).code == 0
        page = Path("t.html").read_text()
        assert ("rows were read to see what stands in the way" in page) == ("--look" in words)
        warnings.append("do not pass this page on" in page)
    assert warnings == [False, True, True]
    assert "in the table, or not" in page


def test_hostile_names_stay_text(table_of: Any) -> None:
    """Names of columns, of the dataset and of the file end no element and begin none."""
    hostile = "</script><script>alert(1)</script>"
    path = table_of("mu = 1.0", columns=f'[dataset]\nname = "{hostile}"\n{BOUNDS}')
    frame = pd.DataFrame(np.zeros((50, 2)), columns=[hostile, "{{ 7 * 7 }}"])
    frame.to_parquet(path)
    page = make_page(plan_of(path), Asked(f"{hostile}.parquet", {"--policy": hostile}))
    assert "<script>alert" not in page
    assert "{{ 7 * 7 }}" in page
    assert page.count("</script>") == page.count("<script")


def test_a_report_replaces_only_an_earlier_one(table_of: Any, call: Call, tmp_path: Path) -> None:
    """Nothing that plan did not write goes for a report, whatever it is; a name must end in .html."""
    table_of("mu = 1.0")
    (tmp_path / "other.html").write_text("<html></html>")
    (tmp_path / "link.html").symlink_to(tmp_path / "nowhere.html")
    (tmp_path / "folder.html").mkdir()
    os.mkfifo(tmp_path / "pipe.html")
    for name in ("t.parquet", "other.html", "link.html", "folder.html", "pipe.html", "plan.pdf"):
        assert call("plan", "t.parquet", "--report", name).code == 1
    assert (tmp_path / "other.html").read_text() == "<html></html>"
    assert not (tmp_path / "plan.pdf").exists()

    for _ in range(2):
        assert call("plan", "t.parquet", "--report", "plan.html", "--quiet") == (0, "", "")
    assert (tmp_path / "plan.html").stat().st_size < 3e6


def test_the_budget_is_said_to_be_exceeded_where_the_ledger_refuses(table_of: Any, call: Call) -> None:
    """At every strength, the page and the ledger agree whether what is left of the budget allows the release."""
    table_of("mu = 1.0\nbudget_mu = 2.0", columns=f'[dataset]\nname = "t"\n{BOUNDS}')
    Ledger().reserve("t", Cost("row", {"row": 1.5}, continuous=True), budget_mu=2.0)
    assert call("plan", "t.parquet", "--report", "t.html", "--quiet").code == 0

    refused = []
    for position in data_of(Path("t.html").read_text()):
        said, mu = position["texts"]["budget"], position["mu"]
        refused.append("would refuse" in said)
        if refused[-1]:
            with pytest.raises(BudgetExceededError):
                Ledger().reserve("t", Cost("row", {"row": mu}, continuous=True))
        else:
            Ledger().cancel(Ledger().reserve("t", Cost("row", {"row": mu}, continuous=True)))
            left = re.search(r"one more release at mu = ([\d.]+)\.", said)
            assert left is not None
            assert float(left[1]) == pytest.approx(math.sqrt(4 - 1.5**2 - mu**2), abs=1e-3)
    assert refused == sorted(refused)
    assert {*refused} == {False, True}


@pytest.mark.parametrize(("low", "high"), [(0.045, 0.051), (0.011, 0.019), (0.02, 0.9), (1e-3, 40.0), (1e-9, 1e9)])
def test_errors_within_one_decade_have_ticks(low: float, high: float) -> None:
    """The axis of errors has a number on it also where all of them are nearly alike, and not too many otherwise."""
    ticks = error_ticks([high, low])
    assert any(low <= each <= high for each in ticks)
    assert len(ticks) <= 13


@pytest.mark.parametrize(
    ("value", "mu", "epsilon"),
    [
        (0.1 * (1 + 1e-12), "0.1", "0.1"),
        (0.83412, "0.8342", "0.835"),
        (265.14, "265.2", "266"),
        (1309.01, "1310", "1,310"),
        (1309 * (1 + 1e-12), "1309", "1,309"),
    ],
)
def test_a_strength_is_rounded_up(value: float, mu: str, epsilon: str) -> None:
    """What is printed is never below the strength, but for its safety margin."""
    assert (printed_mu(value), printed_epsilon(value)) == (mu, epsilon)
