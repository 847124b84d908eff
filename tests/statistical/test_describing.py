"""What a release tells of its columns: intervals that cover, and the numbers themselves where there is hardly noise."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.conftest import Run, policy_with

from dp_learn import describe
from dp_publish import publish

LEVELS = {"school": ["high", "low", "mid"], "smokes": ["no", "yes"]}
COLUMNS = {"age": {"bounds": [0.0, 100.0]}} | {
    name: {"kind": "category", "categories": levels} for name, levels in LEVELS.items()
}
SUMS = {"release": "covariance", "mechanism": "gaussian"}


def draw(n_rows: int, seed: int) -> pd.DataFrame:
    """Return rows of a number and two categories that depend on each other."""
    rng = np.random.default_rng(seed)
    school = rng.choice(LEVELS["school"], n_rows, p=[0.2, 0.5, 0.3])
    smokes = np.where(rng.random(n_rows) < np.where(school == "high", 0.1, 0.4), "yes", "no")
    return pd.DataFrame({"age": rng.normal(45.0, 12.0, n_rows), "school": school, "smokes": smokes})


TRUTH = {"mean": 45.0, "standard deviation": 12.0, "high": 0.2, "low": 0.5, "mid": 0.3, "yes": 0.34, "no": 0.66}
TOGETHER = {"high": 0.02, "low": 0.2, "mid": 0.12}


RELEASES = [
    {"mu": 12.0},
    {"mu": 0.5, **SUMS},
    {"mu": 0.5, "neighbours": "add-remove", **SUMS},
    {"mu": 0.5, "release": "covariance"},
]


@pytest.mark.slow
@pytest.mark.parametrize("privacy", RELEASES, ids=["rows", "one round", "rows not counted", "two rounds"])
def test_intervals_cover(tmp_path: Path, key: Ed25519PrivateKey, privacy: dict[str, Any]) -> None:
    """Means, deviations, shares and cross-tabulations are in 95 % of their intervals, where noise is most of errors."""
    covered = []
    for seed in range(40):
        policy = policy_with(COLUMNS, name=f"people {seed}", **privacy)
        found = describe(publish(draw(500, seed), policy, out=tmp_path / f"{seed}.tar", key=key).path)
        rows = [(row, TRUTH.get(row.level or row.quantity, np.nan)) for row in found.columns.itertuples()]
        rows += [(row, TOGETHER[row.level]) for row in found.crosstabs.itertuples()]
        covered += [row.ci_low <= truth <= row.ci_high for row, truth in rows if np.isfinite([row.ci_low, truth]).all()]
    assert 0.92 < np.mean(covered) < 0.985


@pytest.mark.parametrize("privacy", [{"mu": 1e4, **SUMS}, {"mu": 1e4}], ids=["sums", "rows"])
def test_without_noise_numbers_are_those_of_the_rows(
    tmp_path: Path, key: Ed25519PrivateKey, command: Run, privacy: dict[str, Any]
) -> None:
    """A mean, its interval, a deviation and cross-tabulations are those that the rows have, and the file has them."""
    rows = draw(400, 1)
    path = publish(rows, policy_with(COLUMNS, **privacy), out=tmp_path / "t.tar", key=key).path
    command("dp-learn", "describe", path, "--out", "found")
    table = pd.read_csv(tmp_path / "found" / "description.csv").set_index("quantity")
    mean, deviation = table.loc["mean"], table.loc["standard deviation"]
    assert mean["estimate"] == pytest.approx(rows["age"].mean(), rel=1e-3)
    assert deviation["estimate"] == pytest.approx(rows["age"].std(), rel=1e-3)
    assert mean["ci_high"] - mean["estimate"] == pytest.approx(1.96 * rows["age"].std() / 20.0, rel=1e-2)
    both = describe(path).crosstabs.set_index("level")["share"]
    expected = pd.crosstab(rows["school"], rows["smokes"], normalize=True)["yes"]
    assert both.to_dict() == pytest.approx(expected.to_dict(), abs=2e-3)


def test_dates_are_dates(tmp_path: Path, key: Ed25519PrivateKey, command: Run) -> None:
    """The terminal and the page have the mean of dates as a date, and deviations in days, also those of times."""
    times = pd.date_range("2020-01-01", periods=400, freq="D")
    days = times.date
    columns = {
        "day": {"kind": "date", "bounds": [days[0], days[-1]]},
        "at": {"kind": "time", "bounds": [1.57e9, 1.62e9]},
    }
    policy = policy_with(columns, mu=1e4, **SUMS)
    path = publish(pd.DataFrame({"day": days, "at": times}), policy, out=tmp_path / "t.tar", key=key).path
    printed = command("dp-learn", "describe", path, "--out", "found").stdout
    found = describe(path).columns.query("column == 'day'").set_index("quantity")["as_date"]
    assert found["mean"].startswith("2020-07-18 (2020-07-")
    assert found["mean"] in printed
    assert found["mean"] in (tmp_path / "found" / "report.html").read_text()
    assert 'day "standard deviation", days\n' in printed
    assert '115.6 days  at "standard deviation"\n' in printed
    assert "e+" not in printed


def test_no_mean_of_a_column_that_hardly_varies(tmp_path: Path, key: Ed25519PrivateKey) -> None:
    """Two rounds pull its few other values in, which moves its mean by more than any interval would tell."""
    rows = draw(3_000, 1).assign(age=np.where(np.arange(3_000) % 1_000, 50.0, 90.0))
    path = publish(rows, policy_with(COLUMNS, mu=2.0, release="covariance"), out=tmp_path / "t.tar", key=key).path
    assert set(describe(path).columns.query("column == 'age'")["quantity"]).isdisjoint({"mean", "standard deviation"})


def test_what_shortening_moved_has_no_interval(tmp_path: Path, key: Ed25519PrivateKey) -> None:
    """Few rows, whose radius is chosen by so much noise that nearly all are shortened."""
    policy = policy_with(COLUMNS, mu=1.0, release="covariance")
    found = describe(publish(draw(60, 1), policy, out=tmp_path / "t.tar", key=key).path)
    assert found.columns.query("quantity == 'mean'")["ci_low"].isna().all()


def test_a_level_that_stands_for_others_says_so(tmp_path: Path, key: Ed25519PrivateKey, command: Run) -> None:
    """Where words that are not listed count as a level, its share is not that of the word."""
    columns = COLUMNS | {"smokes": {"kind": "category", "categories": ["no", "yes"], "other": "no"}}
    path = publish(draw(400, 1), policy_with(columns, mu=1e4, **SUMS), out=tmp_path / "t.tar", key=key).path
    printed = command("dp-learn", "describe", path, "--out", "found").stdout
    assert "0 is no, 1 is yes; every value that is not listed counts as no" in printed
