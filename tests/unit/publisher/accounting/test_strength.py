"""The forms of a strength stand for each other as the literature says."""

import math

import pytest

from dp_publish.accounting.conversions import delta_for_epsilon
from dp_publish.accounting.strength import ApproximateDP, ConcentratedDP, GaussianDP, PureDP, Strength
from dp_publish.policy.model import Privacy


def test_forms_stand_for_each_other() -> None:
    """A pure epsilon and its mu are inverse; rho has mu^2 / 2; the curve of mu passes through (epsilon, delta)."""
    assert PureDP(GaussianDP(1.5).pure_epsilon).mu == pytest.approx(1.5)
    assert 0.5 * ConcentratedDP(0.7).mu ** 2 == pytest.approx(0.7)
    assert ConcentratedDP(0.7).pure_epsilon == math.sqrt(1.4)
    assert delta_for_epsilon(ApproximateDP(2.0, 1e-6).mu, 2.0) == pytest.approx(1e-6)
    assert ApproximateDP(2.0, 1e-6).pure_epsilon == PureDP(2.0).pure_epsilon == 2.0


@pytest.mark.parametrize(
    ("given", "strength"),
    [
        ({"mu": 2}, GaussianDP(2.0)),
        ({"rho": 2}, ConcentratedDP(2.0)),
        ({"epsilon": 2, "delta": 0.1}, ApproximateDP(2.0, 0.1)),
        ({"epsilon": 2, "release": "covariance"}, PureDP(2.0)),
        ({"sigma": 2}, None),
    ],
)
def test_policy_has_one_strength(given: dict[str, object], strength: Strength | None) -> None:
    """What a policy says becomes the form that it is; noise that is given directly is none."""
    assert Privacy.model_validate(given).strength == strength
