"""The plan of a table: what the command shows, counts, draws and refuses."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.conftest import Run
from tests.unit.publisher.conftest import POLICY

from dp_bundle.base.quoting import round_up
from dp_publish.cli.messages.plan import describe_plan
from dp_publish.forecast.plan import make_plan
from dp_publish.policy.file import load_policy

PEOPLE = POLICY[POLICY.index("[columns.height]") :]


def unfolded(text: str) -> str:
    """Return what a plan says as one line, as its sentences are folded to a narrow terminal."""
    return " ".join(text.split())


@pytest.fixture
def people(people: Path) -> Path:
    """Put the small table and a policy that leaves the strength open into the test's folder."""
    people.with_name("people.policy.toml").write_text(PEOPLE)
    return people


@pytest.fixture
def planned(tmp_path: Path, command: Run) -> Any:
    """Return a function that plans zeros under a policy: what the command says, as one line, or the document."""

    def plan(policy: str, *words: str, names: str = "ab", n_rows: int = 2) -> Any:
        pd.DataFrame(np.zeros((n_rows, len(names))), columns=list(names)).to_parquet(tmp_path / "t.parquet")
        (tmp_path / "t.policy.toml").write_text(policy)
        finished = command("dp-publish", "plan", "t.parquet", *words)
        assert finished.returncode == 0, finished.stderr
        as_json = "--json" in words
        return json.loads(finished.stdout, parse_constant=pytest.fail) if as_json else unfolded(finished.stdout)

    return plan


def test_plan_spends_nothing_and_reads_no_value(tmp_path: Path, command: Run, home: Path) -> None:
    """Words in place of numbers do not disturb the plan, and neither key nor ledger comes into being."""
    (tmp_path / "people.csv").write_text("height,weight,visits\n" + "tall,heavy,often\n" * 50)
    (tmp_path / "people.policy.toml").write_text(PEOPLE)

    finished = command("dp-publish", "plan", "people.csv")

    assert finished.returncode == 0, finished.stderr
    assert "people: 50 rows, 3 columns. Nothing was spent, and no value was read." in finished.stdout
    assert not home.exists()


def test_plan_shows_the_policys_own_strength(people: Path, command: Run) -> None:
    """The policy's strength is a line of its own among the grid's, or marks the one that equals it."""
    continuous = PEOPLE.replace("bounds = [0, 30]", "drop = true")
    for strength, mu in (("mu = 7.0", 7.0), ("rho = 0.5", 1.0), ("sigma = 40.0", 3.905)):
        people.with_name("people.policy.toml").write_text(f"[privacy]\n{strength}\n{continuous}")
        lines = [line.split() for line in command("dp-publish", "plan", people).stdout.splitlines()]
        marked = [line[0] for line in lines if line[-2:] == ["<-", "policy"]]
        document = json.loads(command("dp-publish", "plan", people, "--json").stdout)

        assert marked == [round_up(document["own_mu"], 4)] * 2
        assert document["own_mu"] == pytest.approx(mu, rel=1e-3)
        assert len(document["forecast"]) == (9 if mu == 1.0 else 10)


def test_plan_leaves_out_strengths_that_cannot_be_published(people: Path, command: Run) -> None:
    """Where an integer column would get no noise, the plan says so."""
    people.with_name("people.policy.toml").write_text("[privacy]\nsigma = 10\n" + PEOPLE.replace("30]", "1]"))

    text = unfolded(command("dp-publish", "plan", people, "--unit", "cell").stdout)

    assert "Not forecast: mu = 50, where a release would be refused (column 'visits'" in text


def test_second_moments_are_planned_where_rows_do_not_go(planned: Any) -> None:
    """A tiny mu does not stop a covariance plan, which then gives no number for rows."""
    policy = '[privacy]\nrelease = "covariance"\nmu = 0.001\n[columns."*"]\nbounds = [0.04, 1.9]\n'
    table: dict[str, Any] = {"names": "abcdefghijklmnopqrst", "n_rows": 5000}
    text, own = planned(policy, **table), planned(policy, "--json", **table)["forecast"][0]

    assert "would be refused" not in text
    assert (own["mu"], own["error_in_rows"], own["seen_in_rows"], own["rows_needed"]) == (0.001, None, None, {})


@pytest.mark.parametrize(
    ("entries", "shown"),
    [
        ('mechanism = "wishart"\nepsilon = 1.0\ndelta = 0.5', "delta"),
        ('mechanism = "wishart"\nepsilon = 200.0\ndelta = 1e-6', "gaussian"),
        ('mechanism = "eigenvectors"\nepsilon = 1000.0', "error bars"),
        ('mechanism = "laplace"\nepsilon = 1000.0', "(pure)"),
        ('mechanism = "auto"\nmu = 2000000.0', "with the best noise"),
    ],
)
def test_other_strengths_are_shown_where_the_policys_own_is_refused(entries: str, shown: str, planned: Any) -> None:
    """A plan says that the policy's strength would be refused, and forecasts the others."""
    text = planned(f'[privacy]\nrelease = "covariance"\n{entries}\n[columns."*"]\nbounds = [0, 9]\n')
    assert "would be refused" in text
    assert shown in text


def test_a_plan_is_json_and_counts_nobody_where_that_is_protected(planned: Any) -> None:
    """What cannot be computed is null, and an empty table is planned like one of a single row."""
    words = "--release covariance --mechanism wishart --epsilon 1 --delta 1e-5 --neighbours add-remove --json"
    document = planned('[columns."*"]\nbounds = [0, 9]\n', *words.split(), n_rows=0)
    assert document["n_rows"] == 1
    assert None in [row["epsilon"] for row in document["forecast"]]


@pytest.mark.parametrize(("n_rows", "unit", "few"), [(400, "row", True), (200, "cell", True), (20_000, "cell", False)])
def test_plan_says_where_rows_are_too_few_to_find_bounds(n_rows: int, unit: str, few: bool, planned: Any) -> None:
    """Bounds left out are forecast as found, and how many rows that takes is said where there are fewer."""
    text = planned(f'[privacy]\nrelease = "rows"\nmu = 1.0\nunit = "{unit}"\n', names="abc", n_rows=n_rows)
    assert "would be found privately, with 10% of rho" in text
    assert ("To find bounds reliably at the policy's own strength takes about" in text) == few


def test_a_plan_of_a_text_file_says_that_any_column_may_be_text(tmp_path: Path) -> None:
    """Columns without bounds are named, as one of text would stop the release; no line is wider than a terminal."""
    (tmp_path / "t.csv").write_text("age,city\n" + "40,Rome\n" * 300)
    (tmp_path / "t.policy.toml").write_text('[columns.age]\nmissing = "drop"\n')
    plan = make_plan(tmp_path / "t.csv", load_policy(tmp_path / "t.policy.toml", "t", {}))
    assert plan.kinds == {"age": "continuous", "city": "continuous"}
    assert "'age', 'city'" in plan.notes[0]
    assert max(map(len, describe_plan(plan).splitlines())) < 80

    (tmp_path / "t.policy.toml").write_text("[columns.age]\nbounds = [0, 120]\n[columns.city]\ndrop = true\n")
    plan = make_plan(tmp_path / "t.csv", load_policy(tmp_path / "t.policy.toml", "t", {}))
    assert not any("text file" in note for note in plan.notes)
