"""The errors of a covariance that was released itself are those that its noise makes, by simulation."""

from __future__ import annotations

import numpy as np
import pytest

from dp_bundle.base.errors import EstimationError
from dp_bundle.data.recovery import mean_and_covariance
from dp_learn.covariance.collinear import clear_columns
from dp_learn.covariance.debias import ReleasedCovariance
from dp_learn.covariance.estimate import combine_sources
from dp_learn.covariance.one_round import OneRound
from dp_learn.covariance.sample import effective_rows, pool_sources
from dp_learn.covariance.standard_errors import form_errors, mechanism_errors, null_standard_errors

N_ROWS, CONSTANT = 3000, 0.75
HALF = np.array([2.0, 1.0, 5.0])
MEAN = np.array([0.4, -0.2, 0.1])
S = np.array([[0.3, 0.1, 0.0], [0.1, 0.2, -0.05], [0.0, -0.05, 0.25]])  # of the scaled columns
FORMS = np.array([[1.0, 0.0, 0.0], [0.5, -1.0, 0.2], [-0.3, 0.7, 1.0], [0.0, 0.0, 0.1]])


def released_sum(constant: float) -> np.ndarray:
    """Return the sum of (z, c)(z, c)^T over rows with these moments."""
    if not constant:
        return N_ROWS * S  # columns count as centred
    mean = np.append(MEAN, constant)
    exact = np.outer(mean, mean)
    exact[:3, :3] += S
    return N_ROWS * exact


def noise(rng: np.random.Generator, d: int, diagonal: float, beside: float) -> np.ndarray:
    """Return a symmetric matrix of independent noise of these variances."""
    upper = np.triu(rng.normal(size=(d, d)) * np.sqrt(beside), 1)
    return upper + upper.T + np.diag(rng.normal(size=d) * np.sqrt(diagonal))


def source_of(
    matrix: np.ndarray, constant: float, variances: tuple[float, float], *, exact: bool
) -> ReleasedCovariance:
    """Read a released sum as the learner does."""
    mean, covariance, rows = mean_and_covariance(
        matrix, np.zeros(3), HALF, constant, n_rows=N_ROWS if exact else None, off_diagonal_variance=variances[1]
    )
    noise = OneRound(round(rows), HALF, mean / HALF, constant, *variances, exact_count=exact)
    return ReleasedCovariance(round(rows), covariance, noise, exact_count=exact)


@pytest.mark.parametrize("variances", [(2.0, 1.0), (1.0, 1.0), (0.5, 2.0)])
@pytest.mark.parametrize(("constant", "exact"), [(CONSTANT, True), (CONSTANT, False), (0.0, True)])
def test_mechanism_errors_are_those_of_simulated_noise(
    variances: tuple[float, float], constant: float, *, exact: bool
) -> None:
    """Variances of forms and of what normalises them agree with 4000 draws of the noise, isotropic or not."""
    rng = np.random.default_rng(0)
    scale = 400.0
    pair = (scale * variances[0], scale * variances[1])
    clean = released_sum(constant)
    d = len(clean)
    draws = []
    for _ in range(4000):
        matrix = clean + noise(rng, d, *pair)
        if constant and exact:
            matrix[-1, -1] = clean[-1, -1]
        draws.append(FORMS @ source_of(matrix, constant, pair, exact=exact).debiased @ FORMS.T)
    forms = np.array(draws)
    pooled = combine_sources("abc", [source_of(clean, constant, pair, exact=exact)])
    stated = mechanism_errors(pooled, FORMS)

    diagonals = np.diagonal(forms, axis1=1, axis2=2)
    totals = diagonals[:, :, None] + diagonals[:, None, :]
    centred = forms - forms.mean(axis=0)
    np.testing.assert_allclose(centred.var(axis=0), stated.products, rtol=0.12)
    crossed = (centred * (totals - totals.mean(axis=0))).mean(axis=0)
    size = np.sqrt(stated.products * 4.0 * stated.squares)
    np.testing.assert_allclose(crossed / size, stated.crossed / size, atol=0.08)
    np.testing.assert_allclose((totals / 2.0).var(axis=0), stated.squares, rtol=0.12)
    assert np.abs(centred.var(axis=0) / (1.3 * stated.products) - 1.0).min() > 0.12  # it could have failed


