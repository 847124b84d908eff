"""Draws of the error of a released covariance: their variances, and the splits and subsamples that are made of them."""

from dataclasses import replace

import numpy as np
import pytest

from dp_learn.covariance.estimate import (
    NoiseLaw,
    NoisyCovariance,
    PooledCovariance,
    ReleasedCovariance,
    combine_sources,
)
from dp_learn.covariance.sample import ErrorLaw, draw_splits
from dp_learn.covariance.standard_errors import form_errors
from dp_learn.covariance.two_rounds import noise_of_one_round

N_ROWS = 400
S = np.array([[2.0, 0.6, 0.0], [0.6, 1.0, -0.3], [0.0, -0.3, 0.5]])
FORMS = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.3, -1.0, 2.0], [0.0, 0.5, 1.0]])


def laws() -> dict[str, NoiseLaw]:
    """Return one law of every kind, of noise no larger than the sampling error."""
    rng = np.random.default_rng(0)
    basis = rng.normal(size=(3, 4))
    inverse = rng.uniform(1.0, 3.0, 4)
    variances = 0.002 / np.outer(inverse, inverse)
    widths, mean = np.array([2.0, 1.5, 1.0]), np.array([0.4, -0.2, 0.1])
    one = (N_ROWS, widths, mean, 0.8, (60.0, 16.0))
    nothing, rest = np.zeros(3), np.diag([0.3, 0.0, 0.1]) + 0.02 * (1.0 - np.eye(3))
    forms = np.array([[1.1, 0.0, 0.0], [0.0, 1.0, 0.4], [0.0, 0.0, 1.2]])
    two = NoiseLaw.of_two_rounds(basis, variances, np.array([0.2, 0.1, -0.4, 1.0]))
    return {
        "without gaps": replace(two.of_forms(forms), rest=NoisyCovariance(N_ROWS, S, nothing, nothing, rest)),
        "one round": noise_of_one_round(*one),
        "one round, rows counted by it": noise_of_one_round(*one, exact_count=False),
        "two rounds": two,
    }


def pooled_with(law: NoiseLaw) -> PooledCovariance:
    """Return a release with this noise."""
    released = ReleasedCovariance(N_ROWS, S, law, kurtosis=1.3)
    return PooledCovariance(("a", "b", "c"), S, (released,))


def test_splits_are_those_of_folds() -> None:
    """Folds have the released mean and K times its error; each is held out from the mean of the others."""
    pooled = pooled_with(laws()["two rounds"])
    splits = draw_splits(pooled, 5)
    tests = np.array([split.test for split in splits])

    np.testing.assert_allclose(tests.mean(axis=0), S, atol=1e-12)
    for out, split in enumerate(splits):
        np.testing.assert_allclose(split.train, np.delete(tests, out, axis=0).mean(axis=0), atol=1e-12)

    many = np.array([split.test for split in draw_splits(pooled, 400)])
    np.testing.assert_allclose(many.var(axis=0) / 399, form_errors(pooled, np.eye(3)).products, rtol=0.3)


@pytest.mark.parametrize("name", list(laws()))
def test_fewer_rows_have_the_same_noise_on_their_sums(name: str) -> None:
    """Draws for a share of a half have twice the variance of sampling, and four times that of the noise."""
    pooled = pooled_with(laws()[name])
    draws = np.array(list(ErrorLaw(pooled, S, 0.5).draws(np.random.default_rng(0), 3000)))
    (source,) = pooled.sources
    half = type(source)(200, S, source.known_noise.of_share(0.5), kurtosis=1.3)  # type: ignore[call-arg]
    expected = form_errors(combine_sources("abc", [half]), FORMS).products

    np.testing.assert_allclose(np.var(FORMS @ draws @ FORMS.T, axis=0), expected, rtol=0.12)


def test_draws_of_rows_have_the_stated_errors() -> None:
    """Noise on rows, of any kurtosis, has the closed variances, and of a half of the rows twice these."""
    noise = np.array([0.5, 1.0, 0.2])
    source = NoisyCovariance(300, S + np.diag(noise), noise, np.array([0.0, 0.3, 0.0]))
    pooled = combine_sources("abc", [source])
    expected = form_errors(pooled, FORMS).products * 299
    for share, n_rows in ((1.0, 300), (0.5, 150)):
        law = ErrorLaw(pooled, source.debiased, share)
        draws = np.array(list(law.draws(np.random.default_rng(0), 3000)))
        np.testing.assert_allclose(np.var(FORMS @ draws @ FORMS.T, axis=0) * (n_rows - 1), expected, rtol=0.12)
