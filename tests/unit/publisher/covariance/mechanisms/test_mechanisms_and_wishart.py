"""Every mechanism's grid, cost, exact entries and refusals; Wishart's curves, degrees of freedom and exact products."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import integrate, stats

from dp_bundle.base.errors import ParameterError, PrivacyError
from dp_bundle.manifest.noise import Neighbours
from dp_publish.accounting.strength import ApproximateDP, GaussianDP, PureDP, Strength
from dp_publish.covariance.exact_moments import ExactMoments, moments_of_batch
from dp_publish.covariance.mechanisms.base import Mechanism
from dp_publish.covariance.mechanisms.eigenvectors import Eigenvectors
from dp_publish.covariance.mechanisms.exact_products import LIMB, gram_of, limbs_of
from dp_publish.covariance.mechanisms.gaussian import Gaussian
from dp_publish.covariance.mechanisms.laplace import Laplace
from dp_publish.covariance.mechanisms.wishart import Wishart, degrees_tight, delta_of_wishart
from dp_publish.covariance.mechanisms.wishart_difference import WishartDifference
from dp_publish.covariance.scaling import frobenius_sensitivity, scaling_for
from dp_publish.sampling.fixed_point import precise_normals
from dp_publish.sampling.gaussian import PLACES, normal_parts
from dp_publish.sampling.keystream import insecure_keystream
from printed_forms import PrintedWishart, degrees_printed, make, release

GUARANTEES: dict[type[Mechanism], Strength] = {
    Gaussian: GaussianDP(1.0),
    Laplace: PureDP(1.0),
    Wishart: ApproximateDP(1.0, 1e-6),
    WishartDifference: PureDP(1.0),
    Eigenvectors: PureDP(1.0),
}
REPLACE_ONE, ADD_REMOVE = Neighbours
V, W = np.eye(3)[:2]


@pytest.fixture
def moments() -> ExactMoments:
    """Return the moments of 500 rows of four columns."""
    rows = np.random.default_rng(4).uniform(-1, 1, (500, 4))
    return moments_of_batch(rows, scaling_for([(-1.0, 1.0)] * 4))


@pytest.mark.parametrize("above", [1 + 1e-9, 1 - 1e-9, 1 + 1e-4])
def test_gaussian_sigma_counts_the_grid_that_is_used(above: float) -> None:
    """Where rounding pushes sigma over a power of two, the step that was counted is the one that is used."""
    columns = 60
    sums = moments_of_batch(np.zeros((3, columns)), scaling_for([(-1.0, 1.0)] * columns))
    sensitivity = frobenius_sensitivity(sums.scaling, Neighbours.REPLACE_ONE)
    for exponent in (6, 9, 12, 15):
        mu = sensitivity / 2.0**exponent * above
        noisy = release(Gaussian, sums, GaussianDP(mu), rng=insecure_keystream(4))
        assert sensitivity + (columns + 1) * noisy.noise.granularity <= mu * noisy.noise.diagonal_sigma


@pytest.mark.parametrize(
    ("kind", "strength"),
    [
        (Gaussian, GaussianDP(float("nan"))),
        (Laplace, PureDP(-1.0)),
        (Eigenvectors, PureDP(float("inf"))),
        (PrintedWishart, ApproximateDP(1.0, 1e-6)),
    ],
)
def test_strengths_out_of_range_are_refused(kind: type[Mechanism], strength: Strength, moments: ExactMoments) -> None:
    """Every strength has a range, and what is outside it is an error of ours, before anything is drawn."""
    with pytest.raises(ParameterError):
        make(kind, moments, strength)


@pytest.mark.parametrize("kind", GUARANTEES)
def test_private_number_of_rows_needs_the_constant(kind: type[Mechanism]) -> None:
    """Without the constant coordinate there is no release for add-remove neighbours."""
    moments = moments_of_batch(np.zeros((3, 2)), scaling_for([(-1.0, 1.0)] * 2, with_mean=False))
    with pytest.raises(PrivacyError, match="number of rows"):
        make(kind, moments, GUARANTEES[kind], "add-remove")


def _log_ratio(noise: np.ndarray, move: np.ndarray, m: int) -> np.ndarray:
    """Return ln p(X | M) - ln p(X | M + move) at X = M + noise; infinite where the neighbour cannot give X."""
    shifted = noise - move
    possible = np.linalg.eigvalsh(shifted)[:, 0] > 0
    first, second = np.linalg.slogdet(noise)[1], np.linalg.slogdet(np.where(possible[:, None, None], shifted, noise))[1]
    power = (m - len(move) - 1) / 2
    return np.where(possible, power * (first - second) - np.trace(move) / 2, np.inf)


@pytest.mark.slow
@pytest.mark.parametrize(("m", "epsilon"), [(12, 0.2), pytest.param(40, 1.0, marks=pytest.mark.long)])
def test_curve_is_the_matrix_densities(m: int, epsilon: float) -> None:
    """For one row more or less, delta from the Wishart densities by simulation is the curve; for two, at most it."""
    noise = stats.wishart(m, np.eye(3)).rvs(40_000, random_state=m)

    def delta(move: np.ndarray, noise: np.ndarray = noise) -> tuple[float, float]:
        gains = np.maximum(-np.expm1(epsilon - _log_ratio(noise, move, m)), 0.0)
        return float(gains.mean()), float(gains.std() / math.sqrt(len(gains))) + 1e-12

    removed, added = delta(np.outer(V, V)), delta(-np.outer(V, V))
    larger = max(removed, added)
    assert larger[0] == pytest.approx(delta_of_wishart(m - 2, epsilon, ADD_REMOVE), abs=5 * larger[1])
    for w in (W, -V + W, 0.5 * W, 0.0 * W):
        other = w / max(1.0, float(np.linalg.norm(w)))
        replaced = delta(np.outer(V, V) - np.outer(other, other))
        assert replaced[0] <= delta_of_wishart(m - 2, epsilon, REPLACE_ONE) + 5 * replaced[1]


@pytest.mark.parametrize(("nu", "epsilon"), [(3, 0.0), (10, 0.3), (200, 2.0)])
def test_closed_form_is_the_integral(nu: int, epsilon: float) -> None:
    """Both closed forms agree with numerical integration of the chi-squared densities."""
    law = stats.chi2(nu)

    q = np.linspace(0, nu + 20 * math.sqrt(2 * nu) + 40, 400_001)

    def hockey_stick(first: float, second: float) -> float:
        gain = law.pdf(q - first) - math.exp(epsilon) * law.pdf(q - second)
        return float(integrate.trapezoid(np.maximum(gain, 0.0), q))

    both = hockey_stick(0.0, 1.0), hockey_stick(1.0, 0.0)
    assert delta_of_wishart(nu, epsilon, ADD_REMOVE) == pytest.approx(max(both), rel=1e-4, abs=1e-9)


@pytest.mark.parametrize("neighbours", Neighbours)
@pytest.mark.parametrize("epsilon", [0.05, 0.5, 3.0])
def test_degrees_are_the_fewest_that_hold(epsilon: float, neighbours: Neighbours) -> None:
    """One degree less breaks the guarantee, and Sheffet's number, where it is stated, is several times as large."""
    m = degrees_tight(10, epsilon, 1e-6, neighbours)

    assert delta_of_wishart(m - 9, epsilon, neighbours) <= 1e-6
    assert m == 12 or delta_of_wishart(m - 10, epsilon, neighbours) > 1e-6
    if epsilon < 1:
        assert degrees_printed(10, epsilon, 1e-6) - 10 > 5 * (m - 10)


