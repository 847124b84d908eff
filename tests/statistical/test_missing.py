"""Gaps make no edges: with rows left out, tests of absent edges reject as often as they say."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from scipy import stats

from dp_bundle.bundle.reading import open_bundle
from dp_learn import learn_graph
from dp_publish import Policy, publish

N_ROWS, N_COLUMNS, LINK = 20_000, 10, 0.5
NAMES = [f"x{index}" for index in range(N_COLUMNS)]


def chain(rng: np.random.Generator) -> np.ndarray:
    """Return rows of a chain: column j depends on column j - 1 alone; means are off the middle of [-8, 8]."""
    x = rng.normal(size=(N_ROWS, N_COLUMNS))
    for index in range(1, N_COLUMNS):
        x[:, index] = LINK * x[:, index - 1] + np.sqrt(1 - LINK**2) * x[:, index]
    return x + 4.0


def with_gaps(x: np.ndarray, pattern: str, rng: np.random.Generator) -> pd.DataFrame:
    """Return the rows with gaps that depend on no value: one by one, or in the first four columns together."""
    gaps = np.zeros(x.shape, bool)
    if pattern == "alone":
        gaps[:, ::3] = rng.random((N_ROWS, len(range(0, N_COLUMNS, 3)))) < 0.05
    else:
        gaps[:, :4] = rng.random((N_ROWS, 1)) < 0.03
    return pd.DataFrame(np.where(gaps, np.nan, x), columns=NAMES)


def false_p_values(frame: pd.DataFrame, path: Path, key: Ed25519PrivateKey) -> np.ndarray:
    """Publish and learn; return the p-values of the pairs that are no neighbours in the chain."""
    columns = {name: {"bounds": [-8.0, 8.0], "missing": "drop"} for name in NAMES}
    policy = {"dataset": {"name": path.stem}, "privacy": {"mu": 80.0}, "columns": columns}
    receipt = publish(frame, Policy.model_validate(policy), out=path, key=key)
    with open_bundle(receipt.path) as bundle:
        learned = learn_graph(bundle, alpha=0.02)
    assert learned.estimate.inference is not None
    far = np.subtract.outer(range(N_COLUMNS), range(N_COLUMNS)) < -1
    return np.asarray(learned.estimate.inference.p_values)[far]


def absent_p_values(pattern: str, folder: Path, key: Ed25519PrivateKey) -> np.ndarray:
    """Return the p-values of absent edges in four tables."""
    found = []
    for seed in range(4):
        rng = np.random.default_rng([seed, 9])
        frame = with_gaps(chain(rng), pattern, rng)
        found.append(false_p_values(frame, folder / f"{seed}.tar", key))
    return np.concatenate(found)


@pytest.mark.slow
@pytest.mark.parametrize("pattern", ["together", pytest.param("alone", marks=pytest.mark.long)])
def test_gaps_make_no_edges(pattern: str, tmp_path: Path, key: Ed25519PrivateKey) -> None:
    """With gaps one by one, or in the same rows, p-values of absent edges are uniform."""
    p_values = absent_p_values(pattern, tmp_path, key)

    assert stats.kstest(p_values, "uniform").pvalue > 0.001
    assert p_values.min() > 1e-4 / 4
