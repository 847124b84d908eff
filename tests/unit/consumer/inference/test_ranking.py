"""The evidence ranks all pairs, edges or not, with little noise and with much."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from dp_learn.covariance.debias import NoisyCovariance
from dp_learn.covariance.estimate import PooledCovariance, combine_sources
from dp_learn.covariance.penalties import null_standard_errors
from dp_learn.inference.edges import infer_edges
from dp_learn.inference.evidence import score_pairs
from dp_learn.inference.refit import fit_for_inference
from dp_learn.output.folder import write_estimate
from dp_learn.pipeline.graph import GraphEstimate

P = 40


def chain_pooled(variance: float, n_rows: int = 3000, units: float = 1.0) -> tuple[PooledCovariance, np.ndarray]:
    """Return the covariance of noisy rows whose graph is a chain of strong links, and that graph."""
    precision = np.eye(P) + 0.5 * (np.eye(P, k=1) + np.eye(P, k=-1))
    covariance = np.linalg.inv(precision)
    deviations = np.sqrt(np.diagonal(covariance))
    rng = np.random.default_rng(4)
    rows = rng.multivariate_normal(np.zeros(P), covariance / np.outer(deviations, deviations), n_rows)
    noisy = units * (rows + np.sqrt(variance) * rng.normal(size=rows.shape))
    source = NoisyCovariance(n_rows, np.cov(noisy.T), np.full(P, variance * units**2), np.zeros(P))
    return combine_sources([f"c{index}" for index in range(P)], [source]), precision != 0


def auc(scores: np.ndarray, graph: np.ndarray) -> float:
    """Return the area under the curve of a ranking of all pairs."""
    upper = np.triu_indices(P, 1)
    return float(roc_auc_score(graph[upper], scores[upper]))


@pytest.mark.slow
def test_ranking_is_good_at_every_strength_of_the_noise() -> None:
    """It finds a chain with little noise, and with as much noise as signal, which buries the desparsified estimate."""
    for variance, least in ((0.01, 0.99), (1.0, 0.97)):
        pooled, graph = chain_pooled(variance)
        assert auc(score_pairs(pooled), graph) > least

    desparsified = infer_edges(pooled, fit_for_inference(pooled).precision).scores
    assert auc(desparsified, graph) < 0.9


def test_scores_do_not_depend_on_units() -> None:
    """Columns in other units have the same scores, which are symmetric and zero on the diagonal."""
    scores = score_pairs(chain_pooled(0.2)[0])

    np.testing.assert_allclose(score_pairs(chain_pooled(0.2, units=1000.0)[0]), scores, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(scores, scores.T)
    assert (np.diagonal(scores) == 0).all()


def test_correlations_rank_where_no_inverse_is_left() -> None:
    """A matrix that has no solution at that penalty is ranked by its correlations over their errors."""
    covariance = np.full((4, 4), -0.9) + 1.9 * np.eye(4)
    pooled = combine_sources(
        "abcd", [NoisyCovariance(10_000, covariance + 0.01 * np.eye(4), np.full(4, 0.01), np.zeros(4))]
    )
    expected = np.abs(pooled.correlation) / null_standard_errors(pooled)
    upper = np.triu_indices(4, 1)

    assert (score_pairs(pooled)[upper] > 10).all()
    assert np.ptp(score_pairs(pooled)[upper] / expected[upper]) < 1e-9


def test_lists_are_ordered_by_the_evidence(tmp_path: Path) -> None:
    """The edges come surest first, and ranking.csv holds all pairs, or the 10,000 surest."""
    p = 150
    rng = np.random.default_rng(0)
    scores = np.triu(rng.exponential(size=(p, p)), 1)
    precision = np.eye(p) + 1e-3 * (scores > 2)
    estimate = GraphEstimate(
        tuple(f"c{index}" for index in range(p)),
        precision + np.triu(precision, 1).T,
        np.eye(p),
        evidence=scores + scores.T,
    )
    write_estimate(estimate, tmp_path)
    edges, ranking = (pd.read_csv(tmp_path / f"{name}.csv") for name in ("edges", "ranking"))

    assert len(edges) == np.count_nonzero(scores > 2)
    np.testing.assert_allclose(edges["evidence"], np.sort(scores[scores > 2])[::-1])
    np.testing.assert_allclose(ranking["evidence"], np.sort(scores[np.triu_indices(p, 1)])[::-1][:10_000])
    first = ranking.loc[0]
    assert scores[int(first["source"][1:]), int(first["target"][1:])] == scores.max()
