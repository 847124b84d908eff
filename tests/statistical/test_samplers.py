"""Ten million draws of each sampler pass at the true scale, and fail at 0.97 and 1.03 of it."""

import itertools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import special, stats

from dp_publish.sampling.gaussian import sample_discrete_gaussian, sample_rounded_gaussian
from dp_publish.sampling.keystream import insecure_keystream

N_DRAWS = 10_000_000
SIGMAS = [0.3, 1.0, 5.0, 300.0, 1e6]
FURTHER_SIGMAS = [0.5, 30.0, 255.0, 256.0, 511.0, 512.0, 1000.0, 4096.0]  # on both sides of every change of method
WRONG = [0.97, 1.03]
MAX_BINS = 400

Sampler = Callable[..., NDArray[np.int64]]
Law = Callable[[float, NDArray[np.int64]], NDArray[np.float64]]


def _discrete_pmf(sigma: float, k: NDArray[np.int64]) -> NDArray[np.float64]:
    weights: NDArray[np.float64] = np.exp(-((k / sigma) ** 2) / 2) / np.exp(-((_support(sigma) / sigma) ** 2) / 2).sum()
    return weights


def _discrete_below(sigma: float, k: NDArray[np.int64]) -> NDArray[np.float64]:
    support = _support(sigma)
    sums: NDArray[np.float64] = np.cumsum(np.exp(-((support / sigma) ** 2) / 2))
    return sums[k - 1 - support[0]] / sums[-1]


def _rounded_pmf(sigma: float, k: NDArray[np.int64]) -> NDArray[np.float64]:
    return special.ndtr((0.5 - abs(k)) / sigma) - special.ndtr((-0.5 - abs(k)) / sigma)


def _rounded_below(sigma: float, k: NDArray[np.int64]) -> NDArray[np.float64]:
    return special.ndtr((k - 0.5) / sigma)


def _support(sigma: float) -> NDArray[np.int64]:
    return np.arange(-int(10 * sigma) - 10, int(10 * sigma) + 11)


class Drawn(NamedTuple):
    """Draws of one sampler at one scale, and the law that they should follow."""

    sigma: float
    values: NDArray[np.int64]
    pmf: Law
    below: Law


LAWS = {
    sample_discrete_gaussian: (_discrete_pmf, _discrete_below),
    sample_rounded_gaussian: (_rounded_pmf, _rounded_below),
}


@pytest.fixture(
    scope="module",
    params=itertools.product(LAWS, [*SIGMAS, *FURTHER_SIGMAS]),
    ids=lambda each: f"{each[0].__name__} {each[1]}",
)
def drawn(request: pytest.FixtureRequest) -> Drawn:
    """Draw once for all tests of a sampler at one scale, which pytest runs one after the other."""
    sample, sigma = request.param
    return Drawn(sigma, sample(sigma, N_DRAWS, insecure_keystream(2025)), *LAWS[sample])


def _bin_edges(sigma: float) -> NDArray[np.int64]:
    """Return edges of at most 400 bins of a Gaussian that hold at least 1e-5 each."""
    quantiles = stats.norm.ppf(np.linspace(0, 1, MAX_BINS + 1)[1:-1])
    tails = stats.norm.ppf([1e-5, 1e-4])
    edges = np.ceil(np.concatenate((tails, quantiles, -tails)) * sigma)
    return np.unique(edges[abs(edges) < 4.3 * sigma + 1]).astype(np.int64)


@pytest.mark.slow
def test_frequencies(drawn: Drawn) -> None:
    """A chi-squared test accepts the true scale and rejects 0.97 and 1.03 of it."""
    sigma, values, _, below = drawn
    edges = _bin_edges(sigma)
    counts = np.bincount(np.searchsorted(edges, values, side="right"), minlength=edges.size + 1)

    def p_value(factor: float) -> float:
        expected = np.diff(below(factor * sigma, edges), prepend=0.0, append=1.0) * N_DRAWS
        kept = expected > 25
        rest, expected_rest = counts[~kept].sum(), expected[~kept].sum()
        statistic = ((counts[kept] - expected[kept]) ** 2 / expected[kept]).sum()
        if expected_rest > 0:
            statistic += (rest - expected_rest) ** 2 / max(expected_rest, 25.0)
        return float(stats.chi2.sf(statistic, np.count_nonzero(kept) - (expected_rest == 0)))

    assert 1e-3 < p_value(1.0) < 1 - 1e-6
    assert all(p_value(factor) < 1e-12 for factor in WRONG)


@pytest.mark.slow
def test_moments(drawn: Drawn) -> None:
    """The first four moments are those of the true scale, and those of 0.97 and 1.03 of it are rejected."""
    sigma, values, pmf = drawn.sigma, drawn.values / drawn.sigma, drawn.pmf
    squares = values**2

    def scores(factor: float) -> NDArray[np.float64]:
        step = max(1, int(sigma / 100))  # a sum over every step-th integer is as exact, by Poisson summation
        support = step * _support(sigma / step)
        probabilities, points = step * pmf(factor * sigma, support), support / sigma
        moment = {order: float(probabilities @ points**order) for order in (2, 4, 6, 8)}
        found = np.array([values.mean(), squares.mean(), (values * squares).mean(), (squares**2).mean()])
        expected = np.array([0, moment[2], 0, moment[4]])
        errors = np.sqrt([moment[2], moment[4] - moment[2] ** 2, moment[6], moment[8] - moment[4] ** 2])
        scores: NDArray[np.float64] = (found - expected) / errors * np.sqrt(N_DRAWS)
        return scores

    assert (abs(scores(1.0)) < 4).all()
    for factor in WRONG:
        wrong = abs(scores(factor))
        assert wrong[1] > 8
        assert wrong[3] > 8


@pytest.mark.slow
def test_low_bits_are_fair(drawn: Drawn) -> None:
    """The residues modulo 8, where a coarse method would show, are as frequent as they should be."""
    sigma, values, pmf, _ = drawn
    counts = np.bincount(values & 7, minlength=8)
    support = _support(min(sigma, 300.0))  # beyond, the residues are uniform to all digits
    expected = np.bincount(support & 7, weights=pmf(min(sigma, 300.0), support)) * N_DRAWS
    kept = expected > 25
    assert stats.chisquare(counts[kept], expected[kept] / expected[kept].sum() * counts[kept].sum()).pvalue > 1e-3


@pytest.mark.slow
def test_draws_are_uncorrelated(drawn: Drawn) -> None:
    """Values, their squares and their signs are uncorrelated with those 1 to 20 draws later."""
    values = drawn.values[: 1 << 20] / drawn.sigma
    for series in (values, values**2, np.sign(values)):
        centred = (series - series.mean()) / series.std()
        scores = [np.sqrt(len(values)) * np.mean(centred[lag:] * centred[:-lag]) for lag in range(1, 21)]
        assert np.abs(scores).max() < 4.5


@pytest.mark.parametrize("sigma", SIGMAS)
@pytest.mark.parametrize("sample", LAWS)
def test_columns_are_uncorrelated(sample: Sampler, sigma: float) -> None:
    """Columns drawn one after the other from one keystream are uncorrelated, and so are their squares."""
    n, rng = 1 << 18, insecure_keystream(17)
    columns = np.stack([sample(sigma, n, rng) for _ in range(10)]) / sigma
    for table in (columns, columns**2):
        scores = np.sqrt(n) * np.corrcoef(table)[np.triu_indices(10, 1)]
        assert np.abs(scores).max() < 4.5
