"""The errors of bilinear forms against exact enumeration, closed forms, and the definition row by row."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from dp_bundle.base.errors import EstimationError, ParameterError
from dp_learn.covariance.debias import FormErrors, NoisyCovariance, isserlis
from dp_learn.covariance.estimate import PooledCovariance, combine_sources
from dp_learn.covariance.moments import row_errors
from dp_learn.covariance.sample import pool_sources
from dp_learn.covariance.standard_errors import (
    clean_forms,
    combine_row_errors,
    form_errors,
    form_variances,
    mechanism_errors,
)

Law = list[tuple[float, np.ndarray]]  # probabilities and what they are of

FORMS = np.array([[1.0, -0.7], [0.4, 1.3], [0.0, 1.0]])
CLEAN_LAW: Law = [
    (0.4, np.array([0.0, 0.0])),
    (0.3, np.array([1.0, 2.0])),
    (0.2, np.array([3.0, 1.0])),
    (0.1, np.array([-2.0, 4.0])),
]
NOISE_LAW: Law = [  # columns with three and with two values, the first of high and the second of low kurtosis
    (p * q, np.array([x, y]))
    for (p, x), (q, y) in itertools.product([(0.1, -2.0), (0.8, 0.0), (0.1, 2.0)], [(0.5, -0.6), (0.5, 0.6)])
]
NOISE_VARIANCE = np.array([0.8, 0.36])
NOISE_FOURTH_CUMULANT = np.array([3.2 - 3 * 0.8**2, -2 * 0.36**2])


def sampling_errors(pooled: PooledCovariance, b: np.ndarray) -> FormErrors:
    """Return what the forms would vary by without noise, for Gaussian rows."""
    c = clean_forms(pooled, b)
    return isserlis(c, c).times(pooled.sampling_factor)


def source(n_rows: int, covariance: np.ndarray, variance: float | np.ndarray = 0.0) -> NoisyCovariance:
    """Return a source with Gaussian noise."""
    p = len(covariance)
    return NoisyCovariance(n_rows, covariance, np.broadcast_to(np.asarray(variance, float), (p,)), np.zeros(p))


def random_covariance(p: int, seed: int) -> np.ndarray:
    """Return a positive definite matrix."""
    factor = np.random.default_rng(seed).normal(size=(p, 2 * p))
    return factor @ factor.T / (2 * p)


def errors_of_two_rows(law: Law) -> FormErrors:
    """Return the exact errors of the forms of the sample covariance of two independent rows, over all outcomes."""
    outcomes = []
    for (p, x), (q, y) in itertools.product(law, law):
        values = FORMS @ (x - y)
        f = np.outer(values, values) / 2.0
        outcomes.append((p * q, f, np.add.outer(np.diagonal(f), np.diagonal(f)) / 2.0))
    weight = np.array([p for p, _, _ in outcomes])[:, None, None]
    f = np.array([f for _, f, _ in outcomes])
    s = np.array([s for _, _, s in outcomes])
    f, s = f - (weight * f).sum(axis=0), s - (weight * s).sum(axis=0)
    return FormErrors((weight * f * f).sum(axis=0), 2 * (weight * f * s).sum(axis=0), (weight * s * s).sum(axis=0))


def assert_same(first: FormErrors, second: FormErrors, rtol: float = 1e-12) -> None:
    """Compare all three matrices."""
    for name in ("products", "crossed", "squares"):
        size = np.abs(getattr(second, name)).max()
        np.testing.assert_allclose(getattr(first, name), getattr(second, name), rtol=rtol, atol=rtol * size)


def test_mechanism_part_is_exact_for_rows_and_noise_of_any_distribution() -> None:
    """With two rows of skewed data and non-Gaussian noise, all outcomes give just what the mechanism's part adds."""
    noisy_law = [(p * q, x + e) for (p, x), (q, e) in itertools.product(CLEAN_LAW, NOISE_LAW)]
    points = np.array([x for _, x in CLEAN_LAW])
    covariance = np.cov(points, rowvar=False, aweights=[p for p, _ in CLEAN_LAW], ddof=0)
    noisy = NoisyCovariance(2, covariance + np.diag(NOISE_VARIANCE), NOISE_VARIANCE, NOISE_FOURTH_CUMULANT)
    pooled = combine_sources(("a", "b"), [noisy])

    assert_same(mechanism_errors(pooled, FORMS) + errors_of_two_rows(CLEAN_LAW), errors_of_two_rows(noisy_law))


