"""Stability of a graph by a parametric bootstrap: releases are drawn from its law, and learned from again.

A draw is the covariance of the graph's own fit plus an error of the law of S^. That is the sampling of Gaussian rows,
times their kurtosis where a release states it, and the published noise on rows or on second moments. The same settings
choose a graph from it, alpha included. The share of draws in which a pair has an edge is its frequency.

The correlation stability coefficient is the largest share of the rows that can be dropped. With a probability of 95 %,
a measure of all nodes then still has a correlation of 0.7 with that of the whole. (See Epskamp, Borsboom & Fried 2018.)
They drop rows of the table. Here draws have fewer rows, and as much noise on each row or on each sum over rows, and are
compared with the graph that they are drawn from. Ten shares from 5 to 75 % are tried, as in their software.

References
----------
Epskamp, Borsboom & Fried (2018), Estimating psychological networks and their accuracy, Behavior Research Methods 50.
Efron & Tibshirani (1993), An Introduction to the Bootstrap, section 6.5.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from dp_bundle.base.engine import Engine, map_in_order
from dp_bundle.base.errors import EstimationError, ParameterError
from dp_bundle.base.quoting import Brief
from dp_learn.covariance.estimate import NoisyCovariance, ReleasedCovariance
from dp_learn.covariance.levels import Levels
from dp_learn.covariance.sample import DRAWS, ErrorLaw, Sample
from dp_learn.covariance.sources import CovarianceSource
from dp_learn.inference.nodes import node_strengths
from dp_learn.matrices.linalg import FloatArray, few_threads, is_positive_definite
from dp_learn.pipeline.fit import fit_again, fit_edges
from dp_learn.pipeline.graph import partial_correlations
from dp_learn.pipeline.learn import N_FOLDS, Learned, judge_pairs
from dp_learn.pipeline.measures import measure_paths
from dp_learn.pipeline.settings import Fit, Settings

FEWEST = 100  # draws
CORRELATION, CERTAINTY = 0.7, 0.95
DROPPED = tuple(np.linspace(0.05, 0.75, 10).tolist())
MEASURES = ("strength", "expected_influence", "betweenness", "closeness")
_AT_ONCE = 10  # draws of a task


@dataclass(frozen=True, eq=False)
class Stability(Brief):
    """What draws made of a graph of G nodes.

    Attributes
    ----------
    n_draws : int
        With all rows; as many more have fewer.
    n_failed : int
        Of these, draws from which no graph could be learned, which count as graphs without edges.
    frequency : ndarray of shape (G, G)
        The share of draws in which two nodes have an edge.
    dropped : tuple of float
        Shares of the rows.
    quantiles : ndarray of shape (n_shares, n_measures)
        The correlation of each of `MEASURES` with that of the graph that 95 % of draws without this share reach.
    coefficients : dict of str to float
        By measure, the largest share whose quantile is at least 0.7 with all smaller ones; 0 if there is none.
    """

    n_draws: int
    n_failed: int
    frequency: FloatArray
    dropped: tuple[float, ...]
    quantiles: FloatArray
    coefficients: dict[str, float]

    @property
    def sentence(self) -> str:
        """The coefficients in words."""
        each = ", ".join(f"{name.replace('_', ' ')} {value:.2f}" for name, value in self.coefficients.items())
        failed = f"; {self.n_failed} of them gave no graph" if self.n_failed else ""
        return f"correlation stability over {self.n_draws:,} draws (at most {DROPPED[-1]:.2f}): {each}{failed}"


@dataclass(frozen=True, eq=False)
class _Plan:
    """What all draws share."""

    fit: Fit
    covariance: FloatArray
    settings: Settings
    fdr: float | None


@dataclass(frozen=True)
class _Task:
    """Draws number `first` to `last`, this one not included, of a share of the rows."""

    share: float
    first: int
    last: int


def measure_stability(
    learned: Learned, n_draws: int, *, engine: Engine, progress: Callable[[int, int], None] = lambda _, __: None
) -> Stability:
    """Return how stable a graph is; the same for the same graph, whatever the engine.

    Parameters
    ----------
    learned : Learned
        A graph and what it rests on.
    n_draws : int
        With all rows, at least 100; as many more are drawn with fewer rows.
    engine : Engine
        What runs the draws.
    progress : callable, optional
        Called with the number of draws that are done, and of all.

    Raises
    ------
    EstimationError
        The errors of the release have no known law, or the graph has no unpenalised fit to draw from.
    """
    if n_draws < FEWEST:
        raise ParameterError("n_draws", f"at least {FEWEST}", n_draws)
    plan, weights = _plan(learned)
    each = -(-n_draws // len(DROPPED))
    shares = [(1.0, n_draws), *((1.0 - share, each) for share in DROPPED)]
    tasks = [
        _Task(share, first, min(first + _AT_ONCE, count))
        for share, count in shares
        for first in range(0, count, _AT_ONCE)
    ]

    reference = _centralities(weights)
    counts, n_failed, done = np.zeros(weights.shape), 0, 0
    correlations: dict[float, list[list[float]]] = {share: [] for share, _ in shares}
    for task, found in zip(tasks, map_in_order(engine, partial(_learn_draws, plan), tasks), strict=True):
        edges, failed, measures = found
        if task.share == 1.0:
            counts, n_failed = counts + edges, n_failed + failed
        correlations[task.share] += [[*map(_correlation, reference, one)] for one in measures]
        done += task.last - task.first
        progress(done, n_draws + each * len(DROPPED))

    quantiles = np.array([np.quantile(correlations[share], 1.0 - CERTAINTY, axis=0) for share, _ in shares[1:]])
    reached = np.cumprod(quantiles >= CORRELATION, axis=0).sum(axis=0)
    coefficients = {
        name: DROPPED[number - 1] if number else 0.0 for name, number in zip(MEASURES, reached.tolist(), strict=True)
    }
    return Stability(n_draws, n_failed, counts / n_draws, DROPPED, quantiles, coefficients)


def _plan(learned: Learned) -> tuple[_Plan, FloatArray]:
    """Return what draws are made from, and the weights of the graph's own fit."""
    fit, graph = learned.fit, learned.estimate
    if not fit.pooled.has_error_law:
        raise EstimationError("the errors of the release have no known law, so there is nothing to draw from")
    precision = fit_edges(fit, graph.adjacency, learned.settings)
    if precision is None or not is_positive_definite(precision):
        raise EstimationError("the noise leaves no unpenalised fit of the graph, so there is nothing to draw from")
    covariance = np.asarray(np.linalg.inv(precision), dtype=np.float64)
    return _Plan(fit, covariance, learned.settings, graph.fdr), _weights(precision, fit)


