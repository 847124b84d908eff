"""What the noise would drown, told by the first rows before anything is spent."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dp_publish.data.table import open_table
from dp_publish.forecast.refusal import find_drowned
from dp_publish.ledger.ledger import Ledger
from dp_publish.policy.column_survey import glance
from dp_publish.policy.model import Policy

N_ROWS = 3000
Run = Callable[..., "subprocess.CompletedProcess[str]"]


def long_tails() -> pd.DataFrame:
    """Return two columns that fill their bounds of 0 to 1, and two that fill a hundredth of them."""
    rng = np.random.default_rng(11)
    wide = rng.uniform(size=(N_ROWS, 2))
    narrow = np.clip(0.01 * rng.lognormal(size=(N_ROWS, 2)), 0.0, 1.0) * 0.5
    return pd.DataFrame(np.c_[wide, narrow], columns=["a", "b", "c", "d"])


def test_measured_spreads_tell_what_a_reader_will_leave_out(tmp_path: Path, command: Run) -> None:
    """The columns that the publisher is warned of before she spends are those that dp-learn leaves out as drowned."""
    long_tails().to_parquet(tmp_path / "t.parquet")
    (tmp_path / "t.policy.toml").write_text('[privacy]\nmu = 30\nunit = "cell"\n[columns."*"]\nbounds = [0, 1]\n')
    warning = "the noise would hide 'c', 'd', as the values in the first 3,000 rows fill too little of the bounds:"
    assert warning in command("dp-publish", "plan", "t.parquet", "--look", "--mu", "3").stderr
    assert warning not in command("dp-publish", "plan", "t.parquet", "--mu", "3").stderr
    assert warning not in command("dp-publish", "plan", "t.parquet", "--look", "--mu", "300").stderr

    for release, mu in (("rows", 3), ("covariance", 1)):
        out = ("--out", f"{release}.tar", "--release", release, "--mu", mu)
        out += ("--mechanism", "gaussian") if release == "covariance" else ()
        published = command("dp-publish", "t.parquet", *out)
        assert published.returncode == 0
        assert warning in published.stderr
        assert "drowned by the noise, and left out: c, d\n" in command("dp-learn", f"{release}.tar").stdout


def test_two_rounds_drown_only_what_they_cannot_find() -> None:
    """Columns that fill a hundredth of their bounds are found in two rounds, unless rows are few, bounds far wider."""
    columns = {name: {"bounds": [0.0, 1.0]} for name in "abcd"}
    kinds = dict.fromkeys("abcd", "continuous")

    def drowned(mechanism: str, n_rows: int, factor: float = 1.0, **place: object) -> list[str]:
        privacy = {"mu": 1.0, "release": "covariance", "mechanism": mechanism}
        entries = {name: {**entry, **place} for name, entry in columns.items()}
        policy = Policy.model_validate({"dataset": {"name": "d"}, "privacy": privacy, "columns": entries})
        frame = long_tails() * [1.0, 1.0, factor, factor]
        return find_drowned(glance(open_table(frame), kinds), policy, kinds, lambda: n_rows)

    assert drowned("gaussian", N_ROWS) == ["c", "d"]
    assert drowned("two-round", N_ROWS) == []
    assert drowned("two-round", 200, 0.01) == ["c", "d"]
    assert drowned("two-round", 200, 0.01, center=0.5, scale=0.1) == []
    assert drowned("two-round", N_ROWS, 0.01) == []


def test_a_release_of_which_too_little_would_be_left_is_refused(tmp_path: Path, command: Run) -> None:
    """Where all columns but one are drowned, by their own spread, nothing is spent unless it is meant."""
    long_tails()[["a", "c", "d"]].to_parquet(tmp_path / "t.parquet")
    (tmp_path / "t.policy.toml").write_text('[privacy]\nmu = 3\nunit = "cell"\n[columns."*"]\nbounds = [0, 1]\n')
    refused = command("dp-publish", "t.parquet")
    assert refused.returncode == 2
    assert "the noise would hide 'c', 'd', as" in refused.stderr
    assert Ledger().entries() == []
    assert command("dp-publish", "t.parquet", "--anyway").returncode == 0


@pytest.mark.parametrize(
    "privacy",
    [
        {"snr_db": 0.0},
        {"mu": 1.0, "release": "covariance", "neighbours": "add-remove"},
        {"mu": 1.0, "l2_radius": 2.0},
    ],
)
def test_rows_are_not_counted_where_their_number_is_not_asked_for(privacy: dict[str, object]) -> None:
    """Noise from the data, a protected number of rows and a ball are not judged."""
    bounds = {} if "l2_radius" in privacy else {name: {"bounds": [0.0, 1.0]} for name in "abcd"}
    policy = Policy.model_validate({"dataset": {"name": "d"}, "privacy": privacy, "columns": bounds})
    kinds = dict.fromkeys("abcd", "continuous")

    def count() -> int:
        raise AssertionError("rows were counted")

    assert find_drowned(glance(open_table(long_tails()), kinds), policy, kinds, count) == []
