"""The noise of every covariance mechanism has the stated mean and covariance, and fails at 0.95 and 1.05 of its scale.

And audits: what a reader sees tells two neighbouring tables apart by no more than epsilon; half the noise is found.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from dp_bundle.data.recovery import mean_and_covariance
from dp_publish.covariance.mechanisms.base import NoisyMoments
from dp_publish.covariance.mechanisms.eigenvectors import release_eigenvectors, release_kapralov_talwar
from dp_publish.covariance.mechanisms.gaussian import release_gaussian, release_sulq
from dp_publish.covariance.mechanisms.laplace import release_laplace
from dp_publish.covariance.mechanisms.wishart import release_wishart
from dp_publish.covariance.scaling import scaling_for
from dp_publish.covariance.second_moments import SecondMoments, moments_of_batch
from dp_publish.sampling.keystream import Keystream, insecure_keystream

WRONG = [0.95, 1.05]
LIMIT = 4.9  # standard errors: a false alarm once in a million
N_COLUMNS = 20

Release = Callable[[SecondMoments, Keystream], NoisyMoments]

RELEASES: dict[str, tuple[Release, int]] = {
    "gaussian": (lambda m, rng: release_gaussian(m, mu=1.0, rng=rng), 1500),
    "gaussian, one more row": (lambda m, rng: release_gaussian(m, mu=1.0, neighbours="add-remove", rng=rng), 1500),
    "sulq": (lambda m, rng: release_sulq(m, epsilon=1.0, delta=1e-6, rng=rng), 1500),
    "laplace": (lambda m, rng: release_laplace(m, epsilon=1.0, rng=rng), 3500),
    "wishart": (lambda m, rng: release_wishart(m, epsilon=3.0, delta=1e-4, rng=rng), 1600),
    "wishart, printed": (lambda m, rng: release_wishart(m, epsilon=0.9, delta=0.01, degrees="printed", rng=rng), 1600),
}


def _moments(p: int, n: int = 400) -> SecondMoments:
    rows = np.random.default_rng(5).uniform(-1, 1, (n, p))
    return moments_of_batch(rows, scaling_for([(-1.0, 1.0)] * p))


def _score(values: np.ndarray, expected: float = 0.0) -> float:
    """Return how many standard errors the mean over repetitions is off."""
    return float((values.mean() - expected) / (values.std(ddof=1) / math.sqrt(len(values))))


@pytest.mark.slow
@pytest.mark.parametrize("name", RELEASES)
def test_noise_has_its_mean_and_covariance(name: str) -> None:
    """Means, variances on and off the diagonal and covariances hold; variances fail at 0.95 and 1.05 of the scale."""
    release, repetitions = RELEASES[name]
    moments, rng = _moments(N_COLUMNS), insecure_keystream(8)
    exact, upper = moments.matrix[:-1, :-1], np.triu_indices(N_COLUMNS, 1)
    noise = []
    for _ in range(repetitions):
        noisy = release(moments, rng)
        noise.append(noisy.matrix[:-1, :-1] - exact)
    diagonal = np.array([np.diag(one) for one in noise])
    beside = np.array([one[upper] for one in noise])
    kinds = [
        (diagonal - noisy.bias, noisy.diagonal_variance),
        (beside, noisy.off_diagonal_variance),
    ]

    for values, variance in kinds:
        assert abs(_score(values.mean(axis=1))) < LIMIT
        squares = (values**2).mean(axis=1)
        assert abs(_score(squares, variance)) < LIMIT
        assert all(abs(_score(squares, factor**2 * variance)) > LIMIT for factor in WRONG)
        assert abs(_score((values[:, 1:] * values[:, :-1]).mean(axis=1))) < LIMIT
    assert abs(_score((kinds[0][0][:, 1:] * beside[:, : N_COLUMNS - 1]).mean(axis=1))) < LIMIT
    if noisy.bias:
        assert all(abs(_score(diagonal.mean(axis=1), factor * noisy.bias)) > LIMIT for factor in WRONG)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gaussian", "laplace", "wishart"])
def test_covariance_in_data_units_is_unbiased(name: str) -> None:
    """Over 400 releases the recovered mean and covariance of off-centre rows average to those of the rows."""
    bounds = [(0.0, 10.0), (-3.0, 1.0), (100.0, 102.0)]
    low, high = np.array(bounds).T
    rows = low + (high - low) * np.random.default_rng(1).beta(5, 1.5, (60, 3))
    moments, rng = moments_of_batch(rows, scaling_for(bounds)), insecure_keystream(3)
    scaling = moments.scaling
    options = {"laplace": {"epsilon": 8.0}, "gaussian": {"mu": 3.0}, "wishart": {"epsilon": 8.0, "delta": 1e-3}}[name]
    release = {"laplace": release_laplace, "gaussian": release_gaussian, "wishart": release_wishart}[name]
    means, covariances, naive = [], [], []
    for _ in range(400):
        noisy = release(moments, **options, rng=rng)
        known = {"n_rows": noisy.n_rows, "bias": noisy.bias}
        place = (noisy.matrix, scaling.centers, scaling.half_widths, scaling.constant)
        mean, covariance, _ = mean_and_covariance(*place, **known, off_diagonal_variance=noisy.off_diagonal_variance)
        means.append(mean / scaling.half_widths)
        covariances.append(covariance / np.outer(scaling.half_widths, scaling.half_widths))
        naive.append(mean_and_covariance(*place, **known)[1] / np.outer(scaling.half_widths, scaling.half_widths))
    unit = np.outer(scaling.half_widths, scaling.half_widths)
    exact = np.cov(rows, rowvar=False, bias=True) / unit

    assert all(abs(_score(np.array(means)[:, j], (rows / scaling.half_widths)[:, j].mean())) < LIMIT for j in range(3))
    assert all(abs(_score(np.array(covariances)[:, i, j], exact[i, j])) < LIMIT for i in range(3) for j in range(3))
    gap = (np.array(covariances) - np.array(naive)).mean(axis=0)
    np.testing.assert_allclose(gap, noisy.off_diagonal_variance / (60 * scaling.constant) ** 2 * np.eye(3), atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("release", [release_eigenvectors, release_kapralov_talwar])
@pytest.mark.parametrize(("form", "variance"), [("tight", 2 * 4.0**2), ("printed", 2 * 4.0**2)])
def test_eigenvalue_noise_has_its_mean_and_variance(
    release: Callable[..., NoisyMoments], form: str, variance: float
) -> None:
    """With a single eigenvalue, the release is it plus Laplace noise of scale 2 / (epsilon / 2) = 4 at epsilon 1."""
    scaling = scaling_for([(-1.0, 1.0)], with_mean=False)
    moments = moments_of_batch(np.full((1000, 1), 0.7), scaling)
    rng = insecure_keystream(4)
    noise = np.array(
        [release(moments, epsilon=1.0, sensitivity=form, rng=rng).matrix[0, 0] for _ in range(60_000)]
    ) - float(moments.matrix[0, 0])

    assert abs(_score(noise)) < LIMIT
    assert abs(_score(noise**2, variance)) < LIMIT
    assert all(abs(_score(noise**2, factor**2 * variance)) > LIMIT for factor in WRONG)


def _log_ratio(hits: int, misses_hits: int) -> tuple[float, float]:
    """Return the logarithm of the ratio of two frequencies over equal numbers of draws, and its standard error."""
    return math.log(hits / misses_hits), math.sqrt(1 / hits + 1 / misses_hits)


def _two_rows(first: list[float], second: list[float]) -> SecondMoments:
    scaling = scaling_for([(-1.0, 1.0)] * 2, radius=1.0, with_mean=False)
    return moments_of_batch(np.array([first, second]), scaling)


@pytest.mark.slow
def test_audit_of_laplace_noise() -> None:
    """At the worst pair of rows the log-likelihood ratio is epsilon and no more; with half the noise it is above it."""
    epsilon, n = 1.0, 4000
    _, vectors = np.linalg.eigh([[1.0, 0.5], [0.5, -1.0]])
    table, neighbour = (_two_rows([0.0, 0.0], list(vectors[:, k])) for k in (1, 0))
    difference = table.matrix - neighbour.matrix
    upper = np.triu_indices(2)
    edge = np.maximum(table.matrix * np.sign(difference), neighbour.matrix * np.sign(difference))[upper]

    def measure(spent: float) -> tuple[float, float]:
        counts = []
        for moments, seed in ((table, 1), (neighbour, 2)):
            rng = insecure_keystream(seed)
            outputs = np.array([release_laplace(moments, epsilon=spent, rng=rng).matrix[upper] for _ in range(n)])
            counts.append(int((outputs * np.sign(difference[upper]) > edge).all(axis=1).sum()))
        return _log_ratio(*counts)

    honest, error = measure(epsilon)
    assert epsilon - 5 * error < honest < epsilon + 5 * error
    faulty, error = measure(2 * epsilon)
    assert faulty - 4 * error > epsilon


@pytest.mark.slow
def test_audit_of_the_sampled_direction() -> None:
    """The share of epsilon that the first vector costs bounds the ratio of directions; twice that is found."""
    epsilon, n = 4.0, 4000
    table, neighbour = _two_rows([1.0, 0.0], [0.0, 1.0]), _two_rows([1.0, 0.0], [1.0, 0.0])

    def measure(spent: float) -> tuple[float, float]:
        counts = []
        for moments, seed in ((table, 1), (neighbour, 2)):
            rng, hits = insecure_keystream(seed), 0
            for _ in range(n):
                values, vectors = np.linalg.eigh(release_eigenvectors(moments, epsilon=spent, rng=rng).matrix)
                hits += bool(values[1] - values[0] > 1e-9 and abs(vectors[1, 1]) > math.cos(math.radians(20)))
            counts.append(hits)
        return _log_ratio(*counts)

    honest, error = measure(epsilon)
    assert 0.5 * epsilon / 2 < honest + 5 * error
    assert honest < epsilon / 2
    faulty, error = measure(2 * epsilon)
    assert faulty - 2 * error > epsilon / 2


@pytest.mark.slow
@pytest.mark.parametrize("release", [release_eigenvectors, release_kapralov_talwar])
def test_audit_of_the_largest_eigenvalue(release: Callable[..., NoisyMoments]) -> None:
    """The chance of a large trace grows by at most e^epsilon from one neighbour to the other."""
    epsilon, n = 1.0, 3000
    rows = np.zeros((50, 2))
    rows[:20, 0] = 1.0
    other = rows.copy()
    other[20, 0] = 1.0
    scaling = scaling_for([(-1.0, 1.0)] * 2, radius=1.0, with_mean=False)

    def measure(spent: float) -> float:
        counts = []
        for table, seed in ((other, 1), (rows, 2)):
            moments, rng = moments_of_batch(table, scaling), insecure_keystream(seed)
            traces = np.array([np.trace(release(moments, epsilon=spent, rng=rng).matrix) for _ in range(n)])
            counts.append(int((traces > 21).sum()))
        return _log_ratio(*counts)[0]

    assert 0 < measure(epsilon) < epsilon
    assert measure(20 * epsilon) > epsilon
