"""Intervals from a covariance that was released in two rounds cover as often as they say, whatever the tails."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_diabetes
from tests.conftest import policy_with, publish_alone
from tests.statistical.worlds import gaussian_world, random_graph

from dp_bundle import open_bundle
from dp_bundle.base.errors import EstimationError
from dp_bundle.trust.judging import UnsafeTrustAnyone
from dp_learn.covariance.sample import Sample
from dp_learn.covariance.sources import bundle_source
from dp_learn.covariance.standard_errors import form_errors
from dp_learn.pipeline.learn import infer_pairs

N_ROWS = 2000
REPEATS = {10: 120, 30: 40}


def scaled(matrix: np.ndarray) -> np.ndarray:
    """Return a matrix with unit diagonal."""
    d = np.sqrt(np.diagonal(matrix))
    return matrix / np.outer(d, d)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("p", "degrees", "mu"),
    [
        (10, 6, 1.0),
        *(pytest.param(*case, marks=pytest.mark.long) for case in [(10, None, 0.5), (30, None, 1.0), (30, 6, 0.5)]),
    ],
)
def test_intervals_cover_as_often_as_they_say(p: int, degrees: int | None, mu: float, tmp_path: Path) -> None:
    """Intervals hold 93 to 97 % of all correlations and partial correlations, and shorter ones hold fewer."""
    rng = np.random.default_rng(p)
    world = gaussian_world(random_graph(p).precision, degrees)
    correlation, partial = scaled(np.linalg.inv(world.precision)), -scaled(world.precision)
    upper, names = np.triu_indices(p, 1), [f"x{j}" for j in range(p)]
    columns = {name: {"bounds": [-10, 10]} for name in names}
    privacy = {"mu": mu, "release": "covariance", "mechanism": "two-round"}
    policy = policy_with(columns, **privacy)

    errors, covered = [], []
    for repeat in range(REPEATS[p]):
        table = pd.DataFrame(world.draw(rng, N_ROWS), columns=names)
        path = publish_alone(table, policy, tmp_path / f"{repeat}.tar", repeat)
        with open_bundle(path, UnsafeTrustAnyone()) as bundle:
            sample = Sample([bundle_source(bundle)])
        pooled = sample.pooled
        variances = form_errors(pooled, np.diag(1 / pooled.deviations)).along(-pooled.correlation)
        errors.append((pooled.correlation - correlation)[upper] / np.sqrt(variances[upper]))
        low, high = infer_pairs(sample, pooled, np.arange(p))[0].partial_intervals()
        covered.append(((low <= partial) & (partial <= high))[upper])

    assert 0.93 < (np.abs(errors) < 1.96).mean() < 0.97
    assert 0.93 < np.mean(covered) < 0.97
    assert (np.abs(errors) < 0.8 * 1.96).mean() < 0.93


def collinear_population() -> tuple[np.ndarray, int]:
    """Return the correlation of a table of which some columns nearly determine the others, and its number of rows."""
    table = load_diabetes(scaled=False)
    rows = np.column_stack([table.data, table.target])
    return np.corrcoef(rows.T), len(rows)


@pytest.mark.parametrize(
    ("mu", "repeats", "least"),
    [
        (2.0, 10, 0.9),
        *(pytest.param(mu, 100, 0.92, marks=pytest.mark.long) for mu in (1.0, 5.0)),
    ],
)
def test_nearly_collinear_columns_are_tested_at_every_strength(
    mu: float, repeats: int, least: float, tmp_path: Path
) -> None:
    """Nine of ten releases or more are tested, and nominal 95 % intervals hold nearly as many partial correlations."""
    correlation, n_rows = collinear_population()
    p = len(correlation)
    partial, upper, names = -scaled(np.linalg.inv(correlation)), np.triu_indices(p, 1), [f"x{j}" for j in range(p)]
    columns = {name: {"bounds": [-9, 9]} for name in names}
    privacy = {"mu": mu, "release": "covariance", "mechanism": "two-round"}
    policy = policy_with(columns, **privacy)
    rng = np.random.default_rng(3)

    covered = []
    for repeat in range(repeats):
        table = pd.DataFrame(rng.multivariate_normal(np.zeros(p), correlation, n_rows), columns=names)
        path = publish_alone(table, policy, tmp_path / f"{repeat}.tar", repeat)
        with open_bundle(path, UnsafeTrustAnyone()) as bundle:
            sample = Sample([bundle_source(bundle)])
        try:
            low, high = infer_pairs(sample, sample.pooled, np.arange(p))[0].partial_intervals()
        except EstimationError:
            continue
        covered.append(((low <= partial) & (partial <= high))[upper])

    assert len(covered) >= 0.9 * repeats
    assert np.mean(covered) > least
