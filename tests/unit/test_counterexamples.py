"""Statements of the papers that do not hold: each counterexample, and what holds instead, by other computations."""

import math

import numpy as np
import pytest
from scipy import integrate, stats

from dp_learn import graphical_lasso
from reproduction.amin import statements as amin
from reproduction.guo import statements as guo
from reproduction.su import statements as su
from reproduction.su.models import printed_sigma
from reproduction.wang18 import statements as wang18


def test_guo_theorem_4_1_is_false_of_the_covariance() -> None:
    """The exact errors of one test prove twice the mu that is stated."""
    found = guo.theorem_4_1()

    assert found["stated"] == pytest.approx(1.216, abs=0.001)
    assert found["found"] > 2.1 * found["stated"]


def test_the_law_of_a_sum_of_products_is_what_draws_show() -> None:
    """The chance below a limit, from the characteristic function, is the share of draws that are."""
    rng = np.random.default_rng(3)
    a, b = rng.normal(size=8), rng.normal(size=8)
    draws = np.sum((a + 0.5 * rng.normal(size=(100_000, 8))) * (b + 2.0 * rng.normal(size=(100_000, 8))), axis=1)

    for limit in (-5.0, 0.0, 8.0):
        assert guo.chance_below(limit, a, b, 0.5, 2.0) == pytest.approx(np.mean(draws < limit), abs=0.007)


def test_guo_lemma_4_fails_off_the_lattice() -> None:
    """A shift by half a step tells everything; one by whole steps no more than the lemma allows."""
    assert guo.lemma_4(0.5)["found"] == 1.0 > guo.lemma_4(0.5)["stated"]
    for shift in (1.0, 3.0, 20.0):
        assert guo.lemma_4(shift)["found"] <= guo.lemma_4(shift)["stated"]


def test_guo_propositions_2_and_3_are_false_as_printed() -> None:
    """Sums of discrete Gaussians are none, and their tails are ordered the other way round."""
    assert guo.proposition_2(0.5)["found"] == pytest.approx(0.080, abs=0.001)
    assert guo.proposition_2(2.0)["found"] < 1e-12
    for sigma in (0.5, 1.0, 3.0):
        discrete = np.cumsum(guo.discrete_gaussian(sigma))[400 - 10 : 400 + 11]
        places = np.arange(-10.0, 11.0)
        inside = np.abs(places) <= 5 * sigma  # further out both are 0 or 1 to all digits
        assert (stats.norm.cdf(places / sigma) < discrete)[inside].all()
        assert (discrete <= stats.norm.cdf((places + 1.0) / sigma) + 1e-15)[inside].all()


def test_guo_corollary_1_is_false_of_a_sample() -> None:
    """The noisy problem of two rows has another solution than the clean one, by the solver too."""
    found = guo.corollary_1(0.1)
    noisy = (1.5**2 + 1.0) / 2.0 - 0.25
    solutions = [graphical_lasso(np.diag([s, 1.0]), 0.1).precision[0, 0] for s in (1.0, noisy)]

    assert solutions == pytest.approx([found["stated"], found["found"]], rel=1e-5)
    assert found["stated"] > 1.3 * found["found"]


def test_wang18_lemma_5_needs_a_semidefinite_matrix() -> None:
    """An indefinite matrix has a solution above beta; d / (rho - m), and alpha below, hold for any matrix."""
    found = wang18.lemma_5(wang18.INDEFINITE, 1.0)
    assert found["found"] == pytest.approx(2.0, rel=1e-6)
    assert found["stated"] == pytest.approx(11 / 6)

    rng = np.random.default_rng(5)
    for _ in range(20):
        noise = rng.normal(scale=0.3, size=(5, 5))
        sample = np.diag(rng.uniform(-0.3, 1.0, 5)) + np.triu(noise) + np.triu(noise, 1).T
        each = wang18.lemma_5(sample, 1.05 - float(np.linalg.eigvalsh(sample)[0]))
        assert each["lower"] <= each["least"] * (1 + 1e-6)
        assert each["found"] <= each["right"] * (1 + 1e-6)


def test_wang18_theorem_6_understates_delta() -> None:
    """With rows replaced, the printed noise has a delta above 1e-4 from epsilon 0.73 on, by quadrature too."""
    claimed = {0.5: 6.2e-5, 1.0: 1.57e-4, 1.5: 2.99e-4}
    for epsilon, delta in claimed.items():
        assert wang18.delta_of(epsilon, 1e-4) == pytest.approx(delta, rel=0.01)
        mu = math.sqrt(2) * epsilon / math.sqrt(2 * math.log(1.25e4))
        first, second = stats.norm(mu, 1), stats.norm(0, 1)
        x = np.linspace(-10.0, 12.0, 200_001)
        area = np.maximum(first.pdf(x) - math.exp(epsilon) * second.pdf(x), 0.0).sum() * (x[1] - x[0])
        assert area == pytest.approx(wang18.delta_of(epsilon, 1e-4), rel=1e-3)
    assert wang18.largest_epsilon(1e-4) == pytest.approx(0.7256, abs=1e-3)


