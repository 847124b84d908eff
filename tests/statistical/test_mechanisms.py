"""The noise of every covariance mechanism has the stated mean and covariance, and fails at 0.95 and 1.05 of its scale.

And audits: what a reader sees tells two neighbouring tables apart by no more than epsilon; half the noise is found.
"""

import math

import numpy as np
import pytest

from dp_bundle.data.recovery import mean_and_covariance
from dp_publish.accounting.strength import ApproximateDP, GaussianDP, PureDP, Strength
from dp_publish.covariance.exact_moments import ExactMoments, moments_of_batch
from dp_publish.covariance.mechanisms.base import Mechanism
from dp_publish.covariance.mechanisms.eigenvectors import Eigenvectors
from dp_publish.covariance.mechanisms.gaussian import Gaussian
from dp_publish.covariance.mechanisms.kapralov_talwar import KapralovTalwar
from dp_publish.covariance.mechanisms.laplace import Laplace
from dp_publish.covariance.mechanisms.sulq import Sulq
from dp_publish.covariance.mechanisms.wishart import Wishart
from dp_publish.covariance.mechanisms.wishart_difference import WishartDifference
from dp_publish.covariance.scaling import scaling_for
from dp_publish.sampling.keystream import insecure_keystream
from printed_forms import PrintedEigenvectors, PrintedKapralovTalwar, PrintedWishart, make, release

WRONG = [0.95, 1.05]
LIMIT = 4.9  # standard errors: a false alarm once in a million
N_COLUMNS = 12

RELEASES: dict[str, tuple[type[Mechanism], Strength, str, int]] = {
    "gaussian": (Gaussian, GaussianDP(1.0), "replace-one", 1500),
    "gaussian, one more row": (Gaussian, GaussianDP(1.0), "add-remove", 1500),
    "sulq": (Sulq, ApproximateDP(1.0, 1e-6), "replace-one", 1500),
    "laplace": (Laplace, PureDP(1.0), "replace-one", 3500),
    "wishart": (Wishart, ApproximateDP(3.0, 1e-4), "replace-one", 1600),
    "wishart difference": (WishartDifference, PureDP(3.0), "replace-one", 3500),
    "wishart difference, one more row": (WishartDifference, PureDP(3.0), "add-remove", 3500),
    "wishart, printed": (PrintedWishart, ApproximateDP(0.9, 0.01), "replace-one", 1600),
}
DEAR = {"wishart difference, one more row"}  # beside the one with rows replaced


def _moments(p: int, n: int = 400) -> ExactMoments:
    rows = np.random.default_rng(5).uniform(-1, 1, (n, p))
    return moments_of_batch(rows, scaling_for([(-1.0, 1.0)] * p))


def _score(values: np.ndarray, expected: float = 0.0) -> float:
    """Return how many standard errors the mean over repetitions is off."""
    return float((values.mean() - expected) / (values.std(ddof=1) / math.sqrt(len(values))))


@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.long] * (name in DEAR)) for name in RELEASES])
def test_noise_has_its_mean_and_covariance(name: str) -> None:
    """Means, variances on and off the diagonal and covariances hold; variances fail at 0.95 and 1.05 of the scale."""
    kind, strength, neighbours, repetitions = RELEASES[name]
    moments, rng = _moments(N_COLUMNS), insecure_keystream(8)
    mechanism = make(kind, moments, strength, neighbours)
    exact, upper = moments.matrix[:-1, :-1], np.triu_indices(N_COLUMNS, 1)
    noise = []
    for _ in range(repetitions):
        noisy = mechanism.draw(moments, rng)
        noise.append(noisy.matrix[:-1, :-1] - exact)
    diagonal = np.array([np.diag(one) for one in noise])
    beside = np.array([one[upper] for one in noise])
    kinds = [(diagonal - noisy.noise.bias, noisy.noise.diagonal_variance), (beside, noisy.noise.off_diagonal_variance)]

    for values, variance in kinds:
        assert abs(_score(values.mean(axis=1))) < LIMIT
        squares = (values**2).mean(axis=1)
        assert abs(_score(squares, variance)) < LIMIT
        assert all(abs(_score(squares, factor**2 * variance)) > LIMIT for factor in WRONG)
        assert abs(_score((values[:, 1:] * values[:, :-1]).mean(axis=1))) < LIMIT
    assert abs(_score((kinds[0][0][:, 1:] * beside[:, : N_COLUMNS - 1]).mean(axis=1))) < LIMIT
    if noisy.noise.bias:
        assert all(abs(_score(diagonal.mean(axis=1), factor * noisy.noise.bias)) > LIMIT for factor in WRONG)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Gaussian, Laplace, Wishart, WishartDifference])