def test_the_covariance_is_unbiased() -> None:
    """The mean over many releases is the clean covariance, the noise of the mean's square included."""
    rng = np.random.default_rng(1)
    pair = (4e4, 2e4)  # so strong that the mean's noise matters
    clean = released_sum(CONSTANT)
    draws = []
    for _ in range(4000):
        matrix = clean + noise(rng, 4, *pair)
        matrix[-1, -1] = clean[-1, -1]
        draws.append(source_of(matrix, CONSTANT, pair, exact=True).debiased)
    error = np.std(draws, axis=0) / np.sqrt(len(draws))

    assert (np.abs(np.mean(draws, axis=0) - S * np.outer(HALF, HALF)) < 4.5 * error).all()


def test_sampling_part_is_that_of_rows() -> None:
    """What the rows vary by does not depend on how they were released."""
    pooled = combine_sources("abc", [source_of(released_sum(CONSTANT), CONSTANT, (1.0, 0.5), exact=True)])
    c = FORMS @ (S * np.outer(HALF, HALF)) @ FORMS.T
    d = np.diagonal(c)

    noise = mechanism_errors(pooled, FORMS)
    sampling = form_errors(pooled, FORMS) + noise.times(-1.0)
    np.testing.assert_allclose(sampling.products, (np.outer(d, d) + c * c) / (N_ROWS - 1), rtol=1e-5)
    assert (noise.products > 0.0).all()


def test_weights_rows_and_clear_columns_know_the_release() -> None:
    """A noisier release weighs less, leaves fewer effective rows and larger errors, and drowns columns."""
    clean = released_sum(CONSTANT)
    sharp, blurred = (source_of(clean, CONSTANT, (2 * t, t), exact=True) for t in (10.0, 1e4))
    one, other = (combine_sources("abc", [source]) for source in (sharp, blurred))

    assert 2500 < effective_rows(one) <= N_ROWS
    assert effective_rows(other) < 500
    assert (null_standard_errors(one) < null_standard_errors(other)).all()
    assert pool_sources("abc", [sharp, blurred], same_rows=True).weights[0] == pytest.approx(1000 / 1001, rel=1e-6)
    drowning = combine_sources("abc", [source_of(clean, CONSTANT, (2 * 1.2e5, 1.2e5), exact=True)])
    assert len(clear_columns(one)[0]) == 3
    with pytest.raises(EstimationError, match="drowns"):
        clear_columns(drowning)


def test_mechanism_without_entrywise_noise_says_so() -> None:
    """Where a mechanism states no noise for single entries, no error is made up."""
    source = ReleasedCovariance(100, S, None)
    with pytest.raises(EstimationError, match="states neither the noise of single entries"):
        form_errors(combine_sources("abc", [source]), np.eye(3))


def test_estimated_errors_choose_but_prove_nothing() -> None:
    """An estimate counts like a variance in effective rows and weights; columns need not stand clear of it."""
    noise = OneRound(N_ROWS, HALF, MEAN, CONSTANT, 2e6, 1e6)
    stated, estimated = (
        combine_sources("abc", [ReleasedCovariance(N_ROWS, S, noise, estimated=estimated)])
        for estimated in (False, True)
    )
    assert effective_rows(estimated) == effective_rows(stated) < N_ROWS
    assert (null_standard_errors(estimated) == null_standard_errors(stated)).all()
    assert (stated.has_error_law, estimated.has_error_law) == (True, False)
    assert len(clear_columns(estimated)[0]) == 3
    with pytest.raises(EstimationError, match="drowns"):
        clear_columns(stated)
