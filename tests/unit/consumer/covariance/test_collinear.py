"""Columns that others determine are named, and noise is not taken for that."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.conftest import Run, make_policy
from tests.unit.consumer.sources import source_of

from dp_bundle import open_bundle
from dp_bundle.base.errors import EstimationError
from dp_learn import learn_graph
from dp_learn.covariance.collinear import find_collinear, find_perhaps_collinear
from dp_learn.covariance.estimate import PooledCovariance, combine_sources
from dp_learn.covariance.sample import Sample
from dp_learn.covariance.sources import table_rows
from dp_learn.glasso.whitening import whiten_nodes
from dp_learn.pipeline.learn import infer_if_possible
from dp_publish import publish


def pooled_from(values: np.ndarray, noise: float, rng: np.random.Generator) -> PooledCovariance:
    """Return the covariance of these values under noise of this standard deviation."""
    noisy = np.cov(values + noise * rng.normal(size=values.shape), rowvar=False)
    return combine_sources([*map(str, range(len(noisy)))], [source_of(len(values), noisy, noise**2)])


@pytest.mark.parametrize("noise", [0.0, 0.1, 0.3])
def test_columns_that_others_determine_are_found(noise: float) -> None:
    """A column there twice, and one that is the sum of two others, are named with those, and no others are."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(5000, 8))
    assert find_collinear(pooled_from(x, noise, rng)) == ()
    assert find_collinear(pooled_from(np.c_[x, x[:, 0]], noise, rng)) == ("0", "8")
    assert find_collinear(pooled_from(np.c_[x, x[:, 0], x[:, 2] + x[:, 3]], noise, rng)) == ("0", "2", "3", "8", "9")


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


def test_collinear_numbers_beside_a_category_are_named(tmp_path: Path, command: Run) -> None:
    """A column there twice is named in a table with categories as in one of numbers, and in its summary."""
    rng = np.random.default_rng(12)
    x = rng.normal(size=(3000, 2))
    table = pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "twice": x[:, 0], "town": rng.choice(["a", "b", "c"], 3000)})
    table.to_parquet(tmp_path / "twice.parquet")
    numbers = "".join(f"[columns.{name}]\nbounds = [-6, 6]\n" for name in ("a", "b", "twice"))
    town = '[columns.town]\nkind = "category"\ncategories = ["a", "b", "c"]\n'
    (tmp_path / "twice.policy.toml").write_text('[privacy]\nunit = "cell"\nmu = 15\n' + numbers + town)
    assert command("dp-publish", "twice.parquet", "--anyway").returncode == 0

    found = command("dp-learn", "twice.bundle.tar", "--no-report")
    assert "nearly collinear" in found.stdout + found.stderr
    assert "a, twice." in found.stdout + found.stderr


def test_noise_and_few_rows_are_no_collinearity() -> None:
    """A matrix made indefinite by its noise, one of few rows, and strong but clear relations name no column."""
    rng = np.random.default_rng(6)
    x = rng.normal(size=(2000, 20))
    drowned = pooled_from(x, 3.0, rng)
    assert np.linalg.eigvalsh(drowned.correlation)[0] < 0.0
    assert find_collinear(drowned) == ()
    assert find_collinear(pooled_from(x[:15], 0.0, rng)) == ()
    assert find_collinear(pooled_from(np.c_[x, x[:, 0] + 0.15 * rng.normal(size=2000)], 0.0, rng)) == ()


def two_columns(correlation: float, rng: np.random.Generator) -> np.ndarray:
    """Return rows of two columns of unit variance, and of a third that is independent of them."""
    x = rng.normal(size=(5000, 3))
    x[:, 1] = correlation * x[:, 0] + np.sqrt(1.0 - correlation**2) * x[:, 1]
    return x


def test_pairs_whose_collinearity_the_noise_hides_are_found() -> None:
    """Of pairs as good as collinear most are named under strong noise, and those that are known to be are left out."""
    rng = np.random.default_rng(7)
    found = []
    for _ in range(50):
        pooled = pooled_from(two_columns(0.998, rng), 1.5, rng)
        assert find_collinear(pooled) == ()
        found.append(find_perhaps_collinear(pooled))
    assert set(found) <= {(), ("0", "1")}
    assert found.count(("0", "1")) >= 40

    twice = pooled_from(two_columns(1.0, rng), 0.1, rng)
    assert find_collinear(twice) == ("0", "1")
    assert find_perhaps_collinear(twice) == ("0", "1")
    assert find_perhaps_collinear(twice, ("0", "1")) == ()