def test_covariance_in_data_units_is_unbiased(kind: type[Mechanism]) -> None:
    """Over 400 releases the recovered mean and covariance of off-centre rows average to those of the rows."""
    bounds = [(0.0, 10.0), (-3.0, 1.0), (100.0, 102.0)]
    low, high = np.array(bounds).T
    rows = low + (high - low) * np.random.default_rng(1).beta(5, 1.5, (60, 3))
    moments, rng = moments_of_batch(rows, scaling_for(bounds)), insecure_keystream(3)
    scaling = moments.scaling
    strengths = {
        Laplace: PureDP(8.0),
        Gaussian: GaussianDP(3.0),
        Wishart: ApproximateDP(8.0, 1e-3),
        WishartDifference: PureDP(8.0),
    }
    mechanism = make(kind, moments, strengths[kind])
    means, covariances, naive = [], [], []
    for _ in range(400):
        noisy = mechanism.draw(moments, rng)
        known = {"n_rows": noisy.n_rows, "bias": noisy.noise.bias}
        place = (noisy.matrix, scaling.centers, scaling.half_widths, scaling.constant)
        mean, covariance, _ = mean_and_covariance(
            *place, **known, off_diagonal_variance=noisy.noise.off_diagonal_variance
        )
        means.append(mean / scaling.half_widths)
        covariances.append(covariance / np.outer(scaling.half_widths, scaling.half_widths))
        naive.append(mean_and_covariance(*place, **known)[1] / np.outer(scaling.half_widths, scaling.half_widths))
    unit = np.outer(scaling.half_widths, scaling.half_widths)
    exact = np.cov(rows, rowvar=False, bias=True) / unit

    assert all(abs(_score(np.array(means)[:, j], (rows / scaling.half_widths)[:, j].mean())) < LIMIT for j in range(3))
    assert all(abs(_score(np.array(covariances)[:, i, j], exact[i, j])) < LIMIT for i in range(3) for j in range(3))
    gap = (np.array(covariances) - np.array(naive)).mean(axis=0)
    np.testing.assert_allclose(
        gap, noisy.noise.off_diagonal_variance / (60 * scaling.constant) ** 2 * np.eye(3), atol=1e-12
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [
        Eigenvectors,
        KapralovTalwar,
        *(pytest.param(kind, marks=pytest.mark.long) for kind in (PrintedEigenvectors, PrintedKapralovTalwar)),
    ],
)
def test_eigenvalue_noise_has_its_mean_and_variance(kind: type[Mechanism]) -> None:
    """With a single eigenvalue, the release is it plus Laplace noise of scale 2 / (epsilon / 2) = 4 at epsilon 1."""
    variance = 2 * 4.0**2
    scaling = scaling_for([(-1.0, 1.0)], with_mean=False)
    moments = moments_of_batch(np.full((1000, 1), 0.7), scaling)
    rng = insecure_keystream(4)
    mechanism = make(kind, moments, PureDP(1.0))
    noise = np.array([mechanism.draw(moments, rng).matrix[0, 0] for _ in range(36_000)]) - float(moments.matrix[0, 0])

    assert abs(_score(noise)) < LIMIT
    assert abs(_score(noise**2, variance)) < LIMIT
    assert all(abs(_score(noise**2, factor**2 * variance)) > LIMIT for factor in WRONG)


def _log_ratio(hits: int, misses_hits: int) -> tuple[float, float]:
    """Return the logarithm of the ratio of two frequencies over equal numbers of draws, and its standard error."""
    return math.log(hits / misses_hits), math.sqrt(1 / hits + 1 / misses_hits)


def _two_rows(first: list[float], second: list[float]) -> ExactMoments:
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
            outputs = np.array([release(Laplace, moments, PureDP(spent), rng=rng).matrix[upper] for _ in range(n)])
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
                values, vectors = np.linalg.eigh(release(Eigenvectors, moments, PureDP(spent), rng=rng).matrix)
                hits += bool(values[1] - values[0] > 1e-9 and abs(vectors[1, 1]) > math.cos(math.radians(20)))
            counts.append(hits)
        return _log_ratio(*counts)

    honest, error = measure(epsilon)
    assert 0.5 * epsilon / 2 < honest + 5 * error
    assert honest < epsilon / 2
    faulty, error = measure(2 * epsilon)
    assert faulty - 2 * error > epsilon / 2


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Eigenvectors, pytest.param(KapralovTalwar, marks=pytest.mark.long)])
def test_audit_of_the_largest_eigenvalue(kind: type[Mechanism]) -> None:
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
            traces = np.array([np.trace(release(kind, moments, PureDP(spent), rng=rng).matrix) for _ in range(n)])
            counts.append(int((traces > 21).sum()))
        return _log_ratio(*counts)[0]

    assert 0 < measure(epsilon) < epsilon
    assert measure(20 * epsilon) > epsilon