def _learn_draws(plan: _Plan, task: _Task) -> tuple[FloatArray, int, list[FloatArray]]:
    """Return in how many draws each pair has an edge, how many failed, and the measures of each."""
    n_nodes = len(plan.fit.nodes.names)
    counts, n_failed, measures = np.zeros((n_nodes, n_nodes)), 0, []
    with few_threads(len(plan.covariance)):
        for number in range(task.first, task.last):
            weights, failed = np.zeros((n_nodes, n_nodes)), 0
            try:
                weights = _learn_draw(plan, task.share, number)
            except (EstimationError, ParameterError):
                failed = 1
            counts += weights != 0.0
            n_failed += failed
            measures.append(_centralities(weights))
    return counts, n_failed, measures


def _learn_draw(plan: _Plan, share: float, number: int) -> FloatArray:
    """Return the weights of the graph that is learned from a draw, shape (G, G)."""
    law = ErrorLaw(plan.fit.pooled, plan.covariance, share)
    rng = np.random.default_rng([DRAWS, round(1000 * share), number])
    names = plan.fit.pooled.columns
    sources = [
        CovarianceSource(names, np.zeros(len(names)), _release(source, law, error), Levels(names, ()))
        for source, error in zip(plan.fit.pooled.sources, law.draw_each(rng), strict=True)
    ]
    n_folds = N_FOLDS if plan.settings.needs_folds else 1
    sample = Sample(sources, n_folds=n_folds, same_rows=plan.fit.pooled.same_rows)
    fit = fit_again(sample, plan.fit.nodes, plan.settings)
    if plan.fdr is None:
        return _weights(fit.precision, fit)
    tests, _ = judge_pairs(sample, fit, required=True)
    found = np.zeros((len(fit.nodes.names),) * 2, dtype=bool) if tests is None else tests.q_values <= plan.fdr
    refitted = fit_edges(fit, found, plan.settings)
    if refitted is None:
        raise EstimationError("the edges found have no fit")
    return _weights(refitted, fit)


def _release(
    source: NoisyCovariance | ReleasedCovariance, law: ErrorLaw, error: FloatArray
) -> NoisyCovariance | ReleasedCovariance:
    """Return a source as it would be released with this error, of as many rows as the law has."""
    drawn, n_rows = law.covariance + error, law.n_rows(source)
    if isinstance(source, ReleasedCovariance):
        return replace(source, n_rows=n_rows, debiased=drawn, noise=source.known_noise.of_share(law.share))
    noisy = drawn + np.diag(source.noise_variance)
    noisy = noisy if source.noise_shared is None else noisy + source.noise_shared
    return replace(source, n_rows=n_rows, covariance=noisy)


def _weights(precision: FloatArray, fit: Fit) -> FloatArray:
    """Return the partial correlations of a precision matrix, of categories their strengths; zero on the diagonal."""
    n_nodes = len(fit.nodes.names)
    if not fit.nodes.are_numbers:
        return node_strengths(precision, fit.nodes.labels, n_nodes) - np.eye(n_nodes)
    return partial_correlations(precision) - np.eye(n_nodes)


def _centralities(weights: FloatArray) -> FloatArray:
    """Return all measures of the nodes, shape (n_measures, G)."""
    return np.array([np.abs(weights).sum(axis=1), weights.sum(axis=1), *measure_paths(weights)])


def _correlation(first: FloatArray, second: FloatArray) -> float:
    x, y = first - first.mean(), second - second.mean()
    size = float(np.sqrt((x @ x) * (y @ y)))
    return float(x @ y) / size if size > 0.0 else 0.0