def test_entries_of_one_source_have_the_gaussian_variance() -> None:
    """With B = I and one source the variance is (s~_ii s~_jj + s~_ij^2) / (n - 1) of the noisy covariance."""
    noisy = random_covariance(5, 1) + 0.5 * np.eye(5)
    d = np.diagonal(noisy)
    pooled = combine_sources(tuple("abcde"), [source(101, noisy, 0.5)])

    np.testing.assert_allclose(form_variances(pooled, np.eye(5)), (np.outer(d, d) + noisy**2) / 100, rtol=1e-13)


def test_along_is_the_variance_of_a_partial_correlation() -> None:
    """Without noise, along -f_ij it is (1 - r^2)^2 / (n - 1), the variance of a correlation."""
    correlation = np.array([[1.0, 0.6], [0.6, 1.0]])
    errors = form_errors(combine_sources(("a", "b"), [source(201, correlation)]), np.eye(2))

    assert errors.along(-0.6)[0, 1] == pytest.approx((1 - 0.36) ** 2 / 200, rel=1e-12)


def test_releases_of_the_same_rows_share_the_sampling_error() -> None:
    """Over independent rows two equal sources halve the whole variance, over the same rows only the noise's part."""
    noisy = random_covariance(4, 2) + np.eye(4)
    one = combine_sources(tuple("abcd"), [source(50, noisy, 1.0)])
    two = combine_sources(tuple("abcd"), [source(50, noisy, 1.0)] * 2, (1, 1))
    same = replace(two, same_rows=True)
    b = np.linalg.inv(noisy)

    assert_same(form_errors(two, b), form_errors(one, b).times(0.5))
    assert_same(form_errors(same, b), sampling_errors(one, b) + mechanism_errors(one, b).times(0.5))


@pytest.mark.parametrize("same_rows", [False, True])
def test_variances_are_not_negative_where_the_covariance_is_indefinite(*, same_rows: bool) -> None:
    """With negative variances and correlations above one, no combination of form and squares is below zero."""
    rng = np.random.default_rng(3)
    for _ in range(50):
        indefinite = rng.normal(size=(6, 6))
        indefinite += indefinite.T
        sources = (source(30, np.eye(6), rng.uniform(0, 2, 6)), source(30, np.eye(6), rng.uniform(0, 2, 6)))
        pooled = PooledCovariance(tuple("abcdef"), indefinite, sources, (0.3, 0.7), same_rows)
        errors = form_errors(pooled, rng.normal(size=(4, 6)))
        for r in np.linspace(-2, 2, 21):
            assert errors.along(r).min() >= -1e-14 * errors.along(r).max()


def test_row_errors_are_those_of_the_products_row_by_row() -> None:
    """In any batches they are the rows' variances and covariances of the products, over n."""
    rng = np.random.default_rng(4)
    rows = rng.exponential(size=(300, 2)) ** 2
    y = (rows - rows.mean(axis=0)) @ FORMS.T
    f = y[:, :, None] * y[:, None, :]
    squares = (y[:, :, None] ** 2 + y[:, None, :] ** 2) / 2
    f, squares = f - f.mean(axis=0), squares - squares.mean(axis=0)
    expected = FormErrors((f * f).mean(axis=0), 2 * (f * squares).mean(axis=0), (squares**2).mean(axis=0))

    for known in (None, np.cov(rows.T)):
        found = row_errors(np.split(rows, [10, 10, 250]), rows.mean(axis=0), FORMS, known)

        assert_same(found, expected.times(1 / 300), rtol=1e-11)
        np.testing.assert_array_equal(found.products, found.products.T)


