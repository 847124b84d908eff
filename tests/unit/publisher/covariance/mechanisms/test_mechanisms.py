"""What every mechanism states about its release: grid, cost, exact entries; and what it refuses."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from dp_bundle.errors import ParameterError, PrivacyError
from dp_bundle.privacy import mu_implied_by_epsilon
from dp_publish.accounting.conversions import delta_for_epsilon, mu_for_epsilon_delta
from dp_publish.covariance.mechanisms import gaussian
from dp_publish.covariance.mechanisms.base import NoisyMoments
from dp_publish.covariance.mechanisms.eigenvectors import release_eigenvectors, release_kapralov_talwar
from dp_publish.covariance.mechanisms.gaussian import release_gaussian, release_sulq, sulq_sigma
from dp_publish.covariance.mechanisms.laplace import release_laplace
from dp_publish.covariance.mechanisms.wishart import release_wishart
from dp_publish.covariance.scaling import scaling_for
from dp_publish.covariance.second_moments import SecondMoments, moments_of_batch
from dp_publish.covariance.sensitivity import frobenius_sensitivity
from dp_publish.sampling.keystream import insecure_keystream

GUARANTEES = {
    release_gaussian: {"mu": 1.0},
    release_laplace: {"epsilon": 1.0},
    release_wishart: {"epsilon": 1.0, "delta": 1e-6},
    release_sulq: {"epsilon": 1.0, "delta": 1e-6},
    release_eigenvectors: {"epsilon": 1.0},
    release_kapralov_talwar: {"epsilon": 1.0},
}
ENTRYWISE = (release_gaussian, release_laplace, release_wishart, release_sulq)
Release = Callable[..., NoisyMoments]


@pytest.fixture
def moments() -> SecondMoments:
    """Return the moments of 500 rows of four columns."""
    rows = np.random.default_rng(4).uniform(-1, 1, (500, 4))
    return moments_of_batch(rows, scaling_for([(-1.0, 1.0)] * 4))


@pytest.mark.parametrize("release", GUARANTEES)
@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
def test_release_is_symmetric_and_says_who_its_neighbours_are(
    release: Release, neighbours: str, moments: SecondMoments
) -> None:
    """Under replace-one the number of rows and the constant's entry are exact; under add-remove both are noisy."""
    noisy = release(moments, **GUARANTEES[release], neighbours=neighbours, rng=insecure_keystream(1))

    assert (noisy.matrix == noisy.matrix.T).all()
    assert noisy.neighbours == neighbours
    public = neighbours == "replace-one"
    assert noisy.n_rows == (500 if public else None)
    assert (noisy.matrix[-1, -1] == 500 * moments.scaling.constant**2) == public
    assert not np.allclose(noisy.matrix[:-1, :-1], moments.matrix[:-1, :-1], rtol=1e-6)


@pytest.mark.parametrize("release", ENTRYWISE)
def test_entries_are_on_the_grid(release: Release, moments: SecondMoments) -> None:
    """Every entry but the exact one is a multiple of the granularity, a power of two, and uses its lowest bit."""
    noisy = release(moments, **GUARANTEES[release], rng=insecure_keystream(2))
    steps = noisy.matrix[np.triu_indices(5)][:-1] / noisy.granularity

    assert math.frexp(noisy.granularity)[0] == 0.5
    assert (steps == np.rint(steps)).all()
    assert (np.remainder(steps, 2) == 1).any()


@pytest.mark.parametrize("release", GUARANTEES)
def test_secure_keystream_is_the_default(release: Release, moments: SecondMoments) -> None:
    """Two releases without a keystream differ; two with the same insecure one are equal."""
    options = GUARANTEES[release]

    assert (release(moments, **options).matrix != release(moments, **options).matrix).any()
    first, second = (release(moments, **options, rng=insecure_keystream(3)).matrix for _ in range(2))
    assert (first == second).all()


def test_gaussian_sigma_is_the_sensitivity_over_mu(moments: SecondMoments) -> None:
    """The stated sigma gives at most the stated mu, counting the grid, and wastes less than a millionth."""
    for mu in (1e-4, 0.1, 1.0, 30.0):
        noisy = release_gaussian(moments, mu=mu, rng=insecure_keystream(4))
        moved = frobenius_sensitivity(moments.scaling, "replace-one") + 5 * noisy.granularity
        sigma = noisy.parameters["diagonal_sigma"]
        assert moved / sigma <= mu
        assert noisy.parameters["off_diagonal_sigma"] >= sigma / math.sqrt(2)
        assert (moved - 5 * noisy.granularity) / sigma > mu * (1 - 1e-3)
        assert noisy.cost.mu == mu


