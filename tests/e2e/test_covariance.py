"""A covariance release from the table to the graph, alone and beside rows."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.conftest import Run

from dp_publish import Policy, publish

NAMES = [f"v{index}" for index in range(6)]
EDGES = {(f"v{index}", f"v{index + 1}") for index in range(5)}
N_ROWS = 20_000


@pytest.fixture
def table() -> pd.DataFrame:
    """Return a chain of six columns whose means are not in the middle of their bounds."""
    rng = np.random.default_rng(3)
    precision = np.eye(6) + np.diag(np.full(5, 0.45), 1) + np.diag(np.full(5, 0.45), -1)
    rows = rng.multivariate_normal(np.full(6, 0.7), np.linalg.inv(precision), size=N_ROWS)
    return pd.DataFrame(np.clip(rows, -5, 5), columns=NAMES)


def policy_for(name: str = "chain", **privacy: object) -> Policy:
    """Return a policy with bounds of -5 and 5."""
    columns = {column: {"bounds": [-5, 5]} for column in NAMES}
    return Policy.model_validate({"dataset": {"name": name}, "privacy": privacy, "columns": columns})


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["two-round", pytest.param("gaussian", marks=pytest.mark.long)])
def test_commands_take_it_like_rows_and_pool_both(
    mechanism: str, tmp_path: Path, table: pd.DataFrame, key: Ed25519PrivateKey, command: Run
) -> None:
    """dp-learn takes a covariance bundle like rows, finds the chain, and pools it with rows of the same table."""
    covariance = policy_for(unit="row", release="covariance", mechanism=mechanism, mu=1.0)
    rows = policy_for(unit="row", mu=5.0)
    publish(table, rows, out=tmp_path / "rows.tar", key=key)
    publish(table, covariance, out=tmp_path / "moments.tar", key=key)
    both = command("dp-learn", "rows.tar", "moments.tar", "--out", "both", "--json")
    folds = command("dp-learn", "moments.tar", "--select", "cv", "--out", "folds")

    found = pd.read_csv(tmp_path / "both" / "edges.csv")
    assert {(row.source, row.target) for row in found.itertuples()} >= EDGES
    pooled = json.loads(both.stdout)
    assert pooled["same_rows"]
    assert [bundle["kind"] for bundle in pooled["bundles"]] == ["rows", "covariance"]
    assert pooled["bundles"][1]["weight"] > 0.9  # the covariance is far more accurate
    assert pooled["n_rows"] == N_ROWS
    assert folds.returncode == 0, folds.stderr  # drawn from the known errors
