"""Each rule finds the graph behind noise of three times the signal's variance, and fails when it ignores the noise."""

from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest

from dp_learn import debias_covariance, graphical_lasso
from dp_learn.covariance.estimate import NoisyCovariance, PooledCovariance, combine_sources
from dp_learn.covariance.sample import Split, effective_rows
from dp_learn.pipeline.selection import (
    Selection,
    alpha_grid,
    cross_validate,
    select_ebic,
    select_stars,
    stars_subsample_share,
)

P, N_FOLDS, N_SUBSAMPLES, N_SEEDS = 25, 5, 20, 8
SIGMA = np.sqrt(3.0)  # of the noise; every column's own standard deviation is 1


@dataclass(frozen=True)
class _Noisy:
    """Noisy rows and the graph behind them, with the noise variance that the analyst believes in."""

    rows: np.ndarray
    truth: np.ndarray
    variance: np.ndarray
    draws: np.ndarray

    def prepare(self, rows: np.ndarray) -> np.ndarray:
        return debias_covariance(np.cov(rows.T), self.variance) / np.outer(self.deviations, self.deviations)

    @property
    def deviations(self) -> np.ndarray:
        return np.sqrt(np.var(self.rows, axis=0, ddof=1) - self.variance)

    @property
    def pooled(self) -> PooledCovariance:
        source = NoisyCovariance(len(self.rows), np.cov(self.rows.T), self.variance, np.zeros(P))
        return combine_sources([str(j) for j in range(P)], [source])

    def subsamples(self, share: float) -> list[np.ndarray]:
        return [self.prepare(self.rows[draw < share]) for draw in self.draws]

    def splits(self) -> list[Split]:
        fold = np.arange(len(self.rows)) % N_FOLDS
        return [Split(self.prepare(self.rows[fold != k]), self.prepare(self.rows[fold == k])) for k in range(N_FOLDS)]


def _chain(rng: np.random.Generator) -> np.ndarray:
    return np.eye(P) + np.diag(np.full(P - 1, 0.45), 1) + np.diag(np.full(P - 1, 0.45), -1)


def _random_graph(rng: np.random.Generator) -> np.ndarray:
    i, j = np.triu_indices(P, 1)
    chosen = rng.random(i.size) < 2 / (P - 1)
    precision = np.zeros((P, P))
    precision[i[chosen], j[chosen]] = rng.choice([-1, 1], chosen.sum()) * rng.uniform(0.3, 0.6, chosen.sum())
    precision += precision.T
    return precision + (0.3 - np.linalg.eigvalsh(precision)[0]) * np.eye(P)


GRAPHS = {"chain": (_chain, 4000), "random": (_random_graph, 2000)}


@cache
def _problem(graph: str, seed: int, *, debias: bool) -> _Noisy:
    rng = np.random.default_rng(seed)
    make, n_rows = GRAPHS[graph]
    precision = make(rng)
    covariance = np.linalg.inv(precision)
    deviations = np.sqrt(np.diagonal(covariance))
    rows = rng.multivariate_normal(np.zeros(P), covariance / np.outer(deviations, deviations), size=n_rows)
    rows += SIGMA * rng.normal(size=rows.shape)
    variance = np.full(P, SIGMA**2 if debias else 0.0)
    return _Noisy(rows, precision * np.outer(deviations, deviations), variance, rng.random((N_SUBSAMPLES, n_rows)))


def _select(rule: str, noisy: _Noisy, alphas: np.ndarray, *, count_rows: bool) -> Selection:
    """Apply a rule that knows how many rows the noise leaves, or takes all rows for good ones."""
    n_rows = len(noisy.rows)
    if rule == "ebic":
        units = np.outer(noisy.deviations, noisy.deviations)
        rows_left = (lambda theta: effective_rows(noisy.pooled, theta / units)) if count_rows else n_rows
        return select_ebic(noisy.prepare(noisy.rows), rows_left, alphas)
    if rule == "stars":
        share = stars_subsample_share(effective_rows(noisy.pooled) if count_rows else n_rows)
        return select_stars(noisy.subsamples(share), alphas)
    return cross_validate(noisy.splits(), alphas, score=rule)


@cache
def _figures(rule: str, graph: str, *, debias: bool = True, count_rows: bool = True) -> tuple[float, float]:
    """Return the mean F1 of the graph, and the mean loss of the estimate under the true distribution."""
    f1, loss = [], []
    for seed in range(N_SEEDS):
        noisy = _problem(graph, seed, debias=debias)
        matrix = noisy.prepare(noisy.rows)
        alpha = _select(rule, noisy, alpha_grid(matrix), count_rows=count_rows).alpha
        precision = graphical_lasso(matrix, alpha).precision / np.outer(noisy.deviations, noisy.deviations)
        found, true = (np.triu(theta, 1) != 0 for theta in (precision, noisy.truth))
        f1.append(2 * np.sum(found & true) / (np.sum(found) + np.sum(true)))
        loss.append(np.vdot(np.linalg.inv(noisy.truth), precision) - np.linalg.slogdet(precision)[1])
    return float(np.mean(f1)), float(np.mean(loss))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "graph", "level", "ignoring"),
    [
        ("mse", "chain", 0.77, {"debias": False}),
        ("ebic", "chain", 0.82, {"count_rows": False}),
        pytest.param("ebic", "random", 0.7, {"count_rows": False}, marks=pytest.mark.long),
        pytest.param("stars", "random", 0.7, {"count_rows": False}, marks=pytest.mark.long),
    ],
)
def test_rule_finds_the_graph_only_if_it_knows_the_noise(
    rule: str, graph: str, level: float, ignoring: dict[str, bool]
) -> None:
    """The mean F1 over 8 tables is above a level that the same rule misses when it ignores the noise."""
    assert _figures(rule, graph)[0] > level
    assert _figures(rule, graph, **ignoring)[0] < level