def test_chance_of_an_impossible_output_is_in_delta() -> None:
    """No epsilon takes delta below the chance that the noise is smaller than a row."""
    assert delta_of_wishart(6, 60.0, ADD_REMOVE) == pytest.approx(float(stats.chi2(6).cdf(1)), rel=1e-6)


def test_products_are_exact() -> None:
    """The release equals the exact rational sum, rounded to the grid, of the same normal numbers."""
    moments = moments_of_batch(np.random.default_rng(0).uniform(-1, 1, (50, 2)), scaling_for([(-1.0, 1.0)] * 2))
    noisy = release(Wishart, moments, ApproximateDP(1.0, 1e-5), rng=insecure_keystream(9))
    m = int(noisy.noise.degrees_of_freedom)
    cell, inner = normal_parts((m, 3), insecure_keystream(9))
    exact = (cell.astype(object) << (PLACES - 29)) + inner.astype(object)
    product = (exact.T @ exact)[0, 1] / 4**PLACES * moments.scaling.square + moments.matrix[0, 1]

    assert noisy.matrix[0, 1] == pytest.approx(product, abs=0.5000001 * noisy.noise.granularity)
    assert noisy.noise.bias == m * moments.scaling.square


def test_guarantee_that_cannot_be_confirmed_is_refused() -> None:
    """A delta so small that the rounding of normal numbers would count is refused."""
    moments = moments_of_batch(np.zeros((5, 2)), scaling_for([(-1.0, 1.0)] * 2))
    with pytest.raises(PrivacyError, match="not known to give"):
        release(Wishart, moments, ApproximateDP(1.0, 1e-13))