@pytest.mark.parametrize("mechanism", ["output", "covariance"])
def test_wang18_wishart_outputs_tell_the_table(mechanism: str) -> None:
    """An output of positive density is impossible for the neighbour, whose noise would need a negative eigenvalue."""
    assert wang18.least_eigenvalue_of_neighbour(mechanism) < -0.4


def test_su_theorem_3_1_holds_beyond_its_proof_but_not_for_ever() -> None:
    """By the exact curve the printed calibration holds up to epsilon 6.8 for 100 rows, and is false at 7."""
    for epsilon in np.arange(0.1, 6.7, 0.1):
        assert wang18.delta_of(float(epsilon), 0.01, 1.0) <= 0.01
    assert wang18.delta_of(7.0, 0.01, 1.0) > 0.01


def _mean_squared_error(n_rows: int, penalty: float) -> float:
    """Return algorithm 1's for a column of plus and minus 1, by quadrature."""
    sigma = printed_sigma(n_rows, 1.0, 1.0 / n_rows)

    def loss(z: float) -> float:
        s = 1.0 + sigma * z
        estimate = (math.sqrt(s * s + 8 * penalty) - s) / (4 * penalty)
        return float((estimate - 1.0) ** 2 * stats.norm.pdf(z))

    return float(integrate.quad(loss, -37, 10, limit=500)[0])


def test_su_theorem_4_1_needs_a_rate() -> None:
    """With lambda = exp(-n^2) the error grows without bound, and with 1/n it falls."""
    powers = [su.least_squared_error(n) for n in su.CONSISTENCY_ROWS]
    assert powers[0] > 30_000
    assert np.all(np.diff(powers) > 0)

    assert su.least_squared_error(5) <= math.log10(_mean_squared_error(5, math.exp(-25.0)))
    errors = [_mean_squared_error(n, 1.0 / n) for n in (100, 400, 1600)]
    assert errors[0] > 4 * errors[1] > 16 * errors[2]


def test_su_theorem_4_4_needs_the_diagonal() -> None:
    """For the identity the bound is 0 and the error grows; with p + s their ratio stays within a factor of two."""
    rng = np.random.default_rng(1)
    found = [su.theorem_4_4(p, rng) for p in su.COLUMNS]
    ratios = [each["found"] / each["right"] for each in found]

    assert np.all(np.diff([each["found"] for each in found]) > 0.1)
    assert max(ratios) < 2 * min(ratios)


def test_amin_rank_k_holds_of_the_excess_alone() -> None:
    """Near a tie the distance from the best approximation grows like the eigenvalue, the bound like its root."""
    rng = np.random.default_rng(2)
    angles = rng.uniform(0, 2 * math.pi, 20_000)  # proposals; the density is at most exp(1 / 4)
    kept = angles[rng.random(20_000) < np.exp(0.25 * (np.cos(angles) ** 2 - 1))]
    vectors = np.array([np.cos(kept), np.sin(kept)]).T
    drawn = 101.0 * vectors[:, :, None] * vectors[:, None, :]
    distances = np.linalg.norm(np.diag([101.0, 0.0]) - drawn, axis=(1, 2))

    assert amin.rank_1(100.0)["found"] == pytest.approx(np.mean(distances), abs=1.2)
    assert amin.rank_1(1e6)["found"] > 600 * amin.rank_1(1e6)["stated"]
    assert 0 < amin.rank_1(1e6)["excess"] < 1


def test_amin_corollary_2_needs_a_smaller_zeta_and_a_larger_constant() -> None:
    """A table of zeros has an error, and 6 bounds by 1 what 2 does not."""
    noise = np.linalg.norm(np.random.default_rng(4).laplace(scale=4.0, size=(50_000, 5)), axis=1)
    assert amin.zero_table(5)["found"] == pytest.approx(math.sqrt(np.mean(noise**2)), rel=0.02)

    assert amin.first_term(2, 10, 1.0, 1.0) > 1.3
    for d in (1, 3, 10, 1000):
        for epsilon in (0.01, 0.3, 1.0, 3.0):
            for zeta in np.geomspace(1e-3, 0.999 * min(d / epsilon, epsilon**-2), 20):
                assert amin.first_term(6, d, epsilon, float(zeta)) <= 1.0
