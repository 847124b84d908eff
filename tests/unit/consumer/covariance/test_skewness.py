"""The least skewness of bounded columns, and sampling errors of linked rare events, against simulation."""

from typing import Any

import numpy as np
import pytest
from scipy import stats

from dp_bundle.data.latent import Steps
from dp_bundle.manifest.columns import Asinh, Column, Scores
from dp_learn.covariance.estimate import PooledCovariance, ReleasedCovariance
from dp_learn.covariance.one_round import OneRound
from dp_learn.covariance.skewness import least_skewness, limits_of
from dp_learn.covariance.standard_errors import form_errors

N_ROWS, N_TABLES = 1500, 6000


def column_of(low: float, high: float, **others: Any) -> Column:
    """Return a column within bounds."""
    return Column.model_construct(name="a", bounds=(low, high), missing="refuse", **others)


def skewness_of(values: np.ndarray, column: Column) -> float:
    """Return the least skewness of a column with these values."""
    return float(
        least_skewness([limits_of(column, {})], values.mean(keepdims=True), values.var(keepdims=True), len(values))[0]
    )


@pytest.mark.parametrize("share", [0.01, 0.5, 0.95])
def test_the_skewness_of_two_values_is_exact(share: float) -> None:
    """As scipy computes it, of bounds as of a level, whose column is zero or one whatever its bounds."""
    level = np.where(np.arange(1000) < 1000 * share, 1.0, 0.0)
    assert skewness_of(level, column_of(-1.0, 1.0, block="k")) == pytest.approx(stats.skew(level), abs=1e-9)
    values = np.where(np.arange(1000) < 1000 * share, 7.0, -2.0)
    assert skewness_of(values, column_of(-2.0, 7.0)) == pytest.approx(stats.skew(values), abs=1e-9)


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("name", ["counts", "gamma", "uniform", "likert"])
def test_no_column_is_less_skewed(name: str, sign: float) -> None:
    """Nothing is said of columns that may be even."""
    rng = np.random.default_rng(3)
    values = {
        "counts": np.where(rng.random(4000) < 0.8, 0.0, 1.0 + rng.poisson(2.0, 4000)),
        "gamma": np.minimum(rng.gamma(0.4, size=4000), 9.0),
        "uniform": 9.0 * rng.random(4000),
        "likert": rng.integers(1, 6, 4000).astype(float),
    }[name]
    low, high = sorted((0.0, 9.0 * sign))
    least, exact = sign * skewness_of(sign * values, column_of(low, high)), stats.skew(values)
    if name in ("uniform", "likert"):
        assert least == 0.0
    else:
        assert exact / 4 < least <= exact


def test_bounds_are_taken_to_the_scale_of_asinh() -> None:
    """A count that is mostly zero."""
    counts = np.where(np.arange(1000) < 850, 0.0, 40.0)
    made = Asinh(name="asinh", center=1.0, scale=3.0)
    values = np.arcsinh((counts - made.center) / made.scale)
    assert skewness_of(values, column_of(0.0, 40.0, transform=made)) == pytest.approx(stats.skew(values), rel=1e-9)


def test_scores_have_the_limits_of_their_steps() -> None:
    """As scores of 0 and 1 that stay as they are."""
    values = np.where(np.arange(1000) < 950, -0.06, 1.96)
    column = column_of(0.0, 1.0, transform=Scores(name="scores"))
    steps = Steps(np.array([0.95]), np.array([-0.06, 1.96]))
    limits = [limits_of(column, {"a": steps}), limits_of(column, {})]
    found = least_skewness(limits, np.full(2, values.mean()), np.full(2, values.var()), 1000)
    assert found == pytest.approx([stats.skew(values), 0.0])
    beyond = least_skewness([(0.0, 1.0)] * 2, np.array([-0.01, 0.5]), np.array([0.02, -0.1]), 100)
    assert beyond.tolist() == [10.0 - 0.1, 0.0]  # as skewed as the largest of so many rows


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.02, pytest.param(0.05, marks=pytest.mark.long)])
def test_linked_events_vary_as_stated(share: float) -> None:
    """Of rare events, normal rows would vary by half as much."""
    rng = np.random.default_rng(round(100 * share))
    latent = np.array([[1.0, 0.6, 0.0], [0.6, 1.0, 0.0], [0.0, 0.0, 1.0]])
    limit, root = stats.norm.isf(share), np.linalg.cholesky(latent)
    products = np.empty((N_TABLES, 3, 3))
    for table in products:
        table[:] = np.cov((rng.normal(size=(N_ROWS, 3)) @ root.T > limit).T)
    mean, seen = products.mean(axis=0), products.var(axis=0)

    noise = OneRound(N_ROWS, np.ones(3), np.zeros(3), 0.0, 0.0, 0.0)
    skewness = np.full(3, stats.skew(np.repeat([1.0, 0.0], [round(1000 * share), round(1000 * (1 - share))])))
    released = ReleasedCovariance(N_ROWS, mean, noise, skewness=skewness)
    pooled = PooledCovariance(tuple("abc"), mean, (released,))
    ratio = (form_errors(pooled, np.eye(3)).products / seen)[np.triu_indices(3, 1)]
    assert ratio == pytest.approx(1.0, abs=0.12)

    plain = PooledCovariance(tuple("abc"), mean, (ReleasedCovariance(N_ROWS, mean, noise),))
    normal = (form_errors(plain, np.eye(3)).products / seen)[0, 1]
    assert normal < 0.5