def test_noise_is_exact() -> None:
    """The release equals the exact rational sum, rounded to the grid, of the same normal numbers."""
    rows = np.random.default_rng(0).uniform(-1, 1, (50, 2))
    moments = moments_of_batch(rows, scaling_for([(-1.0, 1.0)] * 2))
    mechanism = make(WishartDifference, moments, PureDP(3.0))
    noisy = mechanism.draw(moments, insecure_keystream(9))

    rng, places = insecure_keystream(9), mechanism.places
    g, h = (np.array(precise_normals(12, places, rng), dtype=object).reshape(4, 3) for _ in range(2))
    scale, step = Fraction(noisy.noise.parameters["scale"]), Fraction(noisy.noise.granularity)
    for i, j in ((0, 0), (0, 1), (1, 1), (0, 2)):
        product = Fraction(int((g.T @ g - h.T @ h)[i, j]), 4 ** (places + 1)) * scale
        exact = product + Fraction(int(moments.steps[i, j]), 4**20)
        assert Fraction(float(noisy.matrix[i, j])) == math.floor(exact / step + Fraction(1, 2)) * step


def test_limbs_give_the_products_of_integers() -> None:
    """Sums of products of integers of 200 bits, with both signs, are those of Python."""
    rng = np.random.default_rng(3)
    numbers = np.array([int(a) << 150 | int(b) << 70 | int(c) for a, b, c in rng.integers(0, 2**49, (60, 3))])
    numbers = (numbers * rng.choice([-1, 1], 60).astype(object)).reshape(20, 3)
    for bits in (200, 204, 221):
        limbs = limbs_of(numbers, bits)
        assert (gram_of(limbs, range(0, LIMB * len(limbs), LIMB)) == numbers.T @ numbers).all()


@pytest.mark.parametrize("p", [1, 13, 8191])
@pytest.mark.parametrize(("epsilon", "max_rows"), [(1e-4, 1), (3.0, 20), (700.0, 1)])
def test_places_make_the_exception_as_small_as_stated(p: int, epsilon: float, max_rows: int) -> None:
    """The chances of what goes wrong add up to less than 2^-40 / (1 + e^(2 epsilon)), whatever the numbers are."""
    mechanism = WishartDifference(scaling_for([(-1.0, 1.0)] * p), REPLACE_ONE, PureDP(epsilon), max_rows)
    m, d, places = mechanism.degrees, p + 1, mechanism.places
    allowed = -40 - (2 * epsilon + math.log1p(math.exp(-2 * epsilon))) / math.log(2)  # log2 of it
    normals = math.log2(2 * m * d) + 16 - places
    r = math.sqrt(2 * math.log(2) * (-allowed + d.bit_length() + 5))
    columns = math.log2(2 * d) - r * r / 2 / math.log(2)
    size = 2 * math.sqrt(m) * (math.sqrt(m) + r + 1)
    rounding = math.log2(d * (d + 1) / 2 * 4 * 512 * size) - places

    assert sum(2.0 ** (chance - allowed) for chance in (normals, columns, rounding)) <= 1
    assert mechanism.spends(max_rows).excepted_delta == 2.0**-40


def test_scale_of_a_difference_is_half_of_what_a_row_moves_over_its_epsilon() -> None:
    """An entity's rows share epsilon."""
    for max_rows in (1, 3):
        mechanism = WishartDifference(scaling_for([(-1.0, 1.0)] * 2), REPLACE_ONE, PureDP(3.0), max_rows)
        assert mechanism.scale == pytest.approx(max_rows * mechanism.sensitivity / 6)
