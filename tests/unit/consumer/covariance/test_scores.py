"""The normal variables behind normal scores: estimates and intervals against the truth, by whole releases."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import NDArray
from scipy import stats
from tests.conftest import policy_with

from dp_bundle import open_bundle
from dp_bundle.base.errors import SchemaError
from dp_bundle.data.latent import Steps
from dp_bundle.data.margins import Margin, middle_scores
from dp_learn import compare_networks, learn_graph
from dp_learn.covariance.sample import bundle_sources
from dp_learn.covariance.scores import part_left_by_noise
from dp_publish import Policy, publish

P = 6
CHAIN = np.eye(P) - 0.3 * (np.eye(P, k=1) + np.eye(P, k=-1))
COLUMNS: dict[str, tuple[Any, dict[str, Any]]] = {
    "normal": (lambda z: z, {"kind": "continuous"}),
    "lognormal": (np.exp, {"kind": "continuous"}),
    "counts": (lambda z: stats.poisson.ppf(stats.norm.cdf(z), 1.5), {"kind": "integer"}),
    "grades": (lambda z: np.digitize(z, [-1.2, -0.3, 0.6, 1.5]).astype(float), {"kind": "integer", "bounds": [0, 4]}),
    "fifth": (lambda z: (z > 0.84).astype(float), {"kind": "integer", "bounds": [0, 1]}),
    "tails": (lambda z: stats.t.ppf(stats.norm.cdf(z), 3), {"kind": "continuous"}),
}


def rows(rng: np.random.Generator, n: int) -> pd.DataFrame:
    """Return rows whose normal variables are a chain."""
    normal = rng.multivariate_normal(np.zeros(P), np.linalg.inv(CHAIN), n) / np.sqrt(np.diagonal(np.linalg.inv(CHAIN)))
    return pd.DataFrame({name: make(normal[:, place]) for place, (name, (make, _)) in enumerate(COLUMNS.items())})


def policy(name: str = "d", **columns: dict[str, Any]) -> Policy:
    """Return a policy of normal scores at mu = 1."""
    said = {name: kind for name, (_, kind) in COLUMNS.items()} | columns
    return policy_with(said, name=name, scale="scores", mu=1.0)


def true_partial() -> NDArray[np.float64]:
    """Return the partial correlations of the normal variables."""
    return -CHAIN / np.sqrt(np.outer(np.diagonal(CHAIN), np.diagonal(CHAIN)))


@pytest.mark.slow
def test_intervals_cover_the_normal_variables(key: Ed25519PrivateKey, tmp_path: Any) -> None:
    """Of all pairs in 20 releases, about 95 % of intervals hold the truth: also between columns of steps."""
    rng, pairs, hits = np.random.default_rng(1), np.triu_indices(P, 1), []
    for _ in range(20):
        with released(key, tmp_path, rows(rng, 4000)) as (bundle,):
            bars = learn_graph(bundle).estimate.inference.error_bars_at(pairs)
        hits.append((bars["ci_low"] <= true_partial()[pairs]) & (true_partial()[pairs] <= bars["ci_high"]))
    assert 0.92 <= np.mean(hits) <= 0.98
    assert np.mean(hits, axis=0).min() >= 0.8


def test_what_noise_on_counts_leaves_of_scores_is_known() -> None:
    """Of a first coefficient half to all of the loss is stated, and no less than its variance over releases."""
    rng, n_rows, sigma = np.random.default_rng(3), 400, 6.0
    shares = np.diff(stats.norm.cdf(np.linspace(-3.0, 3.0, 39)), prepend=0.0, append=1.0)
    parts, stated = list[float](), list[tuple[float, float]]()
    for _ in range(100):
        counts = np.rint(n_rows * shares + sigma * rng.standard_normal(40)).astype(np.int64)
        noisy = Margin("x", np.arange(39.0), counts=counts)
        seen = noisy.shares(n_rows, sigma)
        both = [Steps.of_shares(each, middle_scores(seen, n_rows)).coefficients(1)[0] for each in (shares, seen)]
        parts.append(both[0] / both[1])
        stated.append(part_left_by_noise(noisy, n_rows, sigma))

    mean, variance = np.mean(stated, axis=0)
    assert 0.5 < (1.0 - mean) / (1.0 - np.mean(parts)) < 1.0
    assert np.var(parts) < variance < 10.0 * np.var(parts)


@contextmanager
def released(key: Ed25519PrivateKey, folder: Path, *tables: pd.DataFrame) -> Iterator[list[Any]]:
    """Publish tables, and open their bundles."""
    with TemporaryDirectory(dir=folder) as own, ExitStack() as opened:
        for number, table in enumerate(tables):
            publish(table, policy(f"d{number}"), out=Path(own, f"d{number}.tar"), key=key)
        yield [opened.enter_context(open_bundle(Path(own, f"d{number}.tar"))) for number in range(len(tables))]


def test_other_levels_and_other_releases_are_named_as_such(key: Ed25519PrivateKey, tmp_path: Path) -> None:
    """Where one has levels and the other numbers, or no scores at all, distributions are not what differs."""
    table = rows(np.random.default_rng(8), 1000)
    words = table.assign(fifth=np.where(table["fifth"] > 0, "yes", "no"))
    said = policy("words", fifth={"kind": "boolean", "levels": ["no", "yes"]})
    scales = [said.privacy.model_copy(update={"scale": scale}) for scale in ("raw", ("normal",))]
    values, either = (said.model_copy(update={"privacy": privacy}) for privacy in scales)
    paths = [tmp_path / f"{name}.tar" for name in ("scores", "words", "values", "either")]
    for place, (one, how) in enumerate([(table, policy("scores")), (words, said), (words, values), (words, either)]):
        publish(one, how, out=paths[place], key=key)
    with ExitStack() as opened:
        scores, levels, plain, both = (opened.enter_context(open_bundle(path)) for path in paths)
        assert "'fifth' have few values" in bundle_sources([scores])[1][0]
        assert "fifth" not in learn_graph([scores, levels], error_bars=False).estimate.columns
        with pytest.raises(SchemaError, match=r"scores.tar and values in .*values.tar"):
            compare_networks([plain, scores])
        assert bundle_sources([plain, both])[1][0].endswith("as values in others is left out: 'normal'")


@pytest.mark.slow
def test_scores_themselves_are_compared_on_one_scale_only(key: Ed25519PrivateKey, tmp_path: Path) -> None:
    """Correlations of rare ones depend on how rare they are: they are compared or pooled where they are as rare."""
    rng = np.random.default_rng(7)
    rare, rarer = (rows(rng, 4000).assign(fifth=lambda t, at=at: (t["normal"] > at) * 1.0) for at in (2.0, 2.05))
    with released(key, tmp_path, rare, rarer, rows(rng, 4000)) as (first, second, third):
        assert compare_networks([first, second]).differences.largest.p_value > 0.001
        for together in (compare_networks, learn_graph):
            assert "fifth" in str(together([first, third]).notes)
