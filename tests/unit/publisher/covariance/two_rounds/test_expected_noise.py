"""The noise of two rounds is forecast from public facts, and each part of the forecast is what happens."""

import numpy as np
import pytest
from scipy import stats

from dp_bundle.privacy.neighbours import Neighbours
from dp_publish.accounting.strength import GaussianDP
from dp_publish.covariance.mechanisms.two_round import TwoRound
from dp_publish.covariance.scaling import scaling_for
from dp_publish.covariance.two_rounds.places import Place
from dp_publish.covariance.two_rounds.shares import round_noise, share_lost
from dp_publish.sampling.exponential import ExponentialMechanism
from dp_publish.sampling.places import center_scores

WIDE, NARROW = 1 / 15.5, 1 / 5150  # spreads: bounds 3 and 1000 times as wide as the middle 99 % of normal values


def two_rounds(n_columns: int, mu: float, *, declared: bool = False) -> TwoRound:
    """Return the mechanism for columns with bounds of -1 and 1."""
    place = Place(-1.0, 1.0, 0.0, 1.0) if declared else Place(-1.0, 1.0)
    scaling = scaling_for([(-1.0, 1.0)] * n_columns)
    return TwoRound(scaling, Neighbours.REPLACE_ONE, GaussianDP(mu), places=(place,) * n_columns)


@pytest.mark.parametrize(("n_rows", "spread"), [(300, 1 / 20), (1000, 1 / 5000)])
def test_as_many_centers_are_lost_as_their_law_says(n_rows: int, spread: float) -> None:
    """The exact law of the choice of a center, on the quantiles of normal values, puts so much far from them."""
    deviations = stats.norm.ppf((np.arange(n_rows) + 0.5) / n_rows)
    edges = np.linspace(-0.5 / spread, 0.5 / spread, 2**20 + 1)
    scores = center_scores(np.histogram(deviations, edges)[0])
    law = np.exp(ExponentialMechanism(0.03).log_probabilities(scores))
    far = law[np.abs(edges[1:] + edges[:-1]) > 6.0].sum()

    assert 0.01 < far < 0.99
    assert share_lost(0.03, n_rows, spread) == pytest.approx(far, rel=0.05)
    assert share_lost(0.03, n_rows, 0.4) == 0.0  # such bounds hold no far places


@pytest.mark.parametrize("n_columns", [2, 20, 300])
def test_noise_of_a_round_is_that_of_shortened_normal_rows(n_columns: int) -> None:
    """A radius that shortens so many normal rows leaves them the covariance that the noise is divided by."""
    rows = np.random.default_rng(1).normal(size=(20_000, n_columns))
    for shortened in (0.02, 0.6):
        lengths = np.linalg.norm(rows, axis=1)
        radius = np.quantile(lengths, 1 - shortened)
        kept = np.var(rows * np.minimum(1.0, radius / lengths)[:, None])
        noise = round_noise(n_columns, shortened, 0.5, (0.01, 10.0), 1e-9)
        assert noise == pytest.approx(radius**2 / kept / 0.5, rel=0.03)
    kept = np.minimum((rows**2).sum(axis=1), n_columns).mean() / n_columns
    assert round_noise(n_columns, 1e-6, 0.5, (0.5, 1.0), 1e-9) == pytest.approx(2 * n_columns / kept, rel=0.03)


def test_declared_columns_do_not_depend_on_their_bounds() -> None:
    """Where all centers and scales are declared, the spread does not matter; elsewhere few rows lose them."""
    declared, found = two_rounds(10, 1.0, declared=True), two_rounds(10, 1.0)

    assert declared.correlation_noise(300, WIDE) == declared.correlation_noise(300, NARROW)
    assert declared.correlation_noise(300, WIDE) < found.correlation_noise(300, WIDE)
    assert found.correlation_noise(300, NARROW) > 5 * found.correlation_noise(300, WIDE)
    assert found.correlation_noise(30_000, NARROW) == found.correlation_noise(30_000, WIDE)
