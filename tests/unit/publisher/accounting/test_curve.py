"""The (epsilon, delta) curve of discrete noise against exact sums and against dp-accounting's own distributions."""

import math
from collections import Counter
from typing import Any

import mpmath
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld

from dp_bundle.base.errors import PrivacyError
from dp_publish.accounting.conversions import epsilon_for_delta, epsilon_for_delta_zcdp
from dp_publish.accounting.curve import Loss, deltas_of_unit, epsilon_of_unit, has_at_most, privacy_curve

DELTAS = [1e-4, 1e-6, 1e-10]


def exact_delta(mu: float, epsilon: float) -> Any:
    """Return delta of mu-GDP (Dong, Roth & Su, corollary 2.13), in 60 digits."""
    with mpmath.workdps(60):
        mu, epsilon = mpmath.mpf(mu), mpmath.mpf(epsilon)
        return mpmath.ncdf(-epsilon / mu + mu / 2) - mpmath.exp(epsilon) * mpmath.ncdf(-epsilon / mu - mu / 2)


def discrete_delta(sigma: float, width: int, epsilon: float) -> float:
    """Return the hockey-stick divergence of N_Z(0, sigma^2) from its shift by `width`, in floats, to 1e-9 of it."""
    reach = int(15 * sigma) + width
    k = np.arange(-reach, reach + 1, dtype=float)
    log_weight = -(k**2) / (2 * sigma**2)
    loss = ((k + width) ** 2 - k**2) / (2 * sigma**2)
    gain = np.exp(log_weight) * -np.expm1(np.minimum(epsilon - loss, 0.0))
    return math.fsum(gain[loss > epsilon]) / math.fsum(np.exp(log_weight))


@pytest.mark.parametrize(("sigma", "mu"), [(0.5, 5.0), (1.0, 1.0), (16.0, 0.5), (1000.0, 1.0), (3000.0, 25.0)])
def test_single_column_is_bounded_closely(sigma: float, mu: float) -> None:
    """The exact delta at the stated epsilon is at most delta, and above it a thousandth earlier.

    From sigma = 1000 on, where no distribution is composed, it is close to 0.5 %.
    """
    width = max(1, round(mu * sigma))
    for delta in DELTAS:
        epsilon = epsilon_of_unit("row", [Loss(width, sigma, discrete=True)], delta)
        exact, earlier = (discrete_delta(sigma, width, each) for each in (epsilon, epsilon * (1 - 1e-3) - 1e-3))
        assert exact <= delta * (1 + 1e-9)
        assert earlier > delta
        assert sigma < 1000 or exact >= delta * 0.995


@pytest.mark.slow
@pytest.mark.parametrize(
    ("losses", "max_rows", "common_mu"),
    [
        ([Loss(1, 1.0, True)] * 3, 1, 0.0),
        ([Loss(1, 2.0, True), Loss(7, 20.0, True), Loss(0.5, 1.0, False)], 1, 0.3),
        ([Loss(1, 4.0, True)], 9, 0.2),
    ],
)
def test_composition_is_that_of_dp_accounting(losses: list[Loss], max_rows: int, common_mu: float) -> None:
    """Columns, rows of an entity and the search compose to what dp-accounting gives on a grid ten times finer."""
    whole = pld.from_gaussian_mechanism(1e6, value_discretization_interval=2e-5)
    for loss in losses * max_rows + ([Loss(common_mu, 1.0, False)] if common_mu else []):
        part = (
            pld.from_discrete_gaussian_mechanism(
                loss.sigma, sensitivity=int(loss.width), value_discretization_interval=2e-5
            )
            if loss.discrete
            else pld.from_gaussian_mechanism(loss.sigma / loss.width, value_discretization_interval=2e-5)
        )
        whole = whole.compose(part)
    for delta in (1e-4, 1e-6):
        found = epsilon_of_unit("entity", losses, delta, max_rows, common_mu)
        assert found == pytest.approx(whole.get_epsilon_for_delta(delta), rel=1e-3)


