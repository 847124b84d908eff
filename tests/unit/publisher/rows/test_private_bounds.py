"""Bounds found privately: sensitivities by brute force, bins by definition, bounds on data with known magnitudes."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_publish.rows import private_bounds
from dp_publish.rows.private_bounds import count_magnitudes, find_bounds, histogram_mu, histogram_sigma
from dp_publish.sampling.keystream import insecure_keystream

VALUES = [0.0, 0.3, -0.3, 5.0, -5e20, math.inf, None, math.nan]


def counts_of(*columns: Any) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the exact counts of columns given as lists."""
    arrays = [pa.array(values, None if len(values) else pa.float64()) for values in columns]
    batch = pa.RecordBatch.from_arrays(arrays, names=[str(index) for index in range(len(columns))])
    return count_magnitudes([batch], len(columns))


def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw zeros instead of noise."""
    monkeypatch.setattr(
        private_bounds, "sample_rounded_gaussian", lambda _sigma, size, _rng: np.zeros(size, dtype=np.int64)
    )


@pytest.mark.parametrize("n_columns", [1, 2, 3])
@pytest.mark.parametrize(("unit", "max_rows"), [("cell", 1), ("row", 1), ("entity", 2), ("entity", 3)])
def test_sensitivity_is_what_brute_force_finds(unit: str, max_rows: int, n_columns: int) -> None:
    """Over all ways to replace a cell, a row or an entity's rows, the counts move by the claimed norm, and no more."""
    claimed = histogram_sigma(unit, n_columns, 1.0, max_rows)
    base = [[1.0] * 4 for _ in range(n_columns)]
    before = counts_of(*base)
    cells = list(itertools.product(range(1 if unit == "cell" else n_columns), range(max_rows)))
    if len(cells) <= 3:
        choices = list(itertools.product(VALUES, repeat=len(cells)))
    else:
        rng = np.random.default_rng(1)
        choices = [tuple(VALUES[index] for index in rng.integers(0, len(VALUES), len(cells))) for _ in range(300)]
        choices += [(value,) * len(cells) for value in VALUES]
    largest = 0.0
    for choice in choices:
        changed = [list(column) for column in base]
        for (column, row), value in zip(cells, choice, strict=True):
            changed[column][row] = value  # type: ignore[call-overload]
        largest = max(largest, float(np.linalg.norm(counts_of(*changed) - before)))
    assert largest <= claimed * (1 + 1e-12)
    assert largest == pytest.approx(claimed, rel=1e-12)


def test_counts_do_not_mind_types_and_batches() -> None:
    """Integers count like floats, batches add up, and gaps are not counted."""
    values = [None, 0, 1, -7, 2**62, -(2**63)]
    floats = [None if value is None else float(value) for value in values]
    np.testing.assert_array_equal(counts_of(values), counts_of(floats))
    assert counts_of(values).sum() == 5
    batches = [pa.RecordBatch.from_arrays([pa.array([value], pa.int64())], names=["a"]) for value in values]
    np.testing.assert_array_equal(count_magnitudes(batches, 1), counts_of(values))
    assert counts_of([]).sum() == 0


@given(st.floats(allow_nan=False))
def test_every_value_is_in_exactly_one_bin_that_holds_it(value: float) -> None:
    """The bin of a value lies around it, but for those beyond 2^52, which count in the outermost bins."""
    (index,) = np.flatnonzero(counts_of([value])[0])
    with pytest.MonkeyPatch.context() as monkeypatch:
        quiet(monkeypatch)
        ((low, high),) = find_bounds(counts_of([value]), ["continuous"], 1e-3, insecure_keystream(1))
    clipped = min(max(value, -(2.0**52)), 2.0**52)
    assert low <= clipped <= high
    assert counts_of([value])[0, index] == 1
    assert (low == -high and high == 2.0**-40) or (max(abs(low), abs(high)) == 2 * min(abs(low), abs(high)))


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        ([3.0] * 50, "continuous", (2.0, 4.0)),
        ([4.0] * 50, "continuous", (4.0, 8.0)),
        ([-3.0] * 50, "continuous", (-4.0, -2.0)),
        ([0.0] * 50, "continuous", (-(2.0**-40), 2.0**-40)),
        ([0] * 50, "integer", (0.0, 1.0)),
        ([1] * 50, "integer", (1.0, 2.0)),
        ([-1] * 50, "integer", (-2.0, -1.0)),
        ([-5] * 50 + [100] * 50, "integer", (-8.0, 128.0)),
        ([2**60] * 50, "integer", (2.0**51, 2.0**52)),
        ([0.1] * 50 + [1000.0] * 50, "continuous", (0.0625, 1024.0)),
        ([0.1] * 50 + [1000.0] * 2, "continuous", (0.0625, 0.125)),
        ([0.1] * 50 + [0.2] * 2 + [0.3] * 2, "continuous", (0.0625, 0.5)),
    ],
)
def test_bounds_are_the_edges_of_what_stands_out(
    values: list[float], kind: str, expected: tuple[float, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without noise, far bins need to stand out, neighbouring ones only to exceed sigma, and integers stay integers."""
    quiet(monkeypatch)
    assert find_bounds(counts_of(values), [kind], 1.0, insecure_keystream(1)) == [expected]


@pytest.mark.parametrize("kind", ["continuous", "integer"])
@pytest.mark.parametrize("n_rows", [0, 1, 30])
def test_hardly_any_rows_still_give_bounds(kind: str, n_rows: int) -> None:
    """However little stands out, every column gets an interval on the noise's grid that is fit for its kind."""
    for seed in range(200):
        bounds = find_bounds(counts_of([1.0] * n_rows), [kind], 20.0, insecure_keystream(seed))
        ((low, high),) = bounds
        assert -(2.0**52) <= low < high <= 2.0**52
        assert kind == "continuous" or (low.is_integer() and high.is_integer())


def test_noise_comes_from_the_keystream_alone() -> None:
    """The same bits give the same bounds, and counts are not changed."""
    counts = counts_of(np.random.default_rng(1).normal(size=300).tolist(), [1.0] * 300)
    kept = counts.copy()
    kinds = ["continuous", "integer"]
    first, second = (find_bounds(counts, kinds, 5.0, insecure_keystream(9)) for _ in range(2))
    assert first == second
    np.testing.assert_array_equal(counts, kept)


def test_sigma_and_mu_of_the_search_are_inverse() -> None:
    """What the noise costs another unit follows from the same noise."""
    sigma = histogram_sigma("entity", 6, 0.3, 10)
    assert histogram_mu("entity", 6, sigma, 10) == pytest.approx(0.3, rel=1e-14)
    assert histogram_mu("row", 6, sigma) == pytest.approx(0.03, rel=1e-14)
    assert histogram_mu("cell", 6, sigma) == pytest.approx(0.03 / math.sqrt(6), rel=1e-14)
