"""The choice of a mechanism follows from expected errors, and these are what releases have."""

from __future__ import annotations

import numpy as np
import pytest

from dp_bundle.errors import ParameterError
from dp_bundle.privacy import epsilon_for_implied_mu, mu_implied_by_epsilon
from dp_publish.covariance.choice import choose_mechanism, expected_errors
from dp_publish.covariance.mechanisms.eigenvectors import insecure_eigenvectors
from dp_publish.covariance.mechanisms.gaussian import release_gaussian
from dp_publish.covariance.mechanisms.laplace import release_laplace
from dp_publish.covariance.mechanisms.wishart import release_wishart
from dp_publish.covariance.scaling import Scaling, scaling_for
from dp_publish.covariance.second_moments import moments_of_batch
from dp_publish.sampling.keystream import insecure_keystream


def _scaling(p: int, *, with_mean: bool = True) -> Scaling:
    return scaling_for([(-1.0, 1.0)] * p, with_mean=with_mean)


@pytest.mark.slow
@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
def test_expected_errors_are_those_of_releases(neighbours: str) -> None:
    """Root mean squares agree within 5 %, the eigenvectors' error is below its bound; 60 releases of each."""
    p, n, epsilon, delta = 15, 3000, 0.5, 1e-6
    moments = moments_of_batch(np.random.default_rng(0).uniform(-1, 1, (n, p)), _scaling(p))
    errors = expected_errors(n, moments.scaling, epsilon=epsilon, delta=delta, neighbours=neighbours)
    mu = expected_mu = epsilon_for_implied_mu(1.0)
    assert mu_implied_by_epsilon(expected_mu) == pytest.approx(1.0)
    by_mu = expected_errors(n, moments.scaling, mu=1.0, neighbours=neighbours)
    assert by_mu["laplace"] == pytest.approx(errors["laplace"] * epsilon / mu)
    errors["gaussian"] = by_mu["gaussian"]
    releases = {
        "gaussian": lambda rng: release_gaussian(moments, mu=1.0, neighbours=neighbours, rng=rng),
        "laplace": lambda rng: release_laplace(moments, epsilon=epsilon, neighbours=neighbours, rng=rng),
        "wishart": lambda rng: release_wishart(moments, epsilon=epsilon, delta=delta, neighbours=neighbours, rng=rng),
        "eigenvectors": lambda rng: insecure_eigenvectors(moments, epsilon=epsilon, neighbours=neighbours, rng=rng),
    }
    for name, release in releases.items():
        squares = []
        for seed in range(60):
            noisy = release(insecure_keystream(seed))
            error = noisy.matrix - noisy.bias * np.eye(p + 1) - moments.matrix
            error[-1, -1] = 0 if neighbours == "replace-one" else error[-1, -1]
            squares.append((np.linalg.norm(error) / n / moments.scaling.square) ** 2)
        found = float(np.sqrt(np.mean(squares)))
        if name == "eigenvectors":
            assert found < errors[name]
        else:
            assert found == pytest.approx(errors[name], rel=0.05)


def test_choice_changes_where_it_should() -> None:
    """With a mu it is Gaussian noise; with a pure epsilon eigenvectors for few rows and Laplace noise for many."""
    assert choose_mechanism(1000, _scaling(13), mu=1.0)[0] == "gaussian"
    assert choose_mechanism(1000, _scaling(13), epsilon=1.0, delta=1e-6)[0] == "gaussian"
    assert choose_mechanism(200, _scaling(13), epsilon=0.1)[0] == "eigenvectors"
    assert choose_mechanism(10**7, _scaling(13), epsilon=1.0)[0] == "laplace"


def test_reason_names_all_that_were_compared() -> None:
    """The sentence gives the numbers of rows and columns, and every mechanism's error."""
    name, reason = choose_mechanism(5000, _scaling(8), epsilon=1.0, delta=1e-6)

    assert reason.startswith(f"{name} has the smallest expected error for 5000 rows and 8 columns")
    assert all(other in reason for other in ("gaussian", "laplace", "wishart", "eigenvectors"))


@pytest.mark.parametrize(
    "strength",
    [{}, {"mu": 1.0, "epsilon": 1.0}, {"mu": 0.0}, {"epsilon": float("nan")}, {"epsilon": 1.0, "delta": 1.0}],
)
def test_one_strength_is_needed(strength: dict[str, float]) -> None:
    """Neither, both, or one out of its range is an error of ours; so is a table without rows."""
    with pytest.raises(ParameterError):
        choose_mechanism(100, _scaling(3), **strength)
    with pytest.raises(ParameterError, match="n_rows"):
        choose_mechanism(0, _scaling(3), mu=1.0)
