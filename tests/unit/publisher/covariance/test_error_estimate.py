"""The error that a publisher states of noise that does not act entry by entry is the one that her releases have."""

import numpy as np
import pytest
from sklearn.datasets import load_wine

from dp_bundle.base.errors import PrivacyError
from dp_publish.accounting.strength import GaussianDP, PureDP
from dp_publish.covariance.exact_moments import ExactMoments, moments_of_batch
from dp_publish.covariance.mechanisms.base import NoisyMoments
from dp_publish.covariance.mechanisms.eigenvectors import Eigenvectors
from dp_publish.covariance.mechanisms.gaussian import Gaussian
from dp_publish.covariance.scaling import scaling_for
from dp_publish.release.covariance import estimate_errors
from dp_publish.sampling.keystream import insecure_keystream
from printed_forms import make


def _wine(*, with_mean: bool = True) -> ExactMoments:
    rows = load_wine().data
    low, high = (rows.mean(axis=0) + side * rows.std(axis=0) for side in (-3, 3))
    return moments_of_batch(rows, scaling_for(list(zip(low, high, strict=True)), with_mean=with_mean))


def _errors(noisy: NoisyMoments, exact: ExactMoments) -> tuple[float, float]:
    p = exact.scaling.n_features
    error = (noisy.matrix - exact.matrix)[:p, :p]
    on, beside = np.diagonal(error), error[np.triu_indices(p, 1)]
    return float(np.mean(on**2)), float(np.mean(beside**2))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("neighbours", "with_mean"),
    [
        ("replace-one", True),
        *(pytest.param(*case, marks=pytest.mark.long) for case in (("replace-one", False), ("add-remove", True))),
    ],
)
def test_estimated_errors_are_those_of_releases(neighbours: str, with_mean: bool) -> None:
    """Estimates at epsilon = 100 are right beside the diagonal, within a factor of 2 on it; at 400 they are not.

    Releases are drawn in floating point, which has the same law and takes less time.
    """
    exact = _wine(with_mean=with_mean)
    rng = insecure_keystream(11)
    weak, strong = (make(Eigenvectors, exact, PureDP(epsilon), neighbours) for epsilon in (100.0, 400.0))
    found, stated, stronger = [], [], []
    for _ in range(6):
        noisy = weak.insecure_draw(exact, rng)
        found.append(_errors(noisy, exact))
        for estimates, mechanism in ((stated, weak), (stronger, strong)):
            estimate = estimate_errors(noisy, lambda sums, mechanism=mechanism: mechanism.insecure_draw(sums, rng))
            assert estimate is not None
            estimates.append(estimate)
    ratios = np.mean(stated, axis=0) / np.sqrt(np.mean(found, axis=0))
    assert 0.75 < ratios[1] < 1.35
    assert 0.6 < ratios[0] < 2.0
    assert np.mean(stronger, axis=0)[1] < 0.75 * np.sqrt(np.mean(found, axis=0))[1]


def test_nothing_is_estimated_where_the_noise_is_known_or_the_sampler_gives_up() -> None:
    """Entry-wise noise needs no estimate, and a failed one is left out."""

    def give_up(_: ExactMoments) -> NoisyMoments:
        raise PrivacyError("the sampler gave up")

    exact, rng = _wine(), insecure_keystream(0)
    gaussian = make(Gaussian, exact, GaussianDP(1.0))
    known = gaussian.draw(exact, rng)
    drawn = make(Eigenvectors, exact, PureDP(1.0)).insecure_draw(exact, rng)

    assert estimate_errors(known, lambda sums: gaussian.draw(sums, rng)) is None
    assert estimate_errors(drawn, give_up) is None
