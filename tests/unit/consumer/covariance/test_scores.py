"""The normal variables behind normal scores: estimates and intervals against the truth, by whole releases."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import NDArray
from scipy import stats

from dp_bundle import open_bundle
from dp_bundle.base.errors import SchemaError
from dp_learn import learn_graph
from dp_learn.output.summary import describe_origin
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
    return Policy.model_validate(
        {"dataset": {"name": name}, "privacy": {"release": "copula", "mu": 1.0}, "columns": said}
    )


def learned(table: pd.DataFrame, name: str, key: Ed25519PrivateKey, tmp_path: Any) -> Any:
    """Publish a table, and learn from it."""
    publish(table, policy(name), out=tmp_path / f"{name}.tar", key=key)
    with open_bundle(tmp_path / f"{name}.tar") as bundle:
        return learn_graph(bundle)


def true_partial() -> NDArray[np.float64]:
    """Return the partial correlations of the normal variables."""
    return -CHAIN / np.sqrt(np.outer(np.diagonal(CHAIN), np.diagonal(CHAIN)))


@pytest.mark.slow
def test_intervals_cover_the_normal_variables(key: Ed25519PrivateKey, tmp_path: Any) -> None:
    """Of all pairs in 40 releases, about 95 % of intervals hold the truth: also between columns of steps."""
    rng, pairs, hits = np.random.default_rng(1), np.triu_indices(P, 1), []
    for number in range(40):
        found = learned(rows(rng, 4000), f"d{number}", key, tmp_path).estimate.inference
        bars = found.error_bars_at(pairs)
        hits.append((bars["ci_low"] <= true_partial()[pairs]) & (true_partial()[pairs] <= bars["ci_high"]))
    assert 0.92 <= np.mean(hits) <= 0.98
    assert np.mean(hits, axis=0).min() >= 0.8


def test_steps_do_not_dilute(key: Ed25519PrivateKey, tmp_path: Any) -> None:
    """Between grades and a truth value the link is that of their normal variables, not half as strong."""
    found = learned(rows(np.random.default_rng(2), 40_000), "d", key, tmp_path).estimate.inference
    assert np.abs(found.partial_correlation - true_partial())[np.triu_indices(P, 1)].max() < 0.06


def test_rare_ones_stay_as_they_are(key: Ed25519PrivateKey, tmp_path: Any) -> None:
    """A column of which one row in fifty is 1 shows too little of a normal variable: nothing is divided by that."""
    table = rows(np.random.default_rng(3), 4000)
    table["fifth"] = (table["normal"] > 2.05).astype(float)
    estimate = learned(table, "d", key, tmp_path).estimate
    places = [estimate.columns.index(name) for name in ("normal", "fifth")]
    both = estimate.covariance[np.ix_(places, places)]
    assert (
        0.1 < both[0, 1] / np.sqrt(both[0, 0] * both[1, 1]) < 0.6
    )  # the table's own is 0.34, and their variables' is 1


def test_scores_of_two_releases_are_not_put_together(key: Ed25519PrivateKey, tmp_path: Any) -> None:
    """Each release has a histogram of its own, so that equal scores are not equal values."""
    for name in ("a", "b"):
        publish(rows(np.random.default_rng(4), 3000), policy(name), out=tmp_path / f"{name}.tar", key=key)
    with (
        open_bundle(tmp_path / "a.tar") as a,
        open_bundle(tmp_path / "b.tar") as b,
        pytest.raises(SchemaError, match="histogram of their own"),
    ):
        learn_graph([a, b])


def test_two_values_are_not_said_to_be_clipped(key: Ed25519PrivateKey, tmp_path: Any) -> None:
    """Neither value of a column of two is beyond what the rounds take it to, however far it is in deviations."""
    publish(rows(np.random.default_rng(5), 3000), policy(), out=tmp_path / "d.tar", key=key)
    with open_bundle(tmp_path / "d.tar") as bundle:
        learned = learn_graph(bundle)
        assert describe_origin([bundle], learned.sample.pooled)["bundles"][0]["clipped_at"] == {}
