"""The files of dp-bundle export --combined."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.conftest import Run, make_policy
from tests.two_rounds import release_in_two_rounds, write_rounds

from dp_bundle import open_bundle
from dp_bundle.catalog.staging import export_combined
from dp_publish import publish

FILES = ["t-combined.json", "t-correlations.csv", "t-standard-errors.csv"]


@pytest.fixture
def rounds(tmp_path: Path, key: Ed25519PrivateKey) -> Path:
    """Write a release of two rounds, one of whose columns a spreadsheet would take for a formula."""
    rng = np.random.default_rng(2)
    values = rng.normal(size=(2000, 3))
    values[:, 1] += values[:, 0]
    names = ["=bmi", "hdl", "glucose"]
    return write_rounds(tmp_path / "t.bundle.tar", release_in_two_rounds(values, 3.0, rng), names, key)


def test_two_rounds_become_one_matrix_with_its_errors(rounds: Path, command: Run, tmp_path: Path) -> None:
    """The command writes square matrices with labels on both sides, and what dp-learn says they are worth."""
    done = command("dp-bundle", "export", rounds, "--combined", "--out", "t.csv")
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in tmp_path.glob("t-*")) == FILES
    values, errors = (
        pd.read_csv(tmp_path / f"t-{name}.csv", index_col=0) for name in ("correlations", "standard-errors")
    )
    about = json.loads((tmp_path / "t-combined.json").read_text())

    assert list(values.columns) == list(values.index) == list(errors.columns) == ["'=bmi", "hdl", "glucose"]
    assert about["columns"] == ["=bmi", "hdl", "glucose"]
    assert values.loc["hdl", "'=bmi"] == pytest.approx(np.sqrt(0.5), abs=5 * errors.loc["hdl", "'=bmi"])
    np.testing.assert_array_equal(values, values.T)
    command("dp-learn", rounds, "--no-report", "--out", "found")
    summary = json.loads((tmp_path / "found" / "summary.json").read_text())
    assert about["effective_rows"] == summary["effective_rows"]
    assert f"as precise as {about['effective_rows']:.0f} Gaussian rows without noise" in done.stdout


def test_columns_that_noise_drowns_are_empty(tmp_path: Path, table: pd.DataFrame, key: Ed25519PrivateKey) -> None:
    """Their cells hold nothing, and they are named."""
    policy = make_policy({"height": [120, 220], "weight": [20, 140], "visits": [0, 1e6]}, unit="cell", mu=20.0)
    receipt = publish(table.drop(columns="name"), policy, out=tmp_path / "t.bundle.tar", key=key)
    with open_bundle(receipt.path) as bundle:
        export_combined(bundle, tmp_path / "t.csv")
    values = pd.read_csv(tmp_path / "t-correlations.csv", index_col=0)
    assert values["visits"].isna().all()
    assert values.loc["height", "weight"] > 0.5
    assert json.loads((tmp_path / "t-combined.json").read_text())["drowned_columns"] == ["visits"]
