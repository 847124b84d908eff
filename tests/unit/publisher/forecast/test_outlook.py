"""A forecast follows from the number of rows, the bounds and the policy alone, and `plan` says what it means."""

import math
from typing import Any

import numpy as np
import pytest
from tests.conftest import policy_with

from dp_bundle.base.errors import ParameterError
from dp_publish.accounting.strength import GaussianDP
from dp_publish.accounting.trade_off import EnvelopeTradeOff, GaussianTradeOff
from dp_publish.covariance.calibration import set_mechanism
from dp_publish.covariance.exact_moments import moments_of_batch
from dp_publish.forecast.assumptions import assumed_spreads
from dp_publish.forecast.outlook import Outlook, describe_held, forecast
from dp_publish.forecast.planned import PlannedRelease
from dp_publish.policy.choices import DEFAULT_SPREAD
from dp_publish.policy.model import ColumnPolicy, Policy, Sought
from dp_publish.rows.calibration import calibrate
from dp_publish.rows.private_bounds import half_width_for
from dp_publish.sampling.keystream import insecure_keystream


def forecast_one(n_rows: int, n_features: int, *, kind: str = "continuous", **options: object) -> Outlook:
    """Return the forecast for columns with bounds from 0 to 8; `spread` is passed on, the rest is the strength."""
    assumed = {name: options.pop(name) for name in ("spread",) if name in options}
    columns = {f"c{index}": ColumnPolicy(bounds=(0.0, 8.0)) for index in range(n_features)}
    policy = policy_with(columns, **options)
    return forecast(policy, dict.fromkeys(columns, kind), n_rows, **assumed)  # type: ignore[arg-type]


def test_noise_is_that_of_a_release(policy: Policy) -> None:
    """Every sigma is the one that publishing would use."""
    kinds = {"height": "continuous", "weight": "continuous", "visits": "integer"}
    columns = calibrate(policy, kinds)

    row = forecast(policy, kinds, 400)

    assert row.sigma == {column.name: column.noise.sigma for column in columns}
    assert row.mu == pytest.approx(20.0, rel=1e-9)


def test_histograms_are_not_promised_where_a_search_may_leave_too_little() -> None:
    """What columns are may be yet to be found, at a part of the strength; where nothing is, all is known."""
    policy, kinds = policy_with({}, release="covariance", mu=1.0), dict.fromkeys("abc", "continuous")
    sought = policy.model_copy(update={"sought": Sought(tuple(kinds), (), {}, 0)})
    assert [("at most" in describe_held(forecast(each, kinds, 300))) for each in (policy, sought)] == [False, True]


STRENGTHS: list[dict[str, Any]] = [
    *({"unit": unit, "mu": mu} for unit in ("cell", "row") for mu in (0.5, 3.0, 20.0)),
    *({"release": "covariance", "mechanism": "two-round", "mu": 1.0, "spread": spread} for spread in (0.1, 2e-4)),
]


@pytest.mark.parametrize("asked", STRENGTHS, ids=str)
@pytest.mark.parametrize("n_features", [2, 5, 40])
def test_rows_needed_are_exactly_enough(asked: dict[str, Any], n_features: int) -> None:
    """With the stated number of rows the target is seen, and with one row less not, though noise may depend on it."""

    def seen(n_rows: int) -> float:
        return forecast_one(n_rows, n_features, **asked).of(release).seen or math.inf

    row = forecast_one(50, n_features, **asked)
    for release in ("rows", "covariance")["release" in asked :]:
        for target, needed in row.of(release).needed.items():
            assert seen(needed) <= target * (1 + 1e-9)
            assert seen(needed - 1) > target * (1 - 1e-9)
    if "release" in asked:
        assert seen(row.least_rows_for_moments) < math.inf
        assert seen(row.least_rows_for_moments - 1) == math.inf


def test_threshold_is_where_benjamini_and_hochberg_settle() -> None:
    """Drawn p-values of 2,000 columns in pairs, at the stated effect, give 80 % power and 5 % false discoveries."""
    p, n_rows = 2000, 10**6
    row = forecast_one(n_rows, p, mu=1e4)
    assert row.rows.seen is not None
    rho, m, edges = row.rows.seen, p * (p - 1) // 2, p // 2
    rng = np.random.default_rng(5)
    z = np.abs(rng.normal(size=m))
    z[:edges] = np.abs(rng.normal(size=edges) + rho * math.sqrt(n_rows / (1 + rho**2)))
    order = np.argsort(-z)
    tails = np.vectorize(math.erfc)(z[order[:10_000]] / math.sqrt(2))
    last = np.flatnonzero(tails <= 0.05 * np.arange(1, 10_001) / m)[-1]
    found = order[: last + 1]

    assert np.mean(found >= edges) == pytest.approx(0.05, abs=0.025)
    assert np.count_nonzero(found < edges) / edges == pytest.approx(0.8, abs=0.04)


