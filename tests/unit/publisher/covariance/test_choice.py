"""The choice of a mechanism follows from expected errors, and these are what releases have."""

from typing import Any

import pytest

from dp_bundle.manifest.noise import Neighbours
from dp_publish.accounting.strength import ApproximateDP, GaussianDP, PureDP
from dp_publish.covariance.calibration import choose_for_policy, choose_mechanism
from dp_publish.covariance.mechanisms.eigenvectors import Eigenvectors
from dp_publish.covariance.mechanisms.gaussian import Gaussian
from dp_publish.covariance.mechanisms.laplace import Laplace
from dp_publish.covariance.mechanisms.wishart_difference import WishartDifference
from dp_publish.covariance.scaling import scaling_for
from dp_publish.policy.model import Privacy


def test_choice_changes_where_it_should() -> None:
    """With a mu it is Gaussian noise; with a pure epsilon eigenvectors for few rows, or else it depends on columns."""
    for n_rows, p, strength, kind in (
        (1000, 13, GaussianDP(1.0), Gaussian),
        (1000, 13, ApproximateDP(1.0, 1e-6), Gaussian),
        (200, 13, PureDP(0.1), Eigenvectors),
        (10**7, 13, PureDP(1.0), WishartDifference),
        (10**7, 1, PureDP(1.0), Laplace),
        (10**7, 2000, PureDP(1.0), Laplace),  # as the other takes too long
    ):
        assert choose_mechanism(n_rows, scaling_for([(-1.0, 1.0)] * p), strength)[0] is kind


@pytest.mark.parametrize(
    ("n_columns", "settings", "name"),
    [
        (3, {"mu": 1.0}, "two-round"),
        (3, {"epsilon": 1.0, "delta": 1e-6}, "two-round"),
        (3, {"mu": 1e-4}, "gaussian"),
        (1, {"mu": 1.0}, "gaussian"),
        (3, {"mu": 1.0, "l2_radius": 1.0}, "gaussian"),
        (3, {"mu": 1.0, "neighbours": Neighbours.ADD_REMOVE}, "gaussian"),
        (13, {"epsilon": 1.0, "neighbours": Neighbours.ADD_REMOVE}, "wishart-difference"),
    ],
)
def test_two_rounds_are_chosen_where_they_can_be(n_columns: int, settings: dict[str, Any], name: str) -> None:
    """Two rounds are made at every mu that they take, with 2 columns or more, no radius given, and public rows.

    Of a pure epsilon, it is the mechanism of the smaller error where the number of rows is protected.
    """
    privacy = Privacy.model_validate({"release": "covariance", **settings})
    assert privacy.strength is not None
    kind, reason = choose_for_policy(privacy, privacy.strength, scaling_for([(-1.0, 1.0)] * n_columns), lambda: 10**6)
    assert kind.name == name
    assert name in reason
