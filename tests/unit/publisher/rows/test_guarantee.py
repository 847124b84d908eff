"""Cost and guarantee of a release of rows, for each kind of noise."""

import math
from typing import Any

import pytest
from tests.discrete_noise import exact_mu

from dp_publish.policy.model import Policy
from dp_publish.rows.calibration import set_noise, share_mu
from dp_publish.rows.guarantee import cost_of_rows, guarantee_of_rows
from dp_publish.rows.noise import ROW_NOISE


@pytest.mark.slow
@pytest.mark.parametrize("kind", ROW_NOISE)
@pytest.mark.parametrize("unit", ["cell", "row", {"entity": "who", "max_rows": 7}], ids=str)
@pytest.mark.parametrize("strength", [{"mu": 2.0}, {"rho": 0.4}, {"epsilon": 3.0, "delta": 1e-6}, {"sigma": 30.0}])
def test_what_is_booked_is_what_is_stated(kind: str, unit: Any, strength: dict[str, float]) -> None:
    """Every noise's cost for the unit of the release is the mu, or the rho, of its guarantee, and mu is true."""
    entries = {"a": {"bounds": [0, 100]}, "b": {"bounds": [-5, 20]}}
    privacy = {"unit": unit, **strength}
    policy = Policy.model_validate({"dataset": {"name": "d"}, "privacy": privacy, "columns": entries})
    kinds = dict.fromkeys(entries, kind)

    shares = share_mu(policy, kinds)
    columns = set_noise(policy, kinds, shares)
    guarantee = guarantee_of_rows(policy, columns, shares)
    booked = cost_of_rows(policy, kinds, shares, columns)

    of_rho = booked.rho or {unit: mu**2 / 2 for unit, mu in booked.mu.items()}
    assert of_rho[policy.privacy.account] == pytest.approx(guarantee.rho, rel=1e-11)
    if kind == "integer":
        cells = [exact_mu(round(column.width), column.cell_noise.sigma) for column in columns]
        whole = {"cell": max(cells), "row": math.hypot(*cells), "entity:who": math.sqrt(7) * math.hypot(*cells)}
        assert booked.mu == pytest.approx({each: whole[each] for each in booked.mu}, rel=1e-10)
    if "mu" in strength or kind == "continuous":
        assert booked.mu[policy.privacy.account] == pytest.approx(math.sqrt(2 * guarantee.rho), rel=1e-11)
    assert booked.continuous == (guarantee.mu is not None) == ROW_NOISE[kind].is_gaussian
    assert {"cell", "row"} <= set(booked.mu)
