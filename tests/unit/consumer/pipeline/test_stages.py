"""The default graph: fewer false edges in two stages, none of chance, and the rule that takes one or two."""

import math

import networkx as nx
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import special, stats
from tests.unit.consumer.pipeline.mixed import mixed_sample

from dp_learn.covariance.sample import Sample
from dp_learn.covariance.sources import table_rows
from dp_learn.pipeline.fit import (
    CHANCE_SHARE,
    LARGEST_NOISE,
    estimate_first_stage,
    evidence_weights,
    fit_graph,
    noise_error,
)
from dp_learn.pipeline.settings import Options, Settings

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]


def noisy_sample(rows: Floats, sigma: float) -> Sample:
    """Return rows of columns of any names with noise of a standard deviation of sigma."""
    noisy = rows + sigma * np.random.default_rng(9).normal(size=rows.shape)
    return Sample([table_rows(noisy, [f"x{place}" for place in range(rows.shape[1])], sigma**2)])


def small_world(n_rows: int = 2000) -> tuple[Floats, Bools]:
    """Return rows of 30 columns, each linked with about four others, and the links."""
    rng = np.random.default_rng(1)
    linked = nx.to_numpy_array(nx.connected_watts_strogatz_graph(30, 4, 0.1, seed=1)) != 0.0
    precision = np.triu(linked * rng.uniform(0.2, 0.4, linked.shape) * rng.choice([-1, 1], linked.shape))
    precision = precision + precision.T
    precision += (0.1 - np.linalg.eigvalsh(precision)[0]) * np.eye(30)
    return rng.multivariate_normal(np.zeros(30), np.linalg.inv(precision), n_rows), linked


def found_and_false(sample: Sample, linked: Bools, **settings: object) -> tuple[int, int]:
    """Return how many links a fit finds, and how many others."""
    fit = fit_graph(sample, Settings(**settings))  # type: ignore[arg-type]
    edges = np.triu(fit.precision != 0.0, 1)
    return int(np.count_nonzero(edges & linked)), int(np.count_nonzero(edges & ~linked))


def test_the_default_has_few_false_edges() -> None:
    """Of a small world it finds at least 57 of 60 links with at most 5 % false ones; EBIC alone makes 15 % and more."""
    rows, linked = small_world()
    sample = noisy_sample(rows, 0.3 * float(rows.std()))
    found, false = found_and_false(sample, linked)
    once, more_false = found_and_false(sample, linked, select="ebic")

    assert found >= max(57, once)
    assert false <= 0.05 * (found + false)
    assert more_false >= 0.15 * (once + more_false)


def test_strong_links_that_tests_find_are_added() -> None:
    """A link of .15 between columns that others all but determine is beyond the path, and comes alone."""
    rows = np.random.default_rng(0).normal(size=(4000, 8))
    rows[:, 2:4] = rows[:, :2] + 0.3 * rows[:, 2:4] @ [[1.0, 0.15], [0.0, 1.0]]
    precision = fit_graph(noisy_sample(rows, 0.0), Settings()).precision

    assert precision[2, 3] != 0.0
    assert np.count_nonzero(precision[4:]) == 4


@pytest.mark.parametrize(("share", "in_two"), [(0.9, True), (1.1, False)])
def test_the_error_from_the_noise_decides(share: float, *, in_two: bool) -> None:
    """On both sides of the limit: with noise of a variances, the squared error is ((1 + a)^2 - 1) / (n - 1)."""
    rows = np.random.default_rng(3).normal(size=(2000, 6))
    rows /= rows.std(axis=0, ddof=1)
    a = math.sqrt(1.0 + (share * LARGEST_NOISE) ** 2 * 1999) - 1.0
    sample = noisy_sample(rows, math.sqrt(a))
    fit = fit_graph(sample, Settings())

    assert noise_error(fit.pooled, fit.nodes) == pytest.approx(share * LARGEST_NOISE, rel=0.05)
    assert fit.weighting == ("evidence" if in_two else "equal")
    assert fit.selection is not None
    assert ("two stages" if in_two else "one stage") in fit.selection.rule


