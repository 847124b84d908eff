"""The least skewness of bounded columns, and sampling errors of linked rare events."""

from typing import Any

import numpy as np
import pytest
from scipy import stats

from dp_bundle.data.latent import Steps
from dp_bundle.manifest.columns import Column, Scores
from dp_learn.covariance.estimate import ReleasedCovariance, combine_sources
from dp_learn.covariance.standard_errors import form_errors, least_skewness, limits_of
from dp_learn.covariance.two_rounds import noise_of_one_round


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
    level = (np.arange(1000) < 1000 * share) * 1.0
    assert skewness_of(level, column_of(-1.0, 1.0, block="k")) == pytest.approx(stats.skew(level), abs=1e-9)
    assert skewness_of(9 * level - 2, column_of(-2.0, 7.0)) == pytest.approx(stats.skew(level), abs=1e-9)


def test_scores_have_the_limits_of_their_steps() -> None:
    """As scores of 0 and 1 that stay as they are."""
    values = np.where(np.arange(1000) < 950, -0.06, 1.96)
    column = column_of(0.0, 1.0, transform=Scores(name="scores"))
    steps = Steps(np.array([0.95]), np.array([-0.06, 1.96]))
    limits = [limits_of(column, each) for each in ({"a": steps}, {})]
    assert least_skewness(limits, np.full(2, values.mean()), np.full(2, values.var()), 1000) == pytest.approx(
        [stats.skew(values), 0.0]
    )
    (beyond,) = least_skewness([(0.0, 1.0)], np.array([-0.01]), np.array([0.02]), 100)
    assert beyond == 10.0 - 0.1  # as skewed as the largest of so many rows


def test_linked_events_vary_as_stated() -> None:
    """Two of a skewness g have E[z_i^2 z_j^2] = 1 + r g^2, without a link normal errors, and signs 1 - r^2."""
    n_rows, r, eye = 10**8, 0.4, np.eye(3)
    noise = noise_of_one_round(n_rows, np.ones(3), np.zeros(3), 0.0, (0.0, 0.0))
    linked = np.array([[1, r, 0], [r, 1, 0], [0, 0, 1]])
    skewed = ReleasedCovariance(n_rows, linked, noise, skewness=np.full(3, 4.0))
    found = form_errors(combine_sources("abc", [skewed]), eye).products[0] * n_rows
    assert found[1:] == pytest.approx([7.24, 1], rel=1e-3)
    twins = ReleasedCovariance(n_rows, 0.98 + 0.02 * eye, noise, ones=np.array([0.5, 0.5, 0]))
    found = form_errors(combine_sources("abc", [twins]), eye).along(-0.98)[0] * n_rows
    assert found[1] == pytest.approx(0.0396, rel=0.02)