@pytest.mark.parametrize(
    ("correlation", "noise", "most"), [(0.85, 0.0, 0), (0.85, 0.3, 0), (0.95, 0.1, 0), (0.85, 1.0, 2), (0.0, 3.0, 2)]
)
def test_strong_and_independent_pairs_are_not_taken_for_collinear(correlation: float, noise: float, most: int) -> None:
    """A correlation that is known not to be 1 is never named, and one that is hidden by the noise hardly ever."""
    rng = np.random.default_rng(8)
    found = [find_perhaps_collinear(pooled_from(two_columns(correlation, rng), noise, rng)) for _ in range(50)]
    assert len(found) - found.count(()) <= most


def test_a_heavy_tailed_table_of_hidden_collinearity_is_named(tmp_path: Path, key: Ed25519PrivateKey) -> None:
    """Seven columns of all sizes with gaps, four of them of one origin, are published as rows and tested."""
    rng = np.random.default_rng(11)
    scales = np.array([1e6, 1e3, 1.0, 1e-2, 1e-5, 10.0, 1e4])
    rows = rng.standard_t(2.5, (5211, 7))
    rows[:, [0, 2, 4, 6]] = rng.standard_t(2.5, (5211, 1)) + 0.1 * rows[:, [0, 2, 4, 6]]
    rows[rng.random(rows.shape) < 0.01] = np.nan
    bounds = {name: [-5.0 * scale, 5.0 * scale] for name, scale in zip("abcdefg", scales, strict=True)}
    policy = make_policy(bounds, mu=20.0, unit="row")
    centered = {name: entry.model_copy(update={"missing": "midpoint"}) for name, entry in policy.columns.items()}
    table = pd.DataFrame(rows * scales, columns=list("abcdefg"))

    receipt = publish(table, policy.model_copy(update={"columns": centered}), out=tmp_path / "t.tar", key=key)
    with open_bundle(receipt.path) as bundle:
        learned = learn_graph(bundle, fdr=0.05)

    assert learned.collinear == ()
    (named,) = re.findall("nearly collinear as far as the noise shows: ([a-g, ]+)[.]", " ".join(learned.notes))
    assert set(named.split(", ")) <= set("aceg")
    assert len(named.split(", ")) >= 3


def test_tests_that_fail_name_columns_that_may_be_collinear() -> None:
    """Where nothing can be tested because columns may determine each other, the error says which."""
    rng = np.random.default_rng(9)
    x = rng.normal(size=(5000, 8))
    x[:, 1:6] = x[:, :1]
    sample = Sample([table_rows(x + np.sqrt(2.0) * rng.normal(size=x.shape), list("abcdefgh"), 2.0)])
    with pytest.raises(EstimationError, match="columns are too nearly collinear") as refused:
        infer_if_possible(sample, sample.pooled, np.arange(8), required=True)
    assert any("as far as the noise shows: a, b, c, d, e, f." in note for note in refused.value.__notes__)


def test_an_empty_list_of_edges_has_a_true_reason(tmp_path: Path, command: Run) -> None:
    """A column there twice hides edges at a false discovery rate, a large alpha all of them; neither is the noise."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3000, 4))
    x[:, 1] += x[:, 0]
    pd.DataFrame(np.c_[x, x[:, 0]], columns=list("abcde")).to_parquet(tmp_path / "twice.parquet")
    (tmp_path / "twice.policy.toml").write_text('[privacy]\nunit = "cell"\nmu = 60\n[columns."*"]\nbounds = [-6, 6]\n')
    assert command("dp-publish", "twice.parquet").returncode == 0

    found = command("dp-learn", "twice.bundle.tar", "--fdr", "0.05").stdout
    assert "nearly collinear, so that some of them determine the others: a, e." in found
    assert "0 of 10 possible edges at a false discovery rate of 0.05: edges of the collinear columns cannot be" in found
    assert "told apart, and of the others none stands out from the noise" in found
    emptied = "0 of 10 possible edges: the penalty removes them all; give a smaller --alpha"
    for words in ([], ["--estimator", "scio"]):
        assert emptied in command("dp-learn", "twice.bundle.tar", "--alpha", "2", *words).stdout
