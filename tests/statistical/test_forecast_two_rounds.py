"""The forecast of a release in two rounds is what a reader finds, on normal rows."""

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.conftest import policy_with

from dp_bundle import open_bundle
from dp_learn.covariance.sample import Sample
from dp_learn.covariance.sources import bundle_source
from dp_publish import Policy, publish
from dp_publish.covariance.calibration import set_mechanism
from dp_publish.covariance.mechanisms.two_round import TwoRound
from dp_publish.forecast.outlook import Outlook, forecast
from dp_publish.ledger.ledger import Ledger

CENTRAL = 5.15  # standard deviations: the middle 99 % of normal values
FURTHER_SHAPES = [(5, 300, 1.0), (30, 1000, 3.0), (10, 1000, 0.3), (100, 2000, 1.0)]


def policy_for(names: list[str], bounds: np.ndarray, spreads: np.ndarray, mu: float) -> Policy:
    """Return a policy with these bounds and spreads."""
    columns = {
        name: {"bounds": limits, "spread": spread}
        for name, limits, spread in zip(names, bounds.tolist(), spreads.tolist(), strict=True)
    }
    privacy = {"release": "covariance", "mechanism": "two-round", "mu": mu}
    return policy_with(columns, **privacy)


def forecast_of(n_rows: int, policy: Policy) -> Outlook:
    """Return the forecast of the policy's release."""
    kinds = dict.fromkeys(policy.columns, "continuous")
    return forecast(policy, kinds, n_rows)


def bounds_around(low: np.ndarray, high: np.ndarray, wider: float, rng: np.random.Generator) -> np.ndarray:
    """Return bounds so many times as wide as these, off the middle at random."""
    width = high - low
    middles = (low + high) / 2 + rng.uniform(-0.5, 0.5, len(low)) * (wider - 1) * width
    return np.c_[middles - wider * width / 2, middles + wider * width / 2]


def released(x: np.ndarray, policy: Policy, folder: Path, key: Ed25519PrivateKey) -> tuple[np.ndarray, np.ndarray]:
    """Return the correlations that a reader finds, and the centers by which the first round took the columns."""
    made = publish(
        pd.DataFrame(x, columns=list(policy.columns)),
        policy,
        out=folder / f"{len(list(folder.iterdir()))}.tar",
        key=key,
        ledger=Ledger(folder / "ledger.sqlite"),
    )
    with open_bundle(made.path, allow_older=True) as bundle:
        covariance = Sample([bundle_source(bundle)]).pooled.covariance
    deviations = np.sqrt(np.maximum(np.diagonal(covariance), 1e-12))
    centers = np.array([column.standards[0].center for column in made.release.columns])
    return np.clip(covariance / np.outer(deviations, deviations), -1, 1), centers


def simulated_error(
    p: int, n_rows: int, mu: float, wider: float, folder: Path, key: Ed25519PrivateKey
) -> tuple[float, float]:
    """Return the root mean square error of normal columns' correlations, and the share of columns that were lost."""
    rng = np.random.default_rng([p, n_rows, int(wider)])
    names, upper = [f"c{index}" for index in range(p)], np.triu_indices(p, 1)
    squares, lost = [], []
    for _ in range(math.ceil(150 / p)):
        half = np.full(p, CENTRAL / 2)
        policy = policy_for(names, bounds_around(-half, half, wider, rng), np.full(p, 1 / CENTRAL / wider), mu)
        correlations, centers = released(rng.normal(size=(n_rows, p)), policy, folder, key)
        squares.append((correlations[upper] ** 2).mean())
        lost.append(np.mean(np.abs(centers) > 3))
    return math.sqrt(np.mean(squares)), float(np.mean(lost))


def normal_forecast(p: int, n_rows: int, mu: float, wider: float) -> tuple[float, float]:
    """Return the forecast error, and the share of columns that would be lost."""
    spread = 1 / CENTRAL / wider
    names = [f"c{index}" for index in range(p)]
    policy = policy_for(names, np.tile([0.0, 1.0], (p, 1)), np.full(p, spread), mu)
    mechanism = set_mechanism(policy, dict.fromkeys(names, "continuous"), lambda: n_rows)
    assert isinstance(mechanism, TwoRound)
    return forecast_of(n_rows, policy).moments.error, mechanism.share_lost(n_rows, spread)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("p", "n_rows", "mu"), [(20, 447, 1.0), *(pytest.param(*each, marks=pytest.mark.long) for each in FURTHER_SHAPES)]
)
def test_errors_of_normal_rows_are_forecast(
    p: int, n_rows: int, mu: float, tmp_path: Path, key: Ed25519PrivateKey
) -> None:
    """With bounds three times too wide, forecasts are right within 1.35, and those of a third of mu are not."""
    found, lost = simulated_error(p, n_rows, mu, 3.0, tmp_path, key)

    assert 1 / 1.35 < normal_forecast(p, n_rows, mu, 3.0)[0] / found < 1.35
    assert normal_forecast(p, n_rows, mu / 3, 3.0)[0] / found > 1.35
    assert lost < 0.03


@pytest.mark.slow
@pytest.mark.parametrize(("p", "n_rows"), [(5, 224), pytest.param(20, 672, marks=pytest.mark.long)])
def test_lost_columns_are_forecast(p: int, n_rows: int, tmp_path: Path, key: Ed25519PrivateKey) -> None:
    """With bounds a thousand times as wide as the values, as many centers are missed as forecast."""
    found, lost = simulated_error(p, n_rows, 1.0, 1000.0, tmp_path, key)
    error, share = normal_forecast(p, n_rows, 1.0, 1000.0)

    assert lost == pytest.approx(share, abs=4 * math.sqrt(share * (1 - share) / 150))
    assert 1 / 1.5 < error / found < 1.5
