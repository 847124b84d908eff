"""Sources are debiased, cut, checked, and weighted so that their error is least; penalties weigh 1 without noise."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from scipy import special
from scipy.linalg import block_diag
from tests.unit.consumer.sources import pooled_of, source_of

from dp_bundle.base.errors import DrownedColumnError, ParameterError
from dp_bundle.manifest.columns import Column, Noise
from dp_learn import debias_covariance
from dp_learn.covariance.collinear import clear_columns
from dp_learn.covariance.estimate import (
    NoisyCovariance,
    PooledCovariance,
    combine_sources,
    keep_columns,
    noise_fourth_cumulants,
)
from dp_learn.covariance.sample import effective_rows, pool_sources
from dp_learn.covariance.standard_errors import chance_alpha, form_variances, null_standard_errors, penalty_weights

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
    """Where one release of the same rows has no noise, the others say nothing more; other rows would."""
    sources = [make_source(80), make_source(80, [6.0, 1.0, 1.0])]

    assert pool_sources("abc", sources, same_rows=True).weights == (1.0, 0.0)
    assert pool_sources("abc", sources).weights[1] > 0.05


def test_drowned_columns_do_not_decide() -> None:
    """A column with no variance left, whose relative error means nothing, does not change the weights."""
    noisy = [make_source(80, [1.0, 0.5, 2.0]), make_source(500, [6.0, 1.0, 1.0])]
    drowned = [
        source_of(each.n_rows, block_diag(each.covariance, noise * 0.99), np.append(each.noise_variance, noise))
        for each, noise in zip(noisy, (100.0, 1.0), strict=True)
    ]

    expected = pool_sources("abc", noisy).weights
    np.testing.assert_allclose(pool_sources("abcd", drowned).weights, expected, rtol=1e-12)


@pytest.mark.parametrize("same_rows", [False, True])
def test_a_source_of_noise_does_not_drown_another(*, same_rows: bool) -> None:
    """Where one source is noise alone and the other shows all columns, the other has the weight."""
    noise = np.random.default_rng(0).normal(size=(80, 3)) * 1e4
    drowned = source_of(80, np.cov(noise.T), 1e8)
    pooled = pool_sources("abc", [drowned, make_source(80, 0.1)], same_rows=same_rows)

    assert pooled.weights[1] > 0.999_999
    assert clear_columns(pooled)[1] == ()


def test_one_source_and_all_columns_drowned_still_have_weights() -> None:
    """One source has weight 1, and sources of noise alone are weighted by their rows."""
    noise = [source_of(n, np.eye(2), 1.0) for n in (101, 301)]

    assert pool_sources("abc", [make_source(80, [1.0, 0.5, 2.0])]).weights == (1.0,)
    assert pool_sources("ab", noise).weights == (0.25, 0.75)


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


def test_effective_rows_at_a_model_are_those_behind_its_edges() -> None:
    """At Theta the forms have covariance Theta, the noise adds Theta V Theta, and S^ itself plays no part."""
    clean = np.array([[1.0, 0.9, 0.0], [0.9, 1.0, 0.0], [0.0, 0.0, 1.0]])
    theta, found = np.linalg.inv(clean), []
    for observed in (clean, np.eye(3)):
        pooled = pooled_of(500, observed, 0.1)
        found.append(effective_rows(pooled, theta))
    a = theta + 0.1 * theta @ theta
    upper = np.triu_indices(3, 1)
    scale = np.outer(np.diagonal(theta), np.diagonal(theta))
    with_noise = (np.outer(np.diagonal(a), np.diagonal(a)) + a**2) / scale
    without = 1 + theta**2 / scale

    np.testing.assert_allclose(found, 1 + 499 * without[upper].sum() / with_noise[upper].sum(), rtol=1e-10)
    assert found[0] < 0.7 * effective_rows(pooled)


def test_drowned_columns_are_left_out_and_named() -> None:
    """A column must exceed twice the error of the variance of noise alone, which several sources make smaller."""
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


@pytest.mark.parametrize(("variances", "which"), [([1.0, -0.1], "all but one"), ([-0.2, 0.0], "all columns")])
def test_too_few_columns_left_are_refused(variances: list[float], which: str) -> None:
    """With one column or none above the noise there is no graph, and the message names the drowned."""
    source = source_of(100, np.diag(1.0 + np.array(variances)), 1.0)
    with pytest.raises(DrownedColumnError, match=f"{which}.*b") as refusal:
        clear_columns(combine_sources("ab", [source]))
    assert refusal.value.columns[-1] == "b"


def test_penalty_weights_are_one_without_noise_and_grow_with_it() -> None:
    """Without noise all are 1; with it the median off the diagonal is, and a noisier column weighs more."""
    np.testing.assert_allclose(penalty_weights(combine_sources("abc", [make_source(80)])), 1.0, rtol=1e-14)
    weights = penalty_weights(combine_sources("abc", [make_source(80, [4.0, 0.0, 0.0])]))

    expected = np.array([[2.0, np.sqrt(2), np.sqrt(2)], [np.sqrt(2), 1.0, 1.0], [np.sqrt(2), 1.0, 1.0]]) / np.sqrt(2)
    np.testing.assert_allclose(weights, expected, rtol=1e-14)


@pytest.mark.parametrize("same_rows", [False, True])
def test_null_errors_are_the_entries_errors_where_the_columns_are_uncorrelated(*, same_rows: bool) -> None:
    """With a diagonal covariance they are the standard errors of the off-diagonal entries in correlation units."""
    s = np.array([4.0, 1.0, 9.0])
    sources = tuple(source_of(90, np.diag(s + v), v) for v in ([1.0, 0.5, 2.0], [6.0, 1.0, 1.0]))
    pooled = PooledCovariance(tuple("abc"), np.diag(s), sources, (0.3, 0.7), same_rows)
    expected = np.sqrt(form_variances(pooled, np.eye(3)) / np.outer(s, s))
    np.fill_diagonal(expected, np.diagonal(expected) / np.sqrt(2))

    np.testing.assert_allclose(null_standard_errors(pooled), expected, rtol=1e-13)


def test_pure_noise_is_drowned_almost_always() -> None:
    """A column of noise alone is left out in about 97.7 % of samples, and one without noise never."""
    rng = np.random.default_rng(4)
    rows = rng.normal(size=(400, 200, 3)) * [1.0, 1.0, 1e-3]
    names, noise = ("noise", "signal", "faint"), np.array([1.0, 0.0, 0.0])
    sources = [source_of(200, np.diag(variance), noise) for variance in rows.var(axis=1, ddof=1)]
    drowned = [clear_columns(combine_sources(names, [source]))[1] for source in sources]

    assert set(drowned) == {(), ("noise",)}
    assert 0.0 < np.mean([not names for names in drowned]) < 0.06


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


def test_chance_alpha_counts_penalised_pairs_only() -> None:
    """A pair that is free or forbidden is no edge of chance; with no pair at all, any alpha will do."""
    errors = np.full((4, 4), 0.1)
    errors[0, 1] = errors[1, 0] = 100.0
    weights = np.ones((4, 4))
    weights[0, 1] = weights[1, 0] = 0.0

    assert chance_alpha(errors, weights) < 1.0 < chance_alpha(errors)
    assert chance_alpha(errors, np.full((4, 4), np.inf)) == 0.0


def unequal(n_rows: int = 50, level: float = 3.0, noise: float = 1.0) -> NoisyCovariance:
    """Return a source of three columns with unequal noise."""
    return source_of(n_rows, level * np.eye(3) + 0.5, noise * np.array([1.0, 0.5, 0.0]), [0.1, 0.2, 0.3])


def test_covariance_is_the_weighted_mean_of_the_debiased_ones() -> None:
    """Each source loses its own noise, and the weights are divided by their sum."""
    pooled = combine_sources("abc", [unequal(level=3.0), unequal(level=5.0, noise=2.0)], (1, 3))

    assert pooled.columns == ("a", "b", "c")
    assert pooled.weights == (0.25, 0.75)
    expected = 0.5 + np.diag(0.25 * np.array([2.0, 2.5, 3.0]) + 0.75 * np.array([3.0, 4.0, 5.0]))
    np.testing.assert_allclose(pooled.covariance, expected, rtol=1e-15)
    np.testing.assert_array_equal(np.diagonal(pooled.correlation), 1.0)


def test_columns_are_cut_from_everything() -> None:
    """What is kept is what the covariance of those columns alone would be."""
    whole, kept = unequal(), np.array([0, 2])
    cut = keep_columns(combine_sources("abc", [whole]), kept)
    alone = source_of(50, whole.covariance[np.ix_(kept, kept)], whole.noise_variance[kept], [0.1, 0.3])
    expected = combine_sources("ac", [alone])

    assert cut.columns == expected.columns
    np.testing.assert_array_equal(cut.covariance, expected.covariance)
    for name in ("covariance", "noise_variance", "noise_fourth_cumulant"):
        np.testing.assert_array_equal(getattr(cut.sources[0], name), getattr(alone, name))


def test_fourth_cumulants_have_the_columns_units() -> None:
    """On a grid of 1/2 the rounded noise's cumulant is 1/16 of that on the integers: -1/120 of a step to the fourth."""
    noises = [Noise.discrete_gaussian(0.5), Noise.rounded_gaussian(4.0, 1.0), Noise.rounded_gaussian(4.0, 0.5)]
    kinds = ["integer", "continuous", "continuous"]
    columns = [
        Column(name=kind, kind=kind, bounds=(0.0, 1.0), bounds_obtained="declared", noise=noise)
        for kind, noise in zip(kinds, noises, strict=True)
    ]
    k = np.arange(-9, 10)
    discrete = np.average(k**4.0, weights=np.exp(-2.0 * k * k)) - 3 * noises[0].variance ** 2

    np.testing.assert_allclose(noise_fourth_cumulants(columns), [discrete, -1 / 120, -1 / 1920], rtol=1e-12)


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: NoisyCovariance(5, np.eye(2), np.zeros(3), np.zeros(2)), r"noise_variance\.shape"),
        (lambda: NoisyCovariance(5, np.ones((2, 3)), np.zeros(2), np.zeros(2)), r"covariance\.shape"),
        (lambda: source_of(1, np.eye(2)), "n_rows"),
        (lambda: combine_sources("ab", [unequal()]), "sources"),
        (lambda: combine_sources("abc", []), "sources"),
        *(
            (lambda w=w: combine_sources("abc", [unequal(), unequal()], w), "weights")
            for w in ((1.0,), (0.0, 0.0), (-1.0, 2.0), (np.nan, 1.0))
        ),
        (lambda: combine_sources("abc", [unequal(50), unequal(51)], (1, 1), same_rows=True), "row counts"),
        (lambda: pooled_of(5, np.diag([1.0, -0.1]), 0.1).deviations, "positive debiased variance.*'c1'"),
    ],
)
def test_what_does_not_fit_together_is_refused(call: Callable[[], object], named: str) -> None:
    """Shapes, weights and row counts are checked, and a column without variance has no correlation."""
    with pytest.raises(ParameterError, match=named):
        call()


def test_only_the_diagonal_changes() -> None:
    """The noise variances come off the diagonal, nothing else changes, and the input stays as it was."""
    covariance = np.array([[2.0, 0.5], [0.5, 3.0]])
    debiased = debias_covariance(covariance, [0.5, 4.0])

    np.testing.assert_array_equal(debiased, [[1.5, 0.5], [0.5, -1.0]])
    np.testing.assert_array_equal(covariance, [[2.0, 0.5], [0.5, 3.0]])


@pytest.mark.parametrize("variance", [[1.0], [1.0, -1.0], [1.0, np.nan], [[1.0, 2.0], [2.0, 1.0]]])
def test_wrong_variances_are_refused(variance: object) -> None:
    """One finite, non-negative variance per column is needed, or a covariance matrix."""
    with pytest.raises(ParameterError, match="noise_variance"):
        debias_covariance(np.eye(2), variance)
