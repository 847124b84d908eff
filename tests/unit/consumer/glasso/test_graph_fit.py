"""The fit on a graph has no penalty where it can do without, and the least share of one where it cannot."""

import numpy as np
import pytest

from dp_learn import graphical_lasso
from dp_learn.covariance.sample import Sample
from dp_learn.covariance.sources import table_rows
from dp_learn.glasso.graph_fit import fit_on_graph, solve_on_graph
from dp_learn.pipeline.fit import Settings, fit_graph
from dp_learn.pipeline.graph import partial_correlations

INDEFINITE = np.array([[1.0, 0.9, 0.6], [0.9, 1.0, 0.9], [0.6, 0.9, 1.0]])  # beside two of 0.9, 0.62 is the least


def chain_rows(n_rows: int, seed: int = 0, p: int = 10) -> tuple[np.ndarray, np.ndarray]:
    """Return rows whose graph is a chain, and its partial correlations."""
    precision = np.eye(p) + 0.45 * (np.eye(p, k=1) + np.eye(p, k=-1))
    rng = np.random.default_rng(seed)
    return rng.multivariate_normal(np.zeros(p), np.linalg.inv(precision), n_rows), partial_correlations(precision)


def test_indefinite_matrix_keeps_the_least_share() -> None:
    """On a full graph an indefinite matrix has no unpenalised fit: a share is kept, and no smaller one would do."""
    edges, penalty = np.ones((3, 3), dtype=bool), 0.1 * (1.0 - np.eye(3))

    fit = fit_on_graph(INDEFINITE, edges, penalty)

    assert fit is not None
    assert 0.0 < fit.share < 1.0
    assert np.linalg.eigvalsh(fit.precision)[0] > 0
    assert solve_on_graph(INDEFINITE, edges, 0.9 * fit.share * penalty) is None
    assert fit_on_graph(INDEFINITE, edges, penalty / 1000.0) is None


@pytest.mark.parametrize("variance", [0.0, 0.5])
def test_reported_weights_are_the_true_ones_on_average(variance: float) -> None:
    """The slope of the reported weights against the truth is 1, with noise or without; the penalised are shrunk."""
    slopes = {}
    for refit in (True, False):
        each = []
        for seed in range(4):
            rows, truth = chain_rows(3000, seed)
            noisy = rows + np.sqrt(variance) * np.random.default_rng(100 + seed).normal(size=rows.shape)
            sample = Sample([table_rows(noisy, [str(index) for index in range(10)], variance)])
            fit = fit_graph(sample, Settings(refit=refit))
            true = np.triu(truth, 1) != 0
            weights = partial_correlations(fit.precision)[true]
            each.append(float(weights @ truth[true] / (truth[true] @ truth[true])))
            assert fit.share == (0.0 if refit else 1.0)
        slopes[refit] = np.mean(each)

    assert slopes[True] == pytest.approx(1.0, abs=0.05)
    assert slopes[False] < 0.8


def test_an_entry_at_the_limit_of_its_penalty_is_an_edge_of_the_refit() -> None:
    """The refit keeps the graph: it has all the edges of the penalised estimate and no other."""
    rows, _ = chain_rows(400)
    s = np.corrcoef(rows.T)
    chosen = graphical_lasso(s, 0.15)

    fit = fit_on_graph(s, chosen.precision != 0, np.full_like(s, 0.15), start=chosen)

    assert fit is not None
    np.testing.assert_array_equal(fit.precision != 0, chosen.precision != 0)
