"""The (epsilon, delta) curve of discrete noise against exact sums and against dp-accounting's own distributions."""

import functools
import math
import time
from collections import Counter
from typing import Any

import mpmath
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from scipy import special

from dp_bundle.base.errors import PrivacyError
from dp_publish.accounting.conversions import delta_for_epsilon, epsilon_for_delta, epsilon_for_delta_zcdp, rho_for_mu
from dp_publish.accounting.curve import Loss, epsilon_of_unit, has_at_most, privacy_curve

DELTAS = [1e-4, 1e-6, 1e-10]


@functools.lru_cache
def weights(sigma: float, width: int) -> tuple[int, list[Any], Any]:
    """Return exp(-k^2 / 2 sigma^2) for all integers within 40 sigma, in 40 digits, and their sum."""
    with mpmath.workdps(40):
        reach = math.ceil(40 * sigma) + width
        half = [mpmath.exp(-(mpmath.mpf(k) ** 2) / (2 * mpmath.mpf(sigma) ** 2)) for k in range(reach + 1)]
        return reach, half[:0:-1] + half, 2 * sum(half[1:]) + half[0]


def exact_delta(sigma: float, width: int, epsilon: float) -> Any:
    """Return the hockey-stick divergence of N_Z(0, sigma^2) from its shift by `width`, summed over all integers."""
    with mpmath.workdps(40):
        reach, probabilities, total = weights(sigma, width)
        factor = mpmath.exp(epsilon)
        first = 2 * reach + 1 - width
        gains = (
            weight - factor * (probabilities[index + width] if index < first else 0)
            for index, weight in enumerate(probabilities)
        )
        return sum(gain for gain in gains if gain > 0) / total


def float_delta(sigma: float, width: int, epsilon: float) -> float:
    """Return the same divergence for a large sigma, in floats, whose error is far below 1e-9 of it."""
    reach = int(15 * sigma) + width
    k = np.arange(-reach, reach + 1, dtype=float)
    log_weight = -(k**2) / (2 * sigma**2)
    loss = ((k + width) ** 2 - k**2) / (2 * sigma**2)
    gain = np.exp(log_weight) * -np.expm1(np.minimum(epsilon - loss, 0.0))
    return math.fsum(gain[loss > epsilon]) / math.fsum(np.exp(log_weight))


@pytest.mark.parametrize("sigma", [0.5, 1.0, 2.0, 16.0])
@pytest.mark.parametrize("mu", [0.5, 1.0, 5.0])
def test_single_column_is_bounded_closely(sigma: float, mu: float) -> None:
    """The exact delta at the stated epsilon is at most delta, and above it a thousandth earlier."""
    width = max(1, round(mu * sigma))
    for delta in DELTAS:
        epsilon = epsilon_of_unit("row", [Loss(width, sigma, discrete=True)], delta)
        assert exact_delta(sigma, width, epsilon) <= delta
        assert exact_delta(sigma, width, epsilon * (1 - 1e-3) - 1e-3) > delta


@pytest.mark.parametrize("sigma", [1000.0, 3000.0])
@pytest.mark.parametrize("mu", [1.0, 3.0, 25.0])
def test_large_sigmas_are_bounded_closely(sigma: float, mu: float) -> None:
    """From sigma = 1000 on, where no distribution is composed, exact sums show the same: sound, and close to 0.5 %."""
    width = round(mu * sigma)
    for delta in DELTAS:
        epsilon = epsilon_of_unit("cell", [Loss(width, sigma, discrete=True)], delta)
        exact = float_delta(sigma, width, epsilon)
        assert exact <= delta * (1 + 1e-9)
        assert exact >= delta * 0.995


def test_discrete_noise_is_not_gaussian_dp() -> None:
    """At sigma = 1 step the true delta is up to about twice that of the Gaussian curve, which is not what is stated."""
    worst = max(float(exact_delta(1.0, 1, e)) / delta_for_epsilon(1.0, e) for e in np.arange(0.05, 6, 0.1).tolist())
    assert 1.5 < worst < 2.6
    assert epsilon_of_unit("row", [Loss(1, 1.0, discrete=True)], 1e-5) > epsilon_for_delta(1.0, 1e-5)


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


def test_mixed_sizes_of_noise_add_up() -> None:
    """Continuous, large and small discrete columns together cost at least the Gaussian curve and at most rho's."""
    losses = [Loss(2.0, 4.0, False), Loss(1000, 2000.0, True), Loss(2, 4.0, True)]
    mu = math.sqrt(0.75)
    for delta in DELTAS:
        found = epsilon_of_unit("row", losses, delta)
        assert epsilon_for_delta(mu, delta) * (1 - 1e-6) <= found <= epsilon_for_delta(mu, delta) * 1.02
        assert found <= epsilon_for_delta_zcdp(rho_for_mu(mu), delta)


def test_tiny_deltas_fall_back_on_rho() -> None:
    """Below what a numerical distribution or a tail bound can tell, the curve is that of zero-concentrated privacy."""
    for sigma in (2.0, 5000.0):
        losses = [Loss(sigma, sigma, discrete=True)]
        assert epsilon_of_unit("row", losses, 1e-60) == epsilon_for_delta_zcdp(0.5, 1e-60)


def test_entities_with_many_rows_take_no_longer() -> None:
    """A cap of a million rows is composed by doubling, not row by row."""
    start = time.process_time()
    epsilon = epsilon_of_unit("entity", [Loss(1, 500.0, discrete=True)], 1e-6, 10**6)
    assert epsilon_for_delta(2.0, 1e-6) <= epsilon <= epsilon_for_delta_zcdp(2.0, 1e-6)
    assert time.process_time() - start < 20


@pytest.mark.parametrize("mu", [2e-4, 0.1, 1.0, 20.0, 3e4])
def test_printed_epsilons_are_on_the_safe_side(mu: float) -> None:
    """Every point of a continuous table holds in 60 digits, and none is wasteful by more than a few billionths."""
    points = privacy_curve("row", [Loss(mu, 1.0, discrete=False)])
    assert [point.epsilon for point in points] == sorted(point.epsilon for point in points)
    with mpmath.workdps(60):
        m = mpmath.mpf(mu)

        def delta(epsilon: float) -> Any:
            return mpmath.ncdf(m / 2 - epsilon / m) - mpmath.exp(epsilon) * mpmath.ncdf(-epsilon / m - m / 2)

        for point in points:
            assert delta(mpmath.mpf(point.epsilon)) <= point.delta
            assert point.epsilon == 0 or delta(mpmath.mpf(point.epsilon) * (1 - mpmath.mpf("3e-9"))) > point.delta


@pytest.mark.parametrize("discrete", [True, False])
def test_no_noise_has_no_curve(discrete: bool) -> None:
    """Noise so weak that no sensible epsilon exists is refused and not given a meaningless number."""
    with pytest.raises(PrivacyError, match="add more noise"):
        privacy_curve("row", [Loss(1e9, 1000.0, discrete)])


def test_judges_agree_with_each_other() -> None:
    """The float sum for large sigma and the 40-digit sum give the same where both can be had."""
    for epsilon in (0.0, 1.0, 4.0):
        assert float_delta(16.0, 16, epsilon) == pytest.approx(float(exact_delta(16.0, 16, epsilon)), rel=1e-9)
    assert exact_delta(16.0, 16, 0.0) == pytest.approx(2 * special.ndtr(0.5) - 1, rel=1e-2)


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
            assert exact_delta(sigma, width, epsilon) <= delta