def test_row_errors_of_gaussian_rows_are_those_of_the_model() -> None:
    """With 400 000 noisy Gaussian rows both agree to 2 % of the largest variance, and not with noise left out."""
    rng = np.random.default_rng(5)
    rows = rng.multivariate_normal([3.0, -1.0], [[2.0, 0.9], [0.9, 1.0]], 400_000) + rng.normal(size=(400_000, 2))
    pooled = combine_sources(("a", "b"), [source(len(rows), np.cov(rows, rowvar=False), 1.0)])
    found = row_errors([rows], rows.mean(axis=0), FORMS)

    assert_same(found, form_errors(pooled, FORMS), rtol=0.02)
    assert (sampling_errors(pooled, FORMS).products < 0.8 * found.products).all()


def test_row_errors_combine_like_the_model() -> None:
    """From the model's own errors of each source, the pooled errors are the model's, in both ways of pooling."""
    clean = random_covariance(3, 6)
    sources = [source(40, clean + np.diag(v), np.array(v)) for v in ([0.2, 0.4, 1.0], [2.0, 0.1, 0.0])]
    each = [form_errors(combine_sources(("a", "b", "c"), [one]), np.eye(3)) for one in sources]
    for same_rows in (False, True):
        pooled = combine_sources(("a", "b", "c"), sources, (0.4, 0.6), same_rows=same_rows)
        assert_same(combine_row_errors(pooled, np.eye(3), each), form_errors(pooled, np.eye(3)))
    with pytest.raises(ParameterError, match="errors"):
        combine_row_errors(pooled, np.eye(3), each[:1])


def test_too_few_rows_are_refused() -> None:
    """One row has no variance."""
    with pytest.raises(EstimationError, match="two rows"):
        row_errors([np.ones((1, 2))], np.zeros(2), np.eye(2))


def test_a_noisy_release_does_not_blur_the_errors_of_another() -> None:
    """Beside a release with a hundred thousand times the noise, rows have the errors that their better release gives.

    No combination of variances along r is negative, although each is a difference of estimates.
    """
    rng = np.random.default_rng(5)
    rows = rng.exponential(size=(300, 3)) @ [[1.0, 0.5, 0.0], [0.0, 1.0, 0.5], [0.0, 0.0, 1.0]]
    each, sources = [], []
    for sigma in (0.1, 100.0):
        noisy = rows + rng.normal(size=rows.shape) * sigma
        sources.append(NoisyCovariance(300, np.cov(noisy.T), np.full(3, sigma**2), np.zeros(3)))
        each.append(row_errors([noisy], noisy.mean(axis=0), np.eye(3)))
    pooled = pool_sources("abc", sources, same_rows=True)
    found = combine_row_errors(pooled, np.eye(3), each)
    alone = combine_row_errors(combine_sources("abc", sources[:1]), np.eye(3), each[:1])

    np.testing.assert_allclose(found.products, alone.products, rtol=0.01)
    for weights in ((0.5, 0.5), (0.1, 0.9)):
        errors = combine_row_errors(combine_sources("abc", sources, weights, same_rows=True), np.eye(3), each)
        assert min(errors.along(r).min() for r in np.linspace(-1, 1, 201)) >= 0.0


@pytest.mark.parametrize("p", [5, 220])
def test_variances_alone_are_those_of_all_errors(p: int) -> None:
    """The quick way to the variances, also by sparse products of many columns, agrees with the errors' own."""
    rng = np.random.default_rng(0)
    covariance = np.cov(rng.normal(size=(3 * p, p)).T)
    sources = [
        NoisyCovariance(n_rows, covariance + np.diag(variance), variance, 0.1 * variance**2)
        for n_rows, variance in ((300, rng.uniform(0.1, 1.0, p)), (900, rng.uniform(0.1, 1.0, p)))
    ]
    pooled = combine_sources([f"c{index}" for index in range(p)], sources, [0.3, 0.7])
    sparse = np.eye(p) + 0.3 * (np.eye(p, k=1) + np.eye(p, k=-1))
    for b in (sparse, rng.normal(size=(p, p))):
        np.testing.assert_allclose(form_variances(pooled, b), form_errors(pooled, b).products, rtol=1e-10)
