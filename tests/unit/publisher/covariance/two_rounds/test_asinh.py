"""Columns on the scale of asinh: a function of each value alone, given what was released."""

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.unit.publisher.covariance.two_rounds.test_two_round import Passes, release

from dp_bundle.base.errors import PolicyError
from dp_bundle.data.recovery import mean_and_covariance
from dp_bundle.privacy.neighbours import Neighbours
from dp_publish import Policy
from dp_publish.accounting.strength import GaussianDP
from dp_publish.covariance.mechanisms.two_round import TwoRound
from dp_publish.covariance.scaling import scaling_for
from dp_publish.covariance.two_rounds.asinh import on_scale, to_asinh
from dp_publish.covariance.two_rounds.places import Place
from dp_publish.policy.columns import prepare

BOUNDS = (-50.0, 400.0)
TWO_ROUND = {"release": "covariance", "mechanism": "two-round", "mu": 1.0}


def skewed(n: int) -> np.ndarray:
    """Return rows of three lognormal columns, of which two are related."""
    rng = np.random.default_rng(8)
    normal = rng.standard_normal((n, 3))
    normal[:, 1] += 0.8 * normal[:, 0]
    return np.exp(normal)


def mechanism(mu: float, *transformed: int) -> TwoRound:
    """Return the mechanism for three columns, some of them on the scale of asinh."""
    places = tuple(Place(*BOUNDS, transform="asinh" if index in transformed else None) for index in range(3))
    return TwoRound(scaling_for([BOUNDS] * 3), Neighbours.REPLACE_ONE, GaussianDP(mu), places=places)


def first_round(rows: np.ndarray, kind: TwoRound) -> tuple[np.ndarray, dict[int, tuple[float, float]]]:
    """Return the correlations that the first round shows, and the transforms."""
    released, _ = release(Passes(rows), kind)
    earlier = released.earlier
    moments, ones = earlier.moments, np.ones(3)
    settings = {"n_rows": moments.n_rows, "off_diagonal_variance": moments.noise.off_diagonal_variance}
    _, covariance, _ = mean_and_covariance(moments.matrix, 0.0 * ones, ones, moments.scaling.constant, **settings)
    deviations = np.sqrt(np.diagonal(covariance))
    return covariance / np.outer(deviations, deviations), earlier.transforms


def test_released_correlations_are_those_of_asinh_scaled_columns() -> None:
    """At a huge mu they are those of asinh((x - c) / s) with the center and scale released, and of no others."""
    rows = skewed(4000)
    found, transforms = first_round(rows, mechanism(1e4, 0, 1, 2))

    def expected(times: float) -> np.ndarray:
        scaled = [np.arcsinh((rows[:, index] - c) / (times * s)) for index, (c, s) in transforms.items()]
        return np.corrcoef(scaled)

    assert np.abs(found - expected(1.0)).max() < 1e-3
    assert np.abs(found - expected(2.0)).max() > 1e-2
    assert np.abs(found - np.corrcoef(rows.T)).max() > 0.05


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_row_becomes_the_same_wherever_it_stands(order: Any) -> None:
    """However rows lie in memory, and whichever stand beside it, each value becomes the same to the last bit."""
    rows = np.array(skewed(1003), order=order)
    transforms = {0: (1.0, 0.7), 2: (0.9, 0.3)}
    whole = on_scale(rows, transforms)
    alone = np.concatenate([on_scale(rows[index : index + 1], transforms) for index in range(len(rows))])
    assert (whole == alone).all()
    assert (whole == on_scale(rows[::-1], transforms)[::-1]).all()
    assert (whole[:, 1] == rows[:, 1]).all()
    assert math.isnan(to_asinh(np.array([np.nan]), 0.0, 1.0)[0])


def test_patterns_put_numbers_alone_on_the_scale() -> None:
    """A pattern for all columns skips categories, dates and truth values, whose own sections may not have one."""
    frame = pd.DataFrame({"x": [0.5], "n": [3], "yes": [True], "town": ["a"], "day": ["2020-01-01"]})
    columns: dict[str, Any] = {
        "*": {"transform": "asinh", "bounds": (0.0, 9.0)},
        "town": {"kind": "category", "categories": ["a", "b", "c"]},
        "day": {"kind": "date", "bounds": (0.0, 30_000.0)},
    }
    said = {"dataset": {"name": "d"}, "privacy": TWO_ROUND, "columns": columns}
    prepared = prepare(frame, Policy.model_validate(said))
    transformed = {name for name in prepared.kinds if prepared.policy.column(name).transform is not None}
    assert transformed == {"x", "n"}
    columns["yes"] = {"transform": "asinh"}
    with pytest.raises(PolicyError, match="leave it out for truth values"):
        prepare(frame, Policy.model_validate(said))