def test_all_continuous_is_exact() -> None:
    """Continuous columns, entities and the search add up to one mu, whose exact curve is used."""
    losses = [Loss(3.0, 1.0, discrete=False), Loss(8.0, 2.0, discrete=False)]
    mu = math.sqrt(4 * 25 + 11)
    assert epsilon_of_unit("entity", losses, 1e-6, 4, math.sqrt(11)) == pytest.approx(epsilon_for_delta(mu, 1e-6))
    assert epsilon_of_unit("cell", losses, 1e-6, common_mu=3.0) == pytest.approx(epsilon_for_delta(5.0, 1e-6))


def test_epsilon_of_many_discrete_columns_has_its_delta_again() -> None:
    """Where the rounding of many columns is percents of delta, both are inverse; where it is more, rho says more."""
    losses = [Loss(10, 1000.0, discrete=True)]
    epsilon = epsilon_of_unit("row", losses, 1e-6, 10**5)
    assert deltas_of_unit("row", losses, [epsilon], 10**5) == [pytest.approx(1e-6, rel=1e-7)]
    many = epsilon_of_unit("row", losses, 1e-6, 10**6)
    assert many == pytest.approx(epsilon_for_delta_zcdp(50.0, 1e-6), rel=1e-9)


def test_tiny_deltas_fall_back_on_rho() -> None:
    """Below what a numerical distribution or a tail bound can tell, the curve is that of zero-concentrated privacy."""
    for sigma in (2.0, 5000.0):
        losses = [Loss(sigma, sigma, discrete=True)]
        assert epsilon_of_unit("row", losses, 1e-60) == epsilon_for_delta_zcdp(0.5, 1e-60)


@pytest.mark.parametrize("mu", [2e-4, 0.1, 1.0, 20.0, 3e4])
def test_printed_epsilons_are_on_the_safe_side(mu: float) -> None:
    """Every point of a continuous table holds in 60 digits, and none is wasteful by more than a few billionths."""
    points = privacy_curve("row", [Loss(mu, 1.0, discrete=False)])
    assert [point.epsilon for point in points] == sorted(point.epsilon for point in points)
    for point in points:
        assert exact_delta(mu, point.epsilon) <= point.delta
        assert point.epsilon == 0 or exact_delta(mu, point.epsilon * (1 - 3e-9)) > point.delta


@pytest.mark.parametrize("discrete", [True, False])
def test_no_noise_has_no_curve(discrete: bool) -> None:
    """Noise so weak that no sensible epsilon exists is refused and not given a meaningless number."""
    with pytest.raises(PrivacyError):
        privacy_curve("row", [Loss(1e9, 1000.0, discrete)])


@pytest.mark.parametrize("delta", [1e-4, 1e-10])
def test_of_many_cells_the_worst_is_found_by_composing_few(delta: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wide table's epsilon is that of its worst cell, exactly, and hardly any cell's loss is composed for it."""
    losses = [Loss(width, width * 1.003 ** (width % 3), discrete=True) for width in range(20, 100, 10)]
    each = [epsilon_of_unit("cell", [loss], delta, common_mu=0.1) for loss in losses]
    composed, original = [], pld.from_discrete_gaussian_mechanism

    def count(sigma: float, **options: Any) -> object:
        composed.append(sigma)
        return original(sigma, **options)

    monkeypatch.setattr(pld, "from_discrete_gaussian_mechanism", count)
    assert epsilon_of_unit("cell", losses, delta, common_mu=0.1) == max(each)
    assert len(composed) < len(losses) / 2


def test_continuous_noise_bounds_what_small_discrete_noise_costs() -> None:
    """Where the closed form says that a cell has at most this epsilon, its exact delta there is no larger."""
    for sigma, width in ((4.0, 2), (4.0, 4), (16.0, 16), (16.0, 40)):
        for delta in DELTAS:
            loss = Counter([Loss(width, sigma, discrete=True)])
            epsilon = next(e for e in np.arange(0.0, 60.0, 0.05).tolist() if has_at_most(loss, delta, e))
            assert discrete_delta(sigma, width, epsilon) <= delta * (1 + 1e-9)
