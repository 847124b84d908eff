"""What every mechanism states about its release: grid, cost, exact entries; and what it refuses."""

import numpy as np
import pytest

from dp_bundle.base.errors import ParameterError, PrivacyError
from dp_bundle.privacy.neighbours import Neighbours
from dp_publish.accounting.strength import ApproximateDP, GaussianDP, PureDP, Strength
from dp_publish.covariance.exact_moments import ExactMoments, moments_of_batch
from dp_publish.covariance.mechanisms.base import Mechanism
from dp_publish.covariance.mechanisms.eigenvectors import Eigenvectors
from dp_publish.covariance.mechanisms.gaussian import Gaussian
from dp_publish.covariance.mechanisms.laplace import Laplace
from dp_publish.covariance.mechanisms.wishart import Wishart
from dp_publish.covariance.mechanisms.wishart_difference import WishartDifference
from dp_publish.covariance.scaling import frobenius_sensitivity, scaling_for
from dp_publish.sampling.keystream import insecure_keystream
from printed_forms import PrintedWishart, make, release

GUARANTEES: dict[type[Mechanism], Strength] = {
    Gaussian: GaussianDP(1.0),
    Laplace: PureDP(1.0),
    Wishart: ApproximateDP(1.0, 1e-6),
    WishartDifference: PureDP(1.0),
    Eigenvectors: PureDP(1.0),
}


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