@pytest.mark.parametrize("above", [1 + 1e-9, 1 - 1e-9, 1 + 1e-4])
def test_gaussian_sigma_counts_the_grid_that_is_used(above: float) -> None:
    """Where rounding pushes sigma over a power of two, the step that was counted is the one that is used."""
    columns = 60
    sums = moments_of_batch(np.zeros((3, columns)), scaling_for([(-1.0, 1.0)] * columns))
    sensitivity = frobenius_sensitivity(sums.scaling, "replace-one")
    for exponent in (6, 9, 12, 15):
        mu = sensitivity / 2.0**exponent * above
        noisy = release_gaussian(sums, mu=mu, rng=insecure_keystream(4))
        assert noisy.granularity is not None
        assert sensitivity + (columns + 1) * noisy.granularity <= mu * noisy.parameters["diagonal_sigma"]


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 5.0, 30.0])
def test_pure_epsilon_implies_its_mu(epsilon: float) -> None:
    """The Gaussian trade-off curve of the implied mu lies below epsilon-DP's and touches it; a smaller mu's crosses."""
    mu = mu_implied_by_epsilon(epsilon)
    a = 1 / (1 + math.exp(epsilon))
    alpha = np.unique(np.concatenate([np.geomspace(a * 1e-6, 1, 20_001), [a]]))
    pure = np.maximum(1 - math.exp(epsilon) * alpha, math.exp(-epsilon) * (1 - alpha))

    def trade_off(mu: float) -> np.ndarray:
        return np.asarray(stats.norm.cdf(stats.norm.isf(alpha) - mu))

    assert (trade_off(mu) <= pure + 1e-13).all()
    assert trade_off(mu)[alpha == a][0] == pytest.approx(a, rel=1e-9)
    assert (trade_off(0.99 * mu) > pure).any()


def test_sulq_states_the_mu_it_really_has(moments: SecondMoments, monkeypatch: pytest.MonkeyPatch) -> None:
    """SULQ's printed guarantee follows from its mu with room to spare; with too little noise it would be refused."""
    noisy = release_sulq(moments, epsilon=0.5, delta=1e-6, rng=insecure_keystream(5))

    assert noisy.cost.mu < 0.05
    assert delta_for_epsilon(noisy.cost.mu, 0.5) < 1e-6
    assert sulq_sigma(10, 0.5, 1e-6) == pytest.approx(
        22 * math.sqrt(2 * math.log(110 / (1e-6 * 2 * math.sqrt(2 * math.pi)))) + math.sqrt(2)
    )
    monkeypatch.setattr(gaussian, "sulq_sigma", lambda *_: 0.9 * math.sqrt(2) / mu_for_epsilon_delta(0.5, 1e-6))
    with pytest.raises(PrivacyError, match="SULQ"):
        release_sulq(moments, epsilon=0.5, delta=1e-6)


@pytest.mark.parametrize(
    ("release", "options"),
    [
        (release_gaussian, {"mu": 0.0}),
        (release_gaussian, {"mu": float("nan")}),
        (release_laplace, {"epsilon": -1.0}),
        (release_laplace, {"epsilon": 1.0, "sensitivity": "loose"}),
        (release_eigenvectors, {"epsilon": float("inf")}),
        (release_eigenvectors, {"epsilon": 1.0, "split": "half"}),
        (release_kapralov_talwar, {"epsilon": 1.0, "sensitivity": "loose"}),
        (release_wishart, {"epsilon": 1.0, "delta": 0.0}),
        (release_wishart, {"epsilon": 1.0, "delta": 1e-6, "degrees": "printed"}),
        (release_wishart, {"epsilon": 1.0, "delta": 1e-6, "degrees": "few"}),
        (release_sulq, {"epsilon": 0.0, "delta": 1e-6}),
        (release_sulq, {"epsilon": 1.0, "delta": 1.0}),
    ],
)
def test_arguments_out_of_range_are_refused(
    release: Release, options: dict[str, object], moments: SecondMoments
) -> None:
    """Every argument has a range, and what is outside it is an error of ours."""
    with pytest.raises(ParameterError):
        release(moments, **options)


@pytest.mark.parametrize("release", GUARANTEES)
def test_private_number_of_rows_needs_the_constant(release: Release) -> None:
    """Without the constant coordinate there is no release for add-remove neighbours."""
    moments = moments_of_batch(np.zeros((3, 2)), scaling_for([(-1.0, 1.0)] * 2, with_mean=False))
    with pytest.raises(PrivacyError, match="number of rows"):
        release(moments, **GUARANTEES[release], neighbours="add-remove")
