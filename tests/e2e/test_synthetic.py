"""dp-bundle synthesize, as a user runs it."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.conftest import Run

from dp_bundle.cli import main

POLICY = """
[dataset]
name = "visits"
[privacy]
unit = "row"
scale = "scores"
mu = 3.0
[columns.group]
kind = "category"
categories = ["a", "b", "c"]
"""


@pytest.fixture
def table(tmp_path: Path) -> pd.DataFrame:
    """Write a table and a policy."""
    rng = np.random.default_rng(1)
    z = rng.normal(size=(3000, 2))
    groups = np.array(["a", "b", "c"])[np.digitize(z[:, 0] + rng.normal(size=3000), [0, 1.5])]
    frame = pd.DataFrame({"cost": np.exp(z[:, 0]), "days": rng.poisson(np.exp(1 + 0.5 * z[:, 0])), "group": groups})
    frame.to_parquet(tmp_path / "visits.parquet")
    (tmp_path / "visits.toml").write_text(POLICY)
    return frame


def test_rows_come_out_of_a_bundle(
    table: pd.DataFrame, command: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From a table to a release to as many synthetic rows, with the same columns."""
    command("dp-bundle", "keys", "new")
    done = command("dp-publish", "visits.parquet", "--policy", "visits.toml", "--out", "visits.bundle.tar")
    assert done.returncode == 0, done.stderr
    done = command("dp-bundle", "synthesize", "visits.bundle.tar")
    assert done.returncode == 0, done.stderr
    assert "3,000 synthetic rows" in done.stdout
    assert "see visits.synthetic.json" in done.stdout
    rows = pd.read_parquet(tmp_path / "visits.synthetic.parquet")
    assert rows.shape == table.shape

    done = command(
        "dp-bundle", "synthesize", "visits.bundle.tar", "--rows", 100, "--seed", 4, "--out", "s.csv", "--json"
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["seed"] == 4
    assert len(pd.read_csv(tmp_path / "s.csv")) == 100

    monkeypatch.setattr(main, "_MANY_ROWS", 2999)  # as if the release stated more than a disk holds
    done = command("dp-bundle", "synthesize", "visits.bundle.tar", "--out", "t.csv")
    assert (done.returncode, "--rows must be given, as the release states 3,000" in done.stderr) == (2, True)
