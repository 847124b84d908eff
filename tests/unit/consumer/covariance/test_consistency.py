"""Rows that contradict their manifest are found, and true ones are left alone."""

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np
import pytest
from tests.two_rounds import manifest_of, release_in_two_rounds

from dp_bundle.manifest.columns import Column, Noise
from dp_bundle.manifest.matrix_noise import SecondMoments
from dp_learn.covariance.consistency import (
    find_contradictions,
    find_moment_contradictions,
    find_round_contradictions,
)
from dp_learn.covariance.moments import batch_moments
from dp_learn.covariance.two_rounds import RoundMatrices
from dp_publish.accounting.strength import ApproximateDP
from dp_publish.covariance.exact_moments import moments_of_batch
from dp_publish.covariance.mechanisms.base import mechanism_named
from dp_publish.covariance.scaling import scaling_for
from dp_publish.release.covariance import state_moments
from dp_publish.sampling.gaussian import sample_discrete_gaussian, sample_rounded_gaussian
from dp_publish.sampling.keystream import SecureKeystream
from printed_forms import make

STEP = 2.0**-8


def column(name: str, noise: Noise, kind: str = "continuous") -> Column:
    """Return a column with this noise."""
    return Column(name=name, kind=kind, bounds=(-1, 1), bounds_obtained="declared", noise=noise)


def continuous(names: Iterable[str], sigma: float = 1.0) -> list[Column]:
    """Return columns with rounded Gaussian noise."""
    return [column(name, Noise.rounded_gaussian(sigma, STEP * sigma)) for name in names]


def noisy(n_rows: int, n_features: int, scale: float = 1.0) -> np.ndarray:
    """Return rows of noise alone, `scale` times as strong as `continuous` states."""
    return sample_rounded_gaussian(scale / STEP, (n_rows, n_features)) * STEP


def contradictions(columns: list[Column], values: np.ndarray) -> list[str]:
    """Return what is found in these rows."""
    return find_contradictions(columns, batch_moments(values, [column.noise.granularity for column in columns]))


@pytest.mark.parametrize(("n_rows", "n_features"), [(3, 5), (50, 40), (20_000, 2)])
def test_true_statements_are_believed(n_rows: int, n_features: int) -> None:
    """Noise alone, the hardest of true cases, and noise on rank-one data are both accepted."""
    columns = continuous(f"c{index}" for index in range(n_features))
    rows = noisy(n_rows, n_features)

    assert contradictions(columns, rows) == []
    assert contradictions(columns, rows + (np.arange(n_rows) % 3 - 1.0)[:, None]) == []

    sparse = [column(name, Noise.discrete_gaussian(sigma), "integer") for name, sigma in (("a", 0.2), ("b", 3.0))]
    drawn = [sample_discrete_gaussian(each.noise.sigma, 500) for each in sparse]  # of a fifth of a step it moves few
    assert contradictions(sparse, np.column_stack(drawn).astype(float)) == []


def off_grid() -> np.ndarray:
    """Return rows of which two values are between the grid's lines."""
    values = noisy(1000, 2)
    values[3:5, 1] += STEP / 2
    return values


def on_grid(*columns: np.ndarray, step: float = STEP) -> np.ndarray:
    """Return columns side by side, rounded to the grid."""
    return np.rint(np.column_stack(columns) / step) * step


def with_shared_noise() -> np.ndarray:
    """Return columns that vary enough one by one, with the same noise in both."""
    shared = noisy(2000, 1)
    return on_grid(shared, shared + noisy(2000, 1, 0.125))


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (off_grid, "in b: 2 of 1000"),
        (lambda: on_grid(noisy(5000, 1), noisy(5000, 1, 0.9)), "b vary less"),
        (with_shared_noise, "smallest eigenvalue"),
    ],
)
def test_other_noise_than_stated_is_found(values: Callable[[], np.ndarray], said: str) -> None:
    """Values off the grid are counted, and noise of 0.9 sigma, or in both columns, is found by what it leaves."""
    (sentence,) = contradictions(continuous("ab"), values())

    assert said in sentence


def test_values_far_beyond_the_bounds_are_found() -> None:
    """Values at both ends of the bounds are the most that is allowed; twice as far is named."""
    ends = np.where(np.arange(400) % 2, 1.0, -1.0)[:, None]
    columns = continuous("ab", 0.5)
    allowed = ends + noisy(400, 2, 0.5)

    assert contradictions(columns, on_grid(allowed, step=1 / 512)) == []
    (sentence,) = contradictions(columns, on_grid(allowed + [0.0, 1.0] * ends, step=1 / 512))
    assert "b vary more" in sentence


