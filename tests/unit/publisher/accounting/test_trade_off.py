"""What a guarantee leaves to an attacker, against closed forms, dp-accounting and the best tests of exact laws."""

import math
from statistics import NormalDist

import numpy as np
import pytest
from numpy.typing import NDArray

from dp_publish.accounting.curve import Loss, deltas_of_unit
from dp_publish.accounting.trade_off import EnvelopeTradeOff, GaussianTradeOff, trade_off_epsilons

NORMAL = NormalDist()
ALPHAS = (1e-6, 1e-3, 0.05, 0.3, 0.5, 0.9)


def exact_trade_off(p: NDArray[np.float64], q: NDArray[np.float64], alpha: float) -> float:
    """Return the type II error of the best test of two laws on the same points (Neyman & Pearson)."""
    order = np.argsort(-(q / p), kind="stable")
    false_alarms = np.concatenate([[0.0], np.cumsum(p[order])])
    missed = 1.0 - np.concatenate([[0.0], np.cumsum(q[order])])
    return float(np.interp(alpha, false_alarms, missed))


def discrete_pair(width: int, sigma: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return discrete Gaussian noise around 0 and around `width`."""
    k = np.arange(-math.ceil(20 * sigma) - width, math.ceil(20 * sigma) + 2 * width + 1)
    p, q = np.exp(-((k / sigma) ** 2) / 2), np.exp(-(((k - width) / sigma) ** 2) / 2)
    kept = (p > 1e-200) & (q > 1e-200)
    return p[kept] / p.sum(), q[kept] / q.sum()


@pytest.mark.parametrize("mu", [0.1, 1.0, 3.0])
def test_gaussian_errors_are_those_of_the_best_test(mu: float) -> None:
    """The test of N(0, 1) against N(mu, 1) that rejects above a threshold errs as the formula says."""
    f = GaussianTradeOff(mu)
    for alpha in ALPHAS:
        assert f.type_2(alpha) == pytest.approx(NORMAL.cdf(NORMAL.inv_cdf(1 - alpha) - mu), rel=1e-9)
    assert f.right_of_two == pytest.approx(NORMAL.cdf(mu / 2))
    assert f.right_of_two == pytest.approx(1 - min(a + f.type_2(a) for a in np.linspace(0, 1, 100_001)) / 2, abs=1e-9)


@pytest.mark.parametrize(("width", "sigma"), [(1, 0.5), (1, 1.0), (3, 2.0), (10, 10.0)])
def test_discrete_noise_never_promises_more_than_its_law(width: int, sigma: float) -> None:
    """For discrete noise the errors stay below those of the best test, closely, where mu-GDP would promise more."""
    losses, mu = [Loss(width, sigma, discrete=True)], width / sigma
    epsilons = trade_off_epsilons(mu)
    f = EnvelopeTradeOff(list(zip(epsilons, deltas_of_unit("row", losses, epsilons), strict=True)))
    p, q = discrete_pair(width, sigma)
    for alpha in ALPHAS:
        exact = exact_trade_off(p, q, alpha)
        assert f.type_2(alpha) <= exact + 1e-9
        assert f.type_2(alpha) >= exact - 0.01
    assert f.right_of_two == pytest.approx((1 + np.abs(p - q).sum() / 2) / 2, abs=2e-4)
    if sigma == 1.0:
        assert any(GaussianTradeOff(mu).type_2(alpha) > exact_trade_off(p, q, alpha) + 1e-3 for alpha in ALPHAS)


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 0.0), (0.1, 0.0), (3.0, 0.01)])
def test_one_point_is_the_worst_mechanism_that_keeps_it(epsilon: float, delta: float) -> None:
    """Randomised response that tells the truth outright with probability delta has exactly these errors."""
    right = math.exp(epsilon) / (1 + math.exp(epsilon))
    p = np.array([delta or 1e-300, (1 - delta) * right, (1 - delta) * (1 - right), 1e-300])
    f = EnvelopeTradeOff([(epsilon, delta)])
    for alpha in ALPHAS:
        assert f.type_2(alpha) == pytest.approx(exact_trade_off(p, p[::-1], alpha), abs=1e-9)
    assert f.right_of_two == pytest.approx(delta + (1 - delta) * right if delta else right, abs=delta / 2 + 1e-12)
    assert EnvelopeTradeOff([(1.0, 0.0)]).odds_factor(0.05) == pytest.approx(math.e)
    assert math.isinf(EnvelopeTradeOff([(1.0, 0.1)]).odds_factor(0.05))


@pytest.mark.parametrize("mu", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("candidates", [3, 1000])
def test_guesses_among_many_candidates_stay_below_the_bound(mu: float, candidates: int) -> None:
    """One of so many neighbours of a table is told no better than the best test with so few false alarms does."""
    bound = GaussianTradeOff(mu).right_among(candidates, neighbours=False)
    assert bound == pytest.approx(NORMAL.cdf(NORMAL.inv_cdf(1 / candidates) + mu))
    assert GaussianTradeOff(mu).right_among(2) == pytest.approx(NORMAL.cdf(mu / 2))
    assert GaussianTradeOff(mu).right_among(candidates) == min(bound, NORMAL.cdf(mu / 2))


@pytest.mark.parametrize("mu", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("share", [0.05, 0.001])
def test_odds_rise_above_the_factor_as_rarely_as_stated(mu: float, share: float) -> None:
    """Under N(mu, 1) the likelihood ratio exceeds the factor with a smaller probability than the share."""
    factor = GaussianTradeOff(mu).odds_factor(share)
    threshold = math.log(factor) / mu + mu / 2  # of x, where exp(mu x - mu^2 / 2) is the factor
    assert NORMAL.cdf(mu - threshold) <= share
    lines = [(e, d) for e, d in zip(*_gaussian_curve(mu), strict=True)]
    assert EnvelopeTradeOff(lines).odds_factor(share) == pytest.approx(factor, rel=0.02)


def _gaussian_curve(mu: float) -> tuple[list[float], list[float]]:
    epsilons = trade_off_epsilons(mu)
    return epsilons, deltas_of_unit("row", [Loss(mu, 1.0, discrete=False)], epsilons)
