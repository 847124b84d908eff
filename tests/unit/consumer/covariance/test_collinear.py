"""Columns that others determine are named, and noise is not taken for that."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.conftest import Run
from tests.unit.consumer.sources import source_of

from dp_learn.covariance.collinear import find_collinear, find_determined, find_perhaps_collinear
from dp_learn.covariance.estimate import PooledCovariance, combine_sources
from dp_learn.glasso.problem import whiten_nodes


def pooled_from(values: np.ndarray, noise: float, rng: np.random.Generator) -> PooledCovariance:
    """Return the covariance of these values under noise of this standard deviation."""
    noisy = np.cov(values + noise * rng.normal(size=values.shape), rowvar=False)
    return combine_sources([*map(str, range(len(noisy)))], [source_of(len(values), noisy, noise**2)])


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_columns_that_others_determine_are_found(noise: float) -> None:
    """A column there twice, and one that is the sum of two others, are named with those, and no others are."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(5000, 8))
    assert find_collinear(pooled_from(x, noise, rng)) == ()
    assert find_collinear(pooled_from(np.c_[x, x[:, 0], x[:, 2] + x[:, 3]], noise, rng)) == ("0", "2", "3", "8", "9")


def test_what_determines_a_column_is_told_in_its_units() -> None:
    """A total, and a copy in other units, are told by the others; a strong but unsure relation is not."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(5000, 4))
    loose = x[:, 3] + 0.5 * rng.normal(size=5000)
    total, copy = x[:, 0] + 2 * x[:, 1] + x[:, 2], 30 * x[:, 3]
    found = find_determined(pooled_from(np.c_[x, total, copy, loose], 0.05, rng), {})
    assert [*found] == ["4", "5"]
    assert "2 x 1" in found["4"]
    assert found["5"].startswith("5 = 30 x 3 + a constant, to ")
    pooled = pooled_from(np.c_[x, 10 * x[:, 0] + 0.9 * x[:, 1] + 0.4 * x[:, 2]], 0.02, rng)
    (said,) = find_determined(pooled, {}).values()
    assert "0.9" in said  # a small part, too
    assert float(said.split()[-6]) > 4.0  # what is not named is in the figure


def test_a_copy_is_told_under_noise_and_across_scales() -> None:
    """Where values and scores are compared, as much is possible as a histogram says; what is merely strong is kept."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(5000, 3))
    x[:, 1] = 0.97 * x[:, 0] + 0.24 * x[:, 1]
    bent = np.exp(0.4 * x[:, 0])
    pooled = pooled_from(np.c_[x, x[:, 2] + 0.001 * x[:, 0], bent / bent.std()], 0.2, rng)
    assert [*find_determined(pooled, {})] == ["2"]
    assert [*find_determined(pooled, {"0": 1.0, "1": 1.0, "4": 0.4 / np.sqrt(np.expm1(0.16))})] == ["2", "4"]


def test_columns_of_a_node_count_together() -> None:
    """A category is named where a number or another category follows from it, not for its own levels, however alike."""
    rng = np.random.default_rng(10)
    level = rng.choice(4, 5000, p=[0.5, 0.44, 0.03, 0.03])
    own = (level[:, None] == [1, 2, 3]).astype(float)
    own[:, 2] = own[:, 1] + 0.005 * rng.normal(size=5000)  # nearly twice the same level
    x = rng.normal(size=(5000, 2))
    labels, nodes = np.array([0, 0, 0, 1, 2]), ("c", "c", "c", "x", "y")

    unrelated = pooled_from(np.c_[own, x], 0.02, rng)
    _, root = whiten_nodes(unrelated.covariance, labels)
    assert find_collinear(unrelated) == ("1", "2")
    assert find_collinear(unrelated, nodes, root) == ()
    assert find_perhaps_collinear(unrelated, (), nodes) == ()

    follows = pooled_from(np.c_[own, own @ [1.0, 2.0, 4.0] + 0.005 * x[:, 0], x[:, 1]], 0.02, rng)
    _, root = whiten_nodes(follows.covariance, labels)
    assert find_collinear(follows, nodes, root) == ("c", "x")


def test_noise_and_few_rows_are_no_collinearity() -> None:
    """A matrix made indefinite by its noise, one of few rows, and strong but clear relations name no column."""
    rng = np.random.default_rng(6)
    x = rng.normal(size=(2000, 20))
    drowned = pooled_from(x, 3.0, rng)
    assert np.linalg.eigvalsh(drowned.correlation)[0] < 0.0
    assert find_collinear(drowned) == ()
    assert find_collinear(pooled_from(x[:15], 0.0, rng)) == ()
    assert find_collinear(pooled_from(np.c_[x, x[:, 0] + 0.15 * rng.normal(size=2000)], 0.0, rng)) == ()


@pytest.mark.parametrize(
    ("correlation", "noise", "least", "most"),
    [(0.998, 1.5, 16, 20), (0.85, 0.0, 0, 0), (0.95, 0.1, 0, 0), (0.85, 1.0, 0, 2), (0.0, 3.0, 0, 2)],
)
def test_pairs_whose_collinearity_the_noise_hides_are_found(
    correlation: float, noise: float, least: int, most: int
) -> None:
    """Of pairs as good as collinear most are named under strong noise, and of others hardly one, or none."""
    rng, found = np.random.default_rng(7), []
    for _ in range(20):
        x = rng.normal(size=(5000, 3))
        x[:, 1] = correlation * x[:, 0] + np.sqrt(1.0 - correlation**2) * x[:, 1]
        pooled = pooled_from(x, noise, rng)
        assert find_collinear(pooled) == ()
        found.append(find_perhaps_collinear(pooled))
        assert find_perhaps_collinear(pooled, ("0", "1")) in {(), ("0", "2"), ("1", "2")}
    assert least <= len(found) - found.count(()) <= most


def test_an_empty_list_of_edges_has_a_true_reason(tmp_path: Path, command: Run) -> None:
    """A total hides edges at a false discovery rate, a large alpha all of them; neither is the noise."""
    x = np.random.default_rng(0).normal(size=(3000, 4))
    x[:, 1] += x[:, 0]
    pd.DataFrame(np.c_[x, x[:, 0] + x[:, 2]], columns=list("abcde")).to_parquet(tmp_path / "twice.parquet")
    (tmp_path / "twice.policy.toml").write_text('[privacy]\nunit = "cell"\nmu = 30\n[columns."*"]\nbounds = [-6, 6]\n')
    assert command("dp-publish", "twice.parquet").returncode == 0

    found = command("dp-learn", "twice.bundle.tar", "--fdr", "0.05").stdout
    assert "determine the others: a, c, e." in found
    assert "edges of the collinear columns" in found
    for words in ([], ["--estimator", "scio"]):
        assert "penalty removes them all" in command("dp-learn", "twice.bundle.tar", "--alpha", "2", *words).stdout