def released_moments(mechanism: str, rows: np.ndarray) -> tuple[SecondMoments, np.ndarray]:
    """Release rows within the bounds, and return what the manifest would say, and the matrix."""
    kind = mechanism_named(mechanism)
    moments = moments_of_batch(rows, scaling_for([(-1.0, 1.0)] * 3))
    chosen = make(kind, moments, kind.form_of(ApproximateDP(1.0, 1e-6)))
    found = chosen.draw(moments, SecureKeystream())
    return state_moments(chosen, found), found.matrix


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace", "wishart-difference", "wishart"])
def test_impossible_second_moments_are_found(mechanism: str) -> None:
    """A sum of squares below zero or above the rows, too large a product or mean, and an entry off the grid.

    Of a noisy number of rows, which sets no upper limit, negative sums of squares are.
    """
    n_rows = 5000
    noise, matrix = released_moments(mechanism, np.full((n_rows, 3), 0.5))
    assert find_moment_contradictions(noise, "abc", matrix, n_rows, exact_count=True) == []
    far = 40.0 * np.sqrt(noise.diagonal_variance)
    step = noise.granularity
    for (i, j), value in {
        (1, 1): noise.bias - step * np.ceil(far / step),
        (0, 0): step * np.ceil((noise.bias + n_rows + far) / step),
        (0, 2): -step * np.ceil((n_rows + far) / step),
        (1, 3): step * np.ceil((n_rows * noise.constant + far) / step),
    }.items():
        altered = matrix.copy()
        altered[i, j] = altered[j, i] = np.rint(value / step) * step
        (sentence,) = find_moment_contradictions(noise, "abc", altered, n_rows, exact_count=True)
        assert f" {'abc'[i]} " in sentence or f" {'abc'[i]}, " in sentence
        uncounted = find_moment_contradictions(noise, "abc", altered, n_rows, exact_count=False)
        assert any("sums" in each for each in uncounted) == (i == j == 1)
    altered = matrix.copy()
    altered[0, 1] = altered[1, 0] = altered[0, 1] + step / 4
    (sentence,) = find_moment_contradictions(noise, "abc", altered, n_rows, exact_count=True)
    assert "1 of 10" in sentence


def released_rounds(rows: np.ndarray, seed: int = 0) -> tuple[SecondMoments, RoundMatrices]:
    """Release rows in two rounds, and return what the manifest says, and the matrices."""
    place = {"center": np.zeros(3), "scale": np.ones(3), "clip": 2.0}
    rounds = release_in_two_rounds(rows, 2.0, np.random.default_rng(seed), **place)
    moments = manifest_of(rounds, "abc").second_moments
    assert moments is not None
    return moments, RoundMatrices(*rounds.matrices, rounds.transform)


def test_impossible_rounds_are_found() -> None:
    """Sums beyond the clip of round 1 or the radius of round 2, and a fourth moment that no rows have, are named.

    Rows at their clip and radii, and far beyond them, pass.
    """
    n_rows = 1000
    for size in (1.0, 50.0):
        moments, matrices = released_rounds(np.full((n_rows, 3), size))
        assert find_round_contradictions(moments, "abc", matrices, n_rows) == []
    moments, matrices = released_rounds(np.random.default_rng(4).normal(size=(n_rows, 3)))
    first, fourth = moments.first_round, moments.fourth_moment
    assert first.radius**2 > 1.01 * 2.0**2  # the ball alone would allow what is beyond the clip
    for noise, name, (i, j), most, said in (
        (first, "first", (1, 1), 1.01 * 2.0**2, "round 1, sums over the rows with b are"),
        (moments, "final", (0, 2), moments.radius**2, "round 2, sums over the rows with a, c are"),
    ):
        beyond = getattr(matrices, name).copy()
        steps = np.ceil((n_rows * most + 8 * np.sqrt(noise.diagonal_variance)) / noise.granularity)
        beyond[i, j] = beyond[j, i] = steps * noise.granularity
        (sentence,) = find_round_contradictions(moments, "abc", replace(matrices, **{name: beyond}), n_rows)
        assert said in sentence

    squares = np.trace(matrices.final[:3, :3]) / moments.radius**2
    room = 10 * (np.sqrt(fourth.variance) + np.sqrt(3 * moments.diagonal_variance) / moments.radius**2)
    for total in (squares**2 / n_rows - room, squares + room):
        other = moments.model_copy(update={"fourth_moment": fourth.model_copy(update={"total": total})})
        (sentence,) = find_round_contradictions(other, "abc", matrices, n_rows)
        assert "fourth moment" in sentence
