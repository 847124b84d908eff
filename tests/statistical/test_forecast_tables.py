"""On real tables, with bounds that a publisher would write down, forecast errors are those of a release."""

import math

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_wine

from dp_publish.covariance.calibration import set_mechanism
from dp_publish.covariance.exact_moments import moments_of_batch
from dp_publish.forecast.outlook import ForecastRow, forecast
from dp_publish.policy.model import Policy
from dp_publish.sampling.keystream import insecure_keystream

TABLES = {"wine": load_wine, "breast cancer": load_breast_cancer, "iris": load_iris}
TABLES["diabetes"] = lambda: load_diabetes(scaled=False)
N_DRAWS = 25


def rounded_bounds(low: float, high: float) -> tuple[float, float]:
    """Return a column's range rounded outwards to half a digit of its width, from zero where it starts near zero."""
    step = 10 ** math.floor(math.log10(high - low))
    step /= 2 if high - low < 2.5 * step else 1
    near_zero = 0 <= low < 0.35 * high
    return 0.0 if near_zero else math.floor(low / step) * step, math.ceil(high / step) * step


def forecast_of(x: np.ndarray, bounds: np.ndarray, mu: float, release: str, *, own: bool) -> ForecastRow:
    """Return the forecast of a release of these rows, with every column's own spread or with the default."""
    spreads = x.std(axis=0) / (bounds[:, 1] - bounds[:, 0])
    columns = {
        f"c{index}": {"bounds": limits, **({"spread": spread} if own else {})}
        for index, (limits, spread) in enumerate(zip(bounds.tolist(), spreads.tolist(), strict=True))
    }
    privacy = {"release": release, "mu": mu, **({"mechanism": "gaussian"} if release == "covariance" else {})}
    policy = Policy.model_validate({"dataset": {"name": "t"}, "privacy": privacy, "columns": columns})
    kinds = dict.fromkeys(columns, "continuous")
    return forecast(len(x), policy, kinds, [policy.privacy], with_epsilon=False)[0]


def simulated_moments_error(x: np.ndarray, bounds: np.ndarray, mu: float) -> float:
    """Return the typical error of a correlation: the noise's, from covariance releases, and chance's."""
    n_rows, p = x.shape
    columns = {f"c{index}": {"bounds": limits} for index, limits in enumerate(bounds.tolist())}
    privacy = {"release": "covariance", "mechanism": "gaussian", "mu": mu}
    policy = Policy.model_validate({"dataset": {"name": "t"}, "privacy": privacy, "columns": columns})
    setting = set_mechanism(policy, dict.fromkeys(columns, "continuous"), lambda: n_rows)
    exact = moments_of_batch(x, setting.scaling)
    scaled = (x - setting.scaling.centers) / setting.scaling.half_widths
    clean, deviations = np.cov(scaled, rowvar=False, bias=True), scaled.std(axis=0)

    squares = np.zeros((p, p))
    for seed in range(N_DRAWS):
        matrix = setting.draw(exact, insecure_keystream(seed)).matrix / n_rows
        mean = matrix[:p, p] / setting.scaling.constant
        squares += ((matrix[:p, :p] - np.outer(mean, mean) - clean) / np.outer(deviations, deviations)) ** 2
    noise = np.median(np.sqrt(squares[np.triu_indices(p, 1)] / N_DRAWS))
    return math.hypot(float(noise), n_rows**-0.5)


def simulated_rows_error(x: np.ndarray, sigma: np.ndarray) -> float:
    """Return the typical error of a correlation from noisy rows, drawn anew from the table's own."""
    rng = np.random.default_rng(11)
    deviations = x.std(axis=0)
    squares = np.zeros((x.shape[1], x.shape[1]))
    for _ in range(N_DRAWS):
        noisy = x[rng.integers(0, len(x), len(x))] + sigma * rng.normal(size=x.shape)
        error = np.cov(noisy, rowvar=False) - np.diag(sigma**2) - np.cov(x, rowvar=False)
        squares += (error / np.outer(deviations, deviations)) ** 2
    return float(np.median(np.sqrt(squares[np.triu_indices(len(squares), 1)] / N_DRAWS)))


@pytest.mark.parametrize("name", TABLES)
def test_forecast_errors_are_within_a_factor_of_simulated_ones(name: str) -> None:
    """With the columns' own spreads the forecast is right within 1.5; the default keeps to that on three of four."""
    x = TABLES[name]().data
    bounds = np.array([rounded_bounds(column.min(), column.max()) for column in x.T])

    mu = 10 * forecast_of(x, bounds, 1.0, "covariance", own=True).moments.error
    truth = simulated_moments_error(x, bounds, mu)
    assert 1 / 1.5 < forecast_of(x, bounds, mu, "covariance", own=True).moments.error / truth < 1.5
    by_default = forecast_of(x, bounds, mu, "covariance", own=False).moments.error / truth
    assert (by_default > 1.5) if name == "iris" else (1 / 1.55 < by_default < 1.5)

    mu = math.sqrt(forecast_of(x, bounds, 1.0, "rows", own=True).noise_to_signal)
    row = forecast_of(x, bounds, mu, "rows", own=True)
    assert 1 / 1.5 < row.rows.error / simulated_rows_error(x, np.array(list(row.sigma.values()))) < 1.5
