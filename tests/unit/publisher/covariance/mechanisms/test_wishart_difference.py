"""The difference of two Wishart matrices: its density changes as proved, and what is released is exact to the grid."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from dp_bundle.privacy.neighbours import Neighbours
from dp_publish.accounting.strength import PureDP
from dp_publish.covariance.exact_moments import moments_of_batch
from dp_publish.covariance.mechanisms.exact_products import LIMB, gram_of, limbs_of
from dp_publish.covariance.mechanisms.wishart_difference import WishartDifference
from dp_publish.covariance.scaling import Scaling, scaling_for
from dp_publish.sampling.fixed_point import precise_normals
from dp_publish.sampling.keystream import insecure_keystream
from printed_forms import make

REPLACE_ONE, ADD_REMOVE = Neighbours


def _scaling(p: int, *, with_mean: bool = True) -> Scaling:
    return scaling_for([(-1.0, 1.0)] * p, with_mean=with_mean)


def _log_density(wishart: np.ndarray, at: np.ndarray) -> tuple[float, float]:
    """Return the log density of A - B at a matrix, from draws of A, up to a constant; with its standard error."""
    rest = wishart - at
    possible = (rest[:, 0, 0] > 0) & (rest[:, 0, 0] * rest[:, 1, 1] > rest[:, 0, 1] ** 2)  # positive definite
    weights = np.where(possible, np.exp(-np.trace(rest, axis1=1, axis2=2) / 2), 0.0)
    return math.log(weights.mean()), float(weights.std() / weights.mean() / math.sqrt(len(weights)))


@pytest.mark.slow
@pytest.mark.parametrize(
    "eigenvalues", [(1.0, -1.0), *(pytest.param(each, marks=pytest.mark.long) for each in ((1.0, 0.0), (0.5, 1.5)))]
)
def test_density_changes_by_half_the_nuclear_norm(eigenvalues: tuple[float, float]) -> None:
    """By simulation of A the log density never falls by more, whatever the place; far out it falls by nearly that."""
    wishart = stats.wishart(3, np.eye(2)).rvs(400_000, random_state=2)
    move = np.diag(eigenvalues)
    most = float(np.abs(eigenvalues).sum()) / 2
    rng = np.random.default_rng(1)
    for place in [np.zeros((2, 2)), *(rng.normal(size=(20, 2, 2)) * 1.5)]:
        symmetric = place + place.T
        (one, error), (other, more) = _log_density(wishart, symmetric), _log_density(wishart, symmetric + move)
        assert one - other <= most + 5 * (error + more)

    (near, error), (far, more) = (_log_density(wishart, times * move) for times in (4, 8))
    assert 0.7 * 4 * most - 5 * (error + more) < near - far <= 4 * most + 5 * (error + more)


def test_fewer_degrees_of_freedom_have_no_epsilon() -> None:
    """With two degrees of freedom in two coordinates a small A + P may be far less likely than A: no bound holds."""
    a, p = np.diag([1.0, 1e-9]), np.diag([0.0, 1.0])
    fewer, enough = (stats.wishart(m, np.eye(2)) for m in (2, 3))
    assert fewer.logpdf(a) - fewer.logpdf(a + p) > 10
    assert enough.logpdf(a) - enough.logpdf(a + p) == pytest.approx(0.5)


def test_noise_is_exact() -> None:
    """The release equals the exact rational sum, rounded to the grid, of the same normal numbers."""
    rows = np.random.default_rng(0).uniform(-1, 1, (50, 2))
    moments = moments_of_batch(rows, _scaling(2))
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
    mechanism = WishartDifference(_scaling(p), REPLACE_ONE, PureDP(epsilon), max_rows)
    m, d, places = mechanism.degrees, p + 1, mechanism.places
    allowed = -40 - (2 * epsilon + math.log1p(math.exp(-2 * epsilon))) / math.log(2)  # log2 of it
    normals = math.log2(2 * m * d) + 16 - places
    r = math.sqrt(2 * math.log(2) * (-allowed + d.bit_length() + 5))
    columns = math.log2(2 * d) - r * r / 2 / math.log(2)
    size = 2 * math.sqrt(m) * (math.sqrt(m) + r + 1)
    rounding = math.log2(d * (d + 1) / 2 * 4 * 512 * size) - places

    assert sum(2.0 ** (chance - allowed) for chance in (normals, columns, rounding)) <= 1
    assert mechanism.spends(max_rows).excepted_delta == 2.0**-40
