"""The Bingham sampler has its law, and the eigenvector mechanisms pass it what their guarantee says."""

import math

import numpy as np
import pytest
from scipy import optimize

from dp_bundle.base.errors import PrivacyError
from dp_publish.accounting.strength import PureDP
from dp_publish.covariance.exact_moments import ExactMoments, moments_of_batch
from dp_publish.covariance.mechanisms import spectral
from dp_publish.covariance.mechanisms.base import Mechanism
from dp_publish.covariance.mechanisms.eigenvectors import Eigenvectors
from dp_publish.covariance.scaling import scaling_for
from dp_publish.sampling import bingham
from dp_publish.sampling.bingham import envelope_parameter, sample_bingham
from dp_publish.sampling.keystream import Keystream, insecure_keystream
from printed_forms import UniformEigenvectors, make, release


@pytest.mark.parametrize("d", [2, 5, 60])
def test_envelope_solves_its_equation(d: int) -> None:
    """The sum of 1 / (b + 2 a_i) is 1, b lies in [1, d], and the ratio is nowhere above its stated maximum."""
    for spread in (0.0, 1e-3, 1.0, 1e6):
        a = spread * np.arange(d, dtype=float) ** 2
        b = envelope_parameter(a)
        found = optimize.brentq(lambda b, a=a: np.sum(1 / (b + 2 * a)) - 1, 0.5, d + 1)
        assert b == pytest.approx(found, rel=1e-9)
        w = np.linspace(0, 5 * d, 10_001)
        ratio = 0.5 * d * np.log1p(2 * w / b) - w
        assert ratio.max() <= 0.5 * d * math.log(d / b) - 0.5 * (d - b) + 1e-9


def test_bound_on_work_ends_in_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sampler that may not try enough gives nothing out."""
    monkeypatch.setattr(bingham, "_MOST_PROPOSALS", 0)
    with pytest.raises(PrivacyError, match="bound on work"):
        sample_bingham(np.array([0.0, 1.0]), insecure_keystream(0))


@pytest.fixture
def moments() -> ExactMoments:
    """Return the moments of 2000 rows of five columns."""
    rows = np.random.default_rng(4).uniform(-1, 1, (2000, 5)) * [1, 0.8, 0.6, 0.4, 0.2]
    return moments_of_batch(rows, scaling_for([(-1.0, 1.0)] * 5))


@pytest.mark.parametrize(("neighbours", "exponent", "moved"), [("replace-one", 0.5, 2.0), ("add-remove", 1.0, 1.0)])
@pytest.mark.parametrize("kind", [Eigenvectors, UniformEigenvectors])
def test_budget_is_spent_once(
    neighbours: str,
    exponent: float,
    moved: float,
    kind: type[Mechanism],
    moments: ExactMoments,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Eigenvalue noise takes half of epsilon; the vectors' shares add up to the other half, the last one's is zero."""
    epsilon, scales, kappas = 3.0, [], [0.0]  # the last vector's is 0, and it is not drawn
    moved *= moments.scaling.square

    def laplace(scale: float, size: int, rng: Keystream, *, bits: int) -> np.ndarray:
        scales.append(scale)
        return np.zeros(size, dtype=np.int64)

    def sample(matrix: np.ndarray, exponent: int, security: int, rng: Keystream) -> list[int]:
        left = np.linalg.eigvalsh(moments.matrix / moments.scaling.square)[: len(matrix)]
        weights, vectors = np.linalg.eigh((matrix / (1 << exponent)).astype(float))
        kappas.append(weights.max() / left.max())
        return [round(part * 2**48) for part in vectors[:, -1]]  # the eigenvector of the largest eigenvalue left

    monkeypatch.setattr(spectral, "sample_discrete_laplace", laplace)
    monkeypatch.setattr(spectral, "draw_direction", sample)
    noisy = release(kind, moments, PureDP(epsilon), neighbours=neighbours)

    step = math.ldexp(1.0, math.frexp(2 * moved / epsilon)[1] - 29)
    assert scales[0] * step == pytest.approx(moved / (epsilon / 2), rel=1e-3)
    assert scales[0] * step > moved / (epsilon / 2)
    assert sum(kappas) == pytest.approx(exponent * epsilon / 2, rel=1e-6)
    assert sum(kappas) < exponent * epsilon / 2
    assert len(kappas) == len(noisy.matrix)
    if neighbours == "add-remove":  # where the constant's own entry is not replaced
        assert np.trace(noisy.matrix) == pytest.approx(np.trace(moments.matrix), rel=1e-5)


def test_eigenvalues_stay_within_what_rows_allow(moments: ExactMoments) -> None:
    """At a tiny epsilon the release without its exact entry is still positive semidefinite, with a trace of n N^2.

    It is so but for the rounding to its grid, of half a step an entry.
    """
    flat = moments_of_batch(np.zeros((50, 4)), scaling_for([(-1.0, 1.0)] * 4, with_mean=False))
    for seed in range(50):
        noisy = release(Eigenvectors, flat, PureDP(0.01), rng=insecure_keystream(seed))
        eigenvalues = np.linalg.eigvalsh(noisy.matrix)
        assert eigenvalues.min() > -4 * noisy.noise.granularity / 2 - 1e-9
        assert eigenvalues.sum() <= 50 * flat.scaling.square * (1 + 1e-9) + 4 * noisy.noise.granularity / 2


def test_expected_error_is_a_bound_for_evenly_spread_values() -> None:
    """Fifteen releases of 300 rows have a root mean square error below it, and above a third of it."""
    scaling = scaling_for([(-1.0, 1.0)] * 3)
    moments = moments_of_batch(np.random.default_rng(0).uniform(-1, 1, (300, 3)), scaling)
    mechanism, squares = make(Eigenvectors, moments, PureDP(2.0)), []
    for seed in range(15):
        error = mechanism.insecure_draw(moments, insecure_keystream(seed)).matrix - moments.matrix
        error[-1, -1] = 0.0
        squares.append((np.linalg.norm(error) / 300 / scaling.square) ** 2)
    bound = mechanism.expected_error(300)
    assert bound / 3 < math.sqrt(np.mean(squares)) < bound


def test_a_table_without_rows_has_a_matrix_of_noise() -> None:
    """Where the public number of rows is zero, no eigenvalue may be positive, and the matrix is zero."""
    scaling = scaling_for([(-1.0, 1.0)] * 3, with_mean=False)
    moments = moments_of_batch(np.zeros((0, 3)), scaling)
    released = release(Eigenvectors, moments, PureDP(1.0), rng=insecure_keystream(5))
    assert not released.matrix.any()