def test_weights_are_inverse_to_the_tests() -> None:
    """Of a complete graph without noise, z is r sqrt(n - 1) / sqrt(1 + r^2), r the partial correlation of the rows."""
    n_rows, covariance = 500, np.full((4, 4), 0.5) + np.diag([0.5, 0.6, 0.7, 0.8])
    rows = np.random.default_rng(4).multivariate_normal(np.zeros(4), covariance, n_rows)
    fit = fit_graph(noisy_sample(rows, 0.0), Settings())
    first = estimate_first_stage(fit.pooled, fit.nodes, fit.debiased)
    assert first is not None
    weights = evidence_weights(first.evidence, fit.nodes.sizes)
    np.testing.assert_array_equal(weights, fit.weights)

    inverse = np.linalg.inv(np.cov(rows.T))
    root = np.sqrt(np.diagonal(inverse))
    r = (inverse / np.outer(root, root))[np.triu_indices(4, 1)]
    z = np.abs(r) * math.sqrt(n_rows - 1) / np.sqrt(1.0 + r * r)
    at_chance = stats.norm.isf(0.2 / 6 / 2)  # two-sided, of six pairs
    np.testing.assert_allclose(weights[np.triu_indices(4, 1)], at_chance / z, rtol=1e-3)
    np.testing.assert_allclose(np.diagonal(weights), (at_chance / z).min(), rtol=1e-3)


def test_one_stage_ends_where_chance_makes_a_tenth() -> None:
    """Of the entries that exceed the last alpha chance makes a tenth, more than a fifth of an edge, and hardly more."""
    rows, _ = small_world(600)
    fit = fit_graph(noisy_sample(rows / rows.std(axis=0), 0.9), Settings())
    assert fit.selection is not None
    assert fit.weighting == "equal"

    upper, last = np.triu_indices(30, 1), fit.selection.alphas[-1]
    a = 0.81 / np.diagonal(fit.pooled.covariance)
    errors = np.sqrt(np.outer(1.0 + a, 1.0 + a) / 599)[upper]
    by_chance = 2.0 * special.ndtr(-last / errors).sum()
    exceeding = np.count_nonzero(np.abs(fit.debiased[upper]) > last)

    assert by_chance > 0.2
    assert by_chance == pytest.approx(CHANCE_SHARE * exceeding, rel=0.02)


@pytest.mark.parametrize("given", [{"weights": "equal"}, {"alphas": [0.5, 0.3, 0.1]}, {"scale": "covariance"}])
def test_what_is_asked_for_is_left_to_ebic(given: Options) -> None:
    """Where weights, a path or data units are given, the default is EBIC in one walk."""
    rows = np.random.default_rng(3).normal(size=(200, 6)).cumsum(axis=1)
    selection = fit_graph(noisy_sample(rows, 0.3), Settings(**given)).selection
    assert selection is not None
    assert "stage" not in selection.rule


@pytest.mark.parametrize(("sigma", "in_two"), [(0.1, True), (0.8, False)])
def test_categories_have_both_rules(sigma: float, *, in_two: bool) -> None:
    """A link of a category with a number is found in two stages and in one, and none of either with a third column."""
    rng = np.random.default_rng(5)
    levels = rng.integers(0, 4, 1500)
    table = {"kind": levels, "value": (levels == 2) + 0.5 * rng.normal(size=1500), "other": rng.normal(size=1500)}
    fit = fit_graph(mixed_sample(table, sigma), Settings())

    assert fit.weighting == ("evidence" if in_two else "noise")
    np.testing.assert_array_equal(
        fit.nodes.linked(fit.precision), [[True, True, False], [True, True, False], [False, False, True]]
    )
