"""Weights of sources minimise the error they are to minimise; weights of penalties are 1 without noise."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

from dp_bundle.base.errors import DrownedColumnError
from dp_learn.covariance.collinear import clear_columns
from dp_learn.covariance.debias import NoisyCovariance
from dp_learn.covariance.estimate import PooledCovariance, combine_sources
from dp_learn.covariance.sample import effective_rows, pool_sources
from dp_learn.covariance.standard_errors import chance_alpha, form_variances, null_standard_errors, penalty_weights

CLEAN = np.array([[4.0, 1.2, 0.0], [1.2, 1.0, 0.3], [0.0, 0.3, 9.0]])


def make_source(n_rows: int, variance: list[float]) -> NoisyCovariance:
    """Return a source whose debiased covariance is the clean one."""
    return NoisyCovariance(n_rows, CLEAN + np.diag(variance), np.array(variance), np.zeros(3))


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
    sources = [make_source(80, [0.0, 0.0, 0.0]), make_source(80, [6.0, 1.0, 1.0])]

    assert pool_sources("abc", sources, same_rows=True).weights == (1.0, 0.0)
    assert pool_sources("abc", sources).weights[1] > 0.05


def test_drowned_columns_do_not_decide() -> None:
    """A column with no variance left, whose relative error means nothing, does not change the weights."""
    noisy = [make_source(80, [1.0, 0.5, 2.0]), make_source(500, [6.0, 1.0, 1.0])]
    drowned = []
    for source, noise in zip(noisy, (100.0, 1.0), strict=True):
        covariance = np.zeros((4, 4))
        covariance[:3, :3] = source.covariance
        covariance[3, 3] = noise * 0.99
        variance = np.append(source.noise_variance, noise)
        drowned.append(NoisyCovariance(source.n_rows, covariance, variance, np.zeros(4)))

    expected = pool_sources("abc", noisy).weights
    np.testing.assert_allclose(pool_sources("abcd", drowned).weights, expected, rtol=1e-12)


@pytest.mark.parametrize("same_rows", [False, True])
def test_a_source_of_noise_does_not_drown_another(*, same_rows: bool) -> None:
    """Where one source is noise alone and the other shows all columns, the other has the weight."""
    noise = np.random.default_rng(0).normal(size=(80, 3)) * 1e4
    drowned = NoisyCovariance(80, np.cov(noise.T), np.full(3, 1e8), np.zeros(3))
    pooled = pool_sources("abc", [drowned, make_source(80, [0.1, 0.1, 0.1])], same_rows=same_rows)

    assert pooled.weights[1] > 0.999_999
    assert clear_columns(pooled)[1] == ()


def test_one_source_and_all_columns_drowned_still_have_weights() -> None:
    """One source has weight 1, and sources of noise alone are weighted by their rows."""
    noise = [NoisyCovariance(n, np.eye(2), np.ones(2), np.zeros(2)) for n in (101, 301)]

    assert pool_sources("abc", [make_source(80, [1.0, 0.5, 2.0])]).weights == (1.0,)
    assert pool_sources("ab", noise).weights == (0.25, 0.75)


def test_effective_rows_are_the_rows_without_noise_and_fewer_with_it() -> None:
    """Independent columns with as much noise as signal are worth a quarter of the rows less one."""
    diagonal = NoisyCovariance(401, 2 * np.eye(3), np.ones(3), np.zeros(3))

    assert effective_rows(combine_sources("abc", [make_source(80, [0.0, 0.0, 0.0])])) == pytest.approx(80, rel=1e-12)
    assert effective_rows(combine_sources("abc", [diagonal])) == pytest.approx(1 + 400 / 4, rel=1e-12)
    pooled = combine_sources("abc", [make_source(61, [0.0, 0.0, 0.0])] * 2, (1, 1))
    assert effective_rows(pooled) == pytest.approx(121, rel=1e-12)
    same = combine_sources("abc", [make_source(61, [0.0, 0.0, 0.0])] * 2, (1, 1), same_rows=True)
    assert effective_rows(same) == pytest.approx(61, rel=1e-12)


def test_effective_rows_at_a_model_are_those_behind_its_edges() -> None:
    """At Theta the forms have covariance Theta, the noise adds Theta V Theta, and S^ itself plays no part."""
    clean = np.array([[1.0, 0.9, 0.0], [0.9, 1.0, 0.0], [0.0, 0.0, 1.0]])
    theta, found = np.linalg.inv(clean), []
    for observed in (clean, np.eye(3)):
        pooled = combine_sources(
            "abc", [NoisyCovariance(500, observed + 0.1 * np.eye(3), np.full(3, 0.1), np.zeros(3))]
        )
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
    source = NoisyCovariance(100, np.diag(1.0 + variances), np.ones(5), np.zeros(5))

    kept, drowned = clear_columns(combine_sources("abcde", [source]))
    assert (kept.tolist(), drowned) == ([0, 2, 4], ("b", "d"))
    kept, drowned = clear_columns(combine_sources("abcde", [source, source], (1, 1)))
    assert (kept.tolist(), drowned) == ([0, 2, 3, 4], ("b",))
    discrete = NoisyCovariance(100, source.covariance, source.noise_variance, np.full(5, 1.0))
    kept, drowned = clear_columns(combine_sources("abcde", [discrete]))
    assert (kept.tolist(), drowned) == ([0, 2], ("b", "d", "e"))


@pytest.mark.parametrize(("variances", "which"), [([1.0, -0.1], "all but one"), ([-0.2, 0.0], "all columns")])
def test_too_few_columns_left_are_refused(variances: list[float], which: str) -> None:
    """With one column or none above the noise there is no graph, and the message names the drowned."""
    source = NoisyCovariance(100, np.diag(1.0 + np.array(variances)), np.ones(2), np.zeros(2))
    with pytest.raises(DrownedColumnError, match=f"{which}.*b") as refusal:
        clear_columns(combine_sources("ab", [source]))
    assert refusal.value.columns[-1] == "b"


def test_penalty_weights_are_one_without_noise_and_grow_with_it() -> None:
    """Without noise all are 1; with it the median off the diagonal is, and a noisier column weighs more."""
    np.testing.assert_allclose(penalty_weights(combine_sources("abc", [make_source(80, [0.0] * 3)])), 1.0, rtol=1e-14)
    weights = penalty_weights(combine_sources("abc", [make_source(80, [4.0, 0.0, 0.0])]))

    expected = np.array([[2.0, np.sqrt(2), np.sqrt(2)], [np.sqrt(2), 1.0, 1.0], [np.sqrt(2), 1.0, 1.0]]) / np.sqrt(2)
    np.testing.assert_allclose(weights, expected, rtol=1e-14)


@pytest.mark.parametrize("same_rows", [False, True])
def test_null_errors_are_the_entries_errors_where_the_columns_are_uncorrelated(*, same_rows: bool) -> None:
    """With a diagonal covariance they are the standard errors of the off-diagonal entries in correlation units."""
    s = np.array([4.0, 1.0, 9.0])
    sources = tuple(
        NoisyCovariance(90, np.diag(s + v), np.array(v), np.zeros(3)) for v in ([1.0, 0.5, 2.0], [6.0, 1.0, 1.0])
    )
    pooled = PooledCovariance(tuple("abc"), np.diag(s), sources, (0.3, 0.7), same_rows)
    expected = np.sqrt(form_variances(pooled, np.eye(3)) / np.outer(s, s))
    upper = np.triu_indices(3, 1)

    np.testing.assert_allclose(null_standard_errors(pooled)[upper], expected[upper], rtol=1e-13)
    np.testing.assert_allclose(
        np.diagonal(null_standard_errors(pooled)), np.diagonal(expected) / np.sqrt(2), rtol=1e-13
    )


def test_pure_noise_is_drowned_almost_always() -> None:
    """A column of noise alone is left out in about 97.7 % of samples, and one without noise never."""
    rng = np.random.default_rng(4)
    rows = rng.normal(size=(400, 200, 3)) * [1.0, 1.0, 1e-3]
    names, noise = ("noise", "signal", "faint"), np.array([1.0, 0.0, 0.0])
    sources = [NoisyCovariance(200, np.diag(variance), noise, np.zeros(3)) for variance in rows.var(axis=1, ddof=1)]
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
