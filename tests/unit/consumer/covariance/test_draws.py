"""Draws of the error of a released covariance: their variances, and the splits and subsamples that are made of them."""

from dataclasses import replace

import numpy as np
import pytest

from dp_learn.covariance.estimate import NoiseAndGaps, NoiseLaw, NoisyCovariance, PooledCovariance, ReleasedCovariance
from dp_learn.covariance.one_round import OneRound
from dp_learn.covariance.sample import draw_splits, draw_subsamples
from dp_learn.covariance.standard_errors import form_errors
from dp_learn.covariance.two_rounds import TwoRounds

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
    one = OneRound(N_ROWS, widths, mean, 0.8, 60.0, 16.0)
    nothing, rest = np.zeros(3), np.diag([0.3, 0.0, 0.1]) + 0.02 * (1.0 - np.eye(3))
    forms = np.array([[1.1, 0.0, 0.0], [0.0, 1.0, 0.4], [0.0, 0.0, 1.2]])
    two = TwoRounds.from_variances(basis, variances, np.array([0.2, 0.1, -0.4, 1.0]))
    return {
        "without gaps": NoiseAndGaps(two.of_forms(forms), NoisyCovariance(N_ROWS, S, nothing, nothing, rest)),
        "one round": one,
        "one round, rows counted by it": replace(one, exact_count=False),
        "two rounds": two,
    }


def pooled_with(law: NoiseLaw) -> PooledCovariance:
    """Return a release with this noise."""
    released = ReleasedCovariance(N_ROWS, S, law, kurtosis=1.3)
    return PooledCovariance(("a", "b", "c"), S, (released,))


@pytest.mark.slow
@pytest.mark.parametrize("name", list(laws()))
def test_draws_have_the_stated_errors(name: str) -> None:
    """The variance of any form over 3000 draws is the closed one, and not that of less kurtosis."""
    pooled = pooled_with(laws()[name])
    draws = np.array(draw_subsamples(pooled, 3000, 0.5)) - S  # a share of a half: as much error as S^ has
    found = np.var(FORMS @ draws @ FORMS.T, axis=0)
    wrong = form_errors(replace(pooled, sources=(replace(pooled.sources[0], kurtosis=1.0),)), FORMS).products

    np.testing.assert_allclose(found, form_errors(pooled, FORMS).products, rtol=0.12)
    np.testing.assert_allclose(draws.mean(axis=0), 0.0, atol=4.0 * np.sqrt(found.max() / 3000))
    assert np.abs(found / wrong - 1.0).max() > 0.12


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
