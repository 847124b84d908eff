"""What is measured of whole covariance releases."""

import math

import pytest
from tests.unit.publisher.audit.mixed_tables import findings

from dp_audit.whole_covariance_releases import check_whole
from dp_bundle.privacy.neighbours import Neighbours
from dp_publish import Policy
from dp_publish.covariance.calibration import set_mechanism
from dp_publish.release.aside import publish_aside


@pytest.mark.parametrize("neighbours", Neighbours)
@pytest.mark.parametrize(
    ("mechanism", "strength"), [("wishart", {"epsilon": 4.0, "delta": 1e-5}), ("wishart-difference", {"epsilon": 1.0})]
)
def test_rounding_is_not_taken_for_a_movement(mechanism: str, strength: dict[str, float], neighbours: str) -> None:
    """The nuclear norm of what rounding does to many entries is not that of a row, which is in a ball."""
    columns = {f"x{index}": {"bounds": [0, 10]} for index in range(11)}
    ball = {"release": "covariance", "mechanism": mechanism, "neighbours": neighbours, "l2_radius": math.sqrt(6)}
    policy = Policy.model_validate({"dataset": {"name": "d"}, "privacy": {**ball, **strength}, "columns": columns})
    kinds = dict.fromkeys(columns, "continuous")
    checks = check_whole(policy, kinds, set_mechanism(policy, kinds, lambda: 100), publish_aside, 1e-4)
    assert findings(checks) == []
