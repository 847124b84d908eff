"""Tests of equal networks hold their level under unequal noise."""

from collections.abc import Sequence

import numpy as np
import pytest
from tests.statistical.worlds import World, gaussian_noise, gaussian_world, names, random_graph

from dp_learn.covariance.sample import Sample
from dp_learn.covariance.sources import table_rows
from dp_learn.pipeline.compare import Comparison, compare_samples

P, ARMS, REPETITIONS = 12, ((1000, 0.3), (3000, 1.0)), 150  # rows and variance of the noise


def compare(world: World, arms: Sequence[tuple[int, float]], rng: np.random.Generator) -> Comparison:
    """Compare noisy releases of the same world."""
    samples = []
    for n_rows, variance in arms:
        noise = gaussian_noise(variance).draw(rng, (n_rows, P))
        samples.append(Sample([table_rows(world.draw(rng, n_rows) + noise, names(P), variance)]))
    return compare_samples(samples, 0.05, 0.95, n_draws=300)


def reject(degrees: int | None, repetitions: int) -> tuple[float, float, float, float]:
    """Return how often pairs, strong ones, and each of the tests of all pairs reject equal networks at 5 %."""
    rng, world = np.random.default_rng(12), gaussian_world(random_graph(P).precision, degrees)
    strong = np.abs(world.partial[np.triu_indices(P, 1)]) > 0.15
    pairs, largest, squares = [], [], []
    for _ in range(repetitions):
        found = compare(world, ARMS, rng).differences.each[0]
        pairs.append(found.p_value < 0.05)
        largest.append(found.largest.p_value < 0.05)
        squares.append(found.squares.p_value < 0.05)
    rejected = np.array(pairs)
    return float(rejected.mean()), float(rejected[:, strong].mean()), float(np.mean(largest)), float(np.mean(squares))


@pytest.mark.slow
@pytest.mark.parametrize("degrees", [None, pytest.param(6, marks=pytest.mark.long)])
def test_equal_networks_are_rejected_as_often_as_stated(degrees: int | None) -> None:
    """At 5 %, pairs within 1.5, strong ones within 2, and both tests of all pairs in at most three errors more."""
    pairs, strong, largest, squares = reject(degrees, REPETITIONS)
    most = 0.05 + 3.0 * np.sqrt(0.05 * 0.95 / REPETITIONS)

    assert abs(pairs - 0.05) < 0.015
    assert abs(strong - 0.05) < 0.02
    assert largest < most
    assert squares < most


def test_releases_that_have_no_dense_fit_are_compared_on_a_thinner_graph() -> None:
    """Of nearly collinear columns under strong noise, most pairs are compared, and equal networks do not differ."""
    rng, world = np.random.default_rng(3), gaussian_world(np.linalg.inv(np.ones((P, P)) + np.diag([0.1, 0.4] * 6)))
    found = compare(world, ((150, 0.5), (250, 0.8)), rng)
    assert any("fewer edges" in note for note in found.notes)
    assert found.differences.is_comparable.mean() > 0.5
    assert np.mean(found.differences.each[0].p_value < 0.05) < 0.1
