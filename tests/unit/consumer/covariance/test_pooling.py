"""Sources are debiased, cut, checked, and weighted so that their error is least; penalties weigh 1 without noise."""

import numpy as np
import numpy.typing as npt
import pytest
from scipy import special
from tests.unit.consumer.sources import source_of

from dp_bundle.base.errors import DrownedColumnError, ParameterError
from dp_bundle.manifest.columns import Column, Noise
from dp_learn import debias_covariance
from dp_learn.covariance.collinear import clear_columns
from dp_learn.covariance.estimate import NoisyCovariance, combine_sources, noise_fourth_cumulants
from dp_learn.covariance.sample import effective_rows, pool_sources
from dp_learn.covariance.standard_errors import chance_alpha, form_variances

CLEAN = np.array([[4.0, 1.2, 0.0], [1.2, 1.0, 0.3], [0.0, 0.3, 9.0]])


def make_source(n_rows: int, variance: npt.ArrayLike = 0.0) -> NoisyCovariance:
    """Return a source whose debiased covariance is the clean one."""
    return source_of(n_rows, CLEAN + np.diag(np.broadcast_to(variance, 3)), variance)


def mean_error(sources: list[NoisyCovariance], weight: float, *, same_rows: bool) -> float:
    """Return the mean squared error of the off-diagonal entries on the correlation scale."""
    pooled = combine_sources("abc", sources, (weight, 1 - weight), same_rows=same_rows)
    s = np.diagonal(pooled.covariance)
    return float((form_variances(pooled, np.eye(3)) / np.outer(s, s))[np.triu_indices(3, 1)].mean())


@pytest.mark.parametrize("same_rows", [False, True])
def test_pooled_weights_have_the_least_error(*, same_rows: bool) -> None:
    """A hundredth more or less of either source's weight makes the mean squared error larger."""
    sources = [make_source(80, [1.0, 0.5, 2.0]), make_source(80 if same_rows else 500, [6.0, 1.0, 1.0])]
    weight = pool_sources("abc", sources, same_rows=same_rows).weights[0]
    best = mean_error(sources, weight, same_rows=same_rows)

    assert 0.05 < weight < 0.95
    assert all(mean_error(sources, weight + step, same_rows=same_rows) > best for step in (-0.01, 0.01))


def test_noiseless_release_of_the_same_rows_is_enough() -> None:
    """Where one release of the same rows has no noise, the others say nothing more; other rows would.

    Sources of noise alone are weighted by their rows.
    """
    assert pool_sources("ab", [source_of(n, np.eye(2), 1.0) for n in (101, 301)]).weights == (0.25, 0.75)
    sources = [make_source(80), make_source(80, [6.0, 1.0, 1.0])]
    assert pool_sources("abc", sources, same_rows=True).weights == (1.0, 0.0)
    assert pool_sources("abc", sources).weights[1] > 0.05


@pytest.mark.parametrize("same_rows", [False, True])
def test_a_source_of_noise_does_not_drown_another(*, same_rows: bool) -> None:
    """Where one source is noise alone and the other shows all columns, the other has the weight."""
    noise = np.random.default_rng(0).normal(size=(80, 3)) * 1e4
    drowned = source_of(80, np.cov(noise.T), 1e8)
    pooled = pool_sources("abc", [drowned, make_source(80, 0.1)], same_rows=same_rows)

    assert pooled.weights[1] > 0.999_999
    assert clear_columns(pooled)[1] == ()


def test_effective_rows_are_the_rows_without_noise_and_fewer_with_it() -> None:
    """Independent columns with as much noise as signal are worth a quarter of the rows less one."""
    one, twice = make_source(80), [make_source(61)] * 2
    for pooled, expected in (
        (combine_sources("abc", [one]), 80),
        (combine_sources("abc", [source_of(401, 2 * np.eye(3), 1.0)]), 1 + 400 / 4),
        (combine_sources("abc", twice, (1, 1)), 121),
        (combine_sources("abc", twice, (1, 1), same_rows=True), 61),
    ):
        assert effective_rows(pooled) == pytest.approx(expected, rel=1e-12)


def test_drowned_columns_are_left_out_and_named() -> None:
    """A column must exceed twice the error of the variance of noise alone, which several sources make smaller.

    Where one column is left there is no graph.
    """
    doubt = 2 * np.sqrt(2 / 99)
    variances = np.array([1.0, -0.1, 2.0, 0.9 * doubt, 1.1 * doubt])
    source = source_of(100, np.diag(1.0 + variances), 1.0)
    for sources, expected, named in (
        ([source], [0, 2, 4], ("b", "d")),
        ([source, source], [0, 2, 3, 4], ("b",)),
        ([source_of(100, source.covariance, 1.0, 1.0)], [0, 2], ("b", "d", "e")),  # of discrete noise
    ):
        kept, drowned = clear_columns(combine_sources("abcde", sources, [1] * len(sources)))
        assert (kept.tolist(), drowned) == (expected, named)
    with pytest.raises(DrownedColumnError) as refusal:
        clear_columns(combine_sources("ab", [source_of(100, np.diag([0.8, 2.0]), 1.0)]))
    assert refusal.value.columns == ["a"]


def test_chance_alpha_makes_a_fifth_of_an_edge() -> None:
    """The probabilities that entries exceed it by chance sum to a fifth, for equal errors and unequal ones."""
    rng = np.random.default_rng(3)
    spread = rng.uniform(0.5, 3.0, 40)
    upper = np.triu_indices(40, 1)
    weights = np.where(rng.random((40, 40)) < 0.5, 0.7, 1.3)
    weights = np.where(np.triu(np.ones((40, 40), dtype=bool)), weights, weights.T)
    for errors, penalty in ((np.full((40, 40), 0.02), None), (0.02 * np.outer(spread, spread), weights)):
        alpha = chance_alpha(errors, penalty)
        limits = alpha * (1.0 if penalty is None else penalty)
        assert 2.0 * float(special.ndtr(-limits / errors)[upper].sum()) == pytest.approx(0.2, rel=0.1)

    free = np.ones((40, 40))  # a pair that is free or forbidden is no edge of chance
    free[0, 1] = free[1, 0] = 0.0
    spoiled = np.where(free == 0.0, 100.0, 0.02)
    assert chance_alpha(spoiled, free) < 1.0 < chance_alpha(spoiled)
    assert chance_alpha(spoiled, np.full((40, 40), np.inf)) == 0.0


def test_fourth_cumulants_have_the_columns_units() -> None:
    """On a grid of 1/2 the rounded noise's cumulant is 1/16 of that on the integers: -1/120 of a step to the fourth."""
    columns = [
        Column(name="any", kind="continuous", bounds=(0.0, 1.0), bounds_obtained="declared", noise=noise)
        for noise in (Noise.rounded_gaussian(4.0, 1.0), Noise.rounded_gaussian(4.0, 0.5))
    ]
    np.testing.assert_allclose(noise_fourth_cumulants(columns), [-1 / 120, -1 / 1920], rtol=1e-12)


@pytest.mark.parametrize(
    "variance", [[1.0], [1.0, -1.0], [[1.0, 2.0], [2.0, 1.0]], [[1.0, 0.0], [0.5, 1.0]], np.eye(3)]
)
def test_wrong_variances_are_refused(variance: npt.ArrayLike) -> None:
    """One finite, non-negative variance per column is needed, or a covariance matrix."""
    with pytest.raises(ParameterError, match="noise_variance"):
        debias_covariance(np.eye(2), variance)
