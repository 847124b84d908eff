"""Moments in one pass are those of the whole table."""

from functools import reduce

import numpy as np
import pytest

from dp_bundle.base.errors import EstimationError
from dp_learn.covariance.moments import Rows, batch_moments, fold_moments, merge_moments, subsample_moments


@pytest.mark.parametrize("sizes", [[40], [0, 3], [1, 1, 7], [5, 0, 40, 2], [1]])
def test_merging_parts_gives_the_whole(sizes: list[int]) -> None:
    """Moments of parts of any sizes, merged in order, equal numpy's moments of all rows, even far from zero."""
    rng = np.random.default_rng(0)
    parts = [rng.normal(size=(size, 3)) + 1e5 for size in sizes]
    merged = reduce(merge_moments, map(batch_moments, [np.empty((0, 3)), *parts]))
    rows = np.concatenate(parts)

    assert merged.n_rows == len(rows)
    if len(rows) < 2:
        with pytest.raises(EstimationError):
            _ = merged.covariance
    else:
        np.testing.assert_allclose(merged.mean, rows.mean(axis=0), rtol=1e-12, atol=1e-9)
        np.testing.assert_allclose(merged.covariance, np.cov(rows.T), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("n_folds", [1, 3])
def test_moments_are_equal_to_the_bit_on_any_number_of_cores(n_folds: int) -> None:
    """One thread or several merge the same batches in the same order, and each batch counts once."""
    rows = np.random.default_rng(4).normal(1e3, 1.0, size=(5000, 4))
    batches = [Rows(start, lambda start=start: rows[start : start + 130]) for start in range(0, len(rows), 130)]
    alone, *others = [fold_moments(batches, 4, n_folds, n_workers=number) for number in (1, 2, 7)]

    assert sum(fold.n_rows for fold in alone) == len(rows)
    for other in others:
        for name in ("mean", "scatter"):
            np.testing.assert_array_equal(*([getattr(fold, name) for fold in each] for each in (alone, other)))


def test_subsamples_are_different_rows_of_the_asked_share() -> None:
    """Subsamples have about the size asked for, share no pattern, and do not depend on how rows come in batches."""
    rows = np.random.default_rng(0).normal(size=(10_000, 2))
    whole = subsample_moments([Rows(0, lambda: rows)], 2, 20, 0.1)
    parts = subsample_moments([Rows(0, lambda: rows[:1234]), Rows(1234, lambda: rows[1234:])], 2, 20, 0.1)
    sizes = np.array([sample.n_rows for sample in whole])

    assert np.all(np.abs(sizes - 1000) < 5 * np.sqrt(900))
    assert len({sample.mean[0] for sample in whole}) == 20
    # means of independent subsamples without replacement: variance (1 - share) / (share n)
    assert np.std([sample.mean for sample in whole]) == pytest.approx(np.sqrt(0.9 / 1000), rel=0.4)
    for one, other in zip(whole, parts, strict=True):
        np.testing.assert_allclose(one.covariance, other.covariance, rtol=1e-10)