def test_moments_are_forecast_with_the_noise_of_a_release() -> None:
    """The error is that of a release's own variance, in correlations, beside chance; a cell costs what a row does."""
    n_rows, p, spread = 500, 4, 0.2
    columns = {f"c{index}": {"bounds": (0.0, 8.0)} for index in range(p)}
    for strength in (
        {"mu": 1.5, "mechanism": "gaussian"},
        {"epsilon": 0.7},
    ):
        policy = policy_with(columns, release="covariance", **strength)
        kinds = dict.fromkeys(columns, "continuous")
        row = forecast(policy, kinds, n_rows, spread=spread)
        setting = set_mechanism(policy, kinds, lambda: n_rows)
        drawn = setting.draw(moments_of_batch(np.zeros((1, p)), setting.scaling), insecure_keystream(1))
        assert drawn.noise.off_diagonal_variance is not None
        scaled = (2 * spread) ** 2
        means = 1 + (1 - scaled) / setting.scaling.constant**2
        noise = math.sqrt(drawn.noise.off_diagonal_variance * means) / n_rows / scaled
        assert row.moments.error == pytest.approx(math.hypot(noise, n_rows**-0.5), rel=1e-3)
        assert row.mu == pytest.approx(setting.spends(1).mu, rel=1e-6)
    by_row, by_cell = forecast_one(500, p, mu=1.0), forecast_one(500, p, mu=1.0, unit="cell")
    assert by_row.moments.error == by_cell.moments.error
    assert by_row.rows.error > by_cell.rows.error


@pytest.mark.parametrize("wrong", [{"n_rows": 0}, {"spread": 0.0}, {"spread": 0.51}])
def test_arguments_out_of_range_are_refused(wrong: dict[str, Any]) -> None:
    """No rows, or a spread that no bounded column can have, is an error that names the argument."""
    with pytest.raises(ParameterError, match=next(iter(wrong))):
        forecast_one(**{"n_rows": 10, "n_features": 3, "mu": 1.0, **wrong})


@pytest.mark.parametrize(("n_rows", "spread"), [(200, None), (10**6, None), (200, 0.3)])
def test_found_bounds_have_the_spread_that_they_are_chosen_for(n_rows: int, spread: float | None) -> None:
    """Noise to signal is (2 h / mu)^2 for bounds of h deviations to either side, unless the policy gives a spread."""
    policy = policy_with(dict.fromkeys("ab", ColumnPolicy(spread=spread)), unit="cell", mu=3.0)
    row = forecast(policy, dict.fromkeys("ab", "continuous"), n_rows)
    mu = 3.0 * math.sqrt(0.9)
    inverse = 2 * half_width_for(n_rows, mu) if spread is None else 1 / spread
    assert row.noise_to_signal == pytest.approx((inverse / mu) ** 2, rel=1e-3)


@pytest.mark.parametrize(("highest", "limit"), [(5000, 1), (300, 3), (40, 1)])
def test_counts_are_assumed_to_vary_as_independent_cases_do(highest: int, limit: int) -> None:
    """Cases that come one by one, in steps of what one person changes, have the assumed standard deviation."""
    column = {"kind": "integer", "bounds": [0, highest], "max_change": limit}
    policy = policy_with({"n": column}, unit="change", mu=1.0)
    mean = DEFAULT_SPREAD * highest
    cases = limit * np.random.default_rng(5).poisson(mean / limit, 200_000)
    assumed = assumed_spreads(policy, ["n"])["n"] * highest
    assert assumed == pytest.approx(cases.std(), rel=0.01)
    assert assumed < DEFAULT_SPREAD * highest
    own = policy_with({"n": {**column, "spread": 0.3}}, unit="change", mu=1.0)
    assert assumed_spreads(own, ["n"]) == {"n": 0.3}


KINDS = {"height": "continuous", "visits": "integer"}


def planned_by(privacy: dict[str, Any]) -> PlannedRelease:
    """Return the release of 1000 rows by a policy for a continuous and an integer column."""
    columns = {"height": {"bounds": [120.0, 220.0]}, "visits": {"bounds": [0.0, 4.0]}}
    return forecast(policy_with(columns, **privacy), KINDS, 1000).planned


def test_an_epsilon_with_exceptions_is_protected_by_just_that() -> None:
    """Wishart noise may tell all with probability delta; a pure epsilon limits the odds by e^epsilon."""
    wishart = planned_by({"epsilon": 1.0, "delta": 1e-3, "release": "covariance", "mechanism": "wishart"})
    assert wishart.trade_off == EnvelopeTradeOff([(1.0, 1e-3)])
    assert math.isinf(wishart.trade_off.odds_factor(1e-4))
    pure = planned_by({"mu": 1.0, "release": "covariance", "mechanism": "laplace"})
    epsilon = GaussianDP(1.0).pure_epsilon
    assert pure.trade_off.odds_factor(0.01) == pytest.approx(math.exp(epsilon))
    assert pure.trade_off.right_of_two == pytest.approx(GaussianTradeOff(1.0).right_of_two)
