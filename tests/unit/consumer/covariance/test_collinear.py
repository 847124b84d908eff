"""Columns that others determine are named, and noise is not taken for that."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dp_learn.covariance.collinear import find_collinear
from dp_learn.covariance.debias import NoisyCovariance, debias_covariance
from dp_learn.covariance.estimate import PooledCovariance


def pooled_from(values: np.ndarray, noise: float, rng: np.random.Generator) -> PooledCovariance:
    """Return the covariance of these values under noise of this standard deviation."""
    noisy = np.cov(values + noise * rng.normal(size=values.shape), rowvar=False)
    variance = np.full(values.shape[1], noise**2)
    source = NoisyCovariance(len(values), noisy, variance, np.zeros_like(variance))
    return PooledCovariance(tuple(map(str, range(len(noisy)))), debias_covariance(noisy, variance), (source,))


@pytest.mark.parametrize("noise", [0.0, 0.1, 0.3])
def test_columns_that_others_determine_are_found(noise: float) -> None:
    """A column there twice, and one that is the sum of two others, are named with those, and no others are."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(5000, 8))
    assert find_collinear(pooled_from(x, noise, rng)) == ()
    assert find_collinear(pooled_from(np.c_[x, x[:, 0]], noise, rng)) == ("0", "8")
    assert find_collinear(pooled_from(np.c_[x, x[:, 0], x[:, 2] + x[:, 3]], noise, rng)) == ("0", "2", "3", "8", "9")


def test_noise_and_few_rows_are_no_collinearity() -> None:
    """A matrix made indefinite by its noise, one of few rows, and strong but clear relations name no column."""
    rng = np.random.default_rng(6)
    x = rng.normal(size=(2000, 20))
    drowned = pooled_from(x, 3.0, rng)
    assert np.linalg.eigvalsh(drowned.correlation)[0] < 0.0
    assert find_collinear(drowned) == ()
    assert find_collinear(pooled_from(x[:15], 0.0, rng)) == ()
    assert find_collinear(pooled_from(np.c_[x, x[:, 0] + 0.15 * rng.normal(size=2000)], 0.0, rng)) == ()


def test_an_empty_list_of_edges_has_a_true_reason(
    tmp_path: Path, command: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    """A column there twice hides edges at a false discovery rate, a large alpha all of them; neither is the noise."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3000, 4))
    x[:, 1] += x[:, 0]
    pd.DataFrame(np.c_[x, x[:, 0]], columns=list("abcde")).to_parquet(tmp_path / "twice.parquet")
    (tmp_path / "twice.policy.toml").write_text('[privacy]\nunit = "cell"\nmu = 60\n[columns."*"]\nbounds = [-6, 6]\n')
    assert command("dp-publish", "twice.parquet").returncode == 0

    found = command("dp-learn", "twice.bundle.tar", "--fdr", "0.05").stdout
    assert "nearly collinear, so that some of them determine the others: a, e." in found
    assert (
        "0 of 10 possible edges at a false discovery rate of 0.05: edges of the collinear columns cannot be told "
        "apart, and of the others none stands out from the noise"
    ) in found
    for words in ([], ["--estimator", "scio"]):
        emptied = command("dp-learn", "twice.bundle.tar", "--alpha", "2", *words).stdout
        assert "0 of 10 possible edges: the penalty removes them all; give a smaller --alpha" in emptied
