"""The row mechanism: nothing but a clipped grid point ever meets the noise."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dp_bundle.base.errors import MissingValuesError, PrivacyError
from dp_bundle.data.rows import part_schema
from dp_bundle.manifest.columns import Column
from dp_publish.rows import noise as row_noise
from dp_publish.rows.mechanism import add_noise
from dp_publish.rows.missing import RowReport
from dp_publish.rows.noise import ROW_NOISE, granularity_for
from dp_publish.sampling.keystream import insecure_keystream

Bounds = tuple[float, float]


def column(
    bounds: Bounds | None = (0.0, 10.0), sigma: float = 1.0, kind: str = "continuous", missing: str = "refuse"
) -> Column:
    """Return a column with its noise."""
    return Column.model_validate(
        {
            "name": "v",
            "kind": kind,
            "bounds": bounds,
            "bounds_obtained": "none" if bounds is None else "declared",
            "missing": missing,
            "noise": ROW_NOISE[kind].describe(sigma, bounds),
        }
    )


def noisy(values: Any, described: Column, seed: int = 1, report: RowReport | None = None) -> np.ndarray[Any, Any]:
    """Add noise to one column of raw values."""
    kind = pa.int64() if described.kind == "integer" else pa.float64()
    batch = pa.RecordBatch.from_arrays([pa.array(values, kind)], names=["v"])
    result = add_noise(batch, (described,), insecure_keystream(seed), report or RowReport())
    assert result.schema.equals(part_schema((described,)), check_metadata=True)
    assert result.column(0).null_count == 0
    return result.column(0).to_numpy()


@pytest.fixture
def _silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw zeros instead of noise, so that what the noise is added to can be seen."""
    for name in ("sample_rounded_gaussian", "sample_discrete_gaussian"):
        monkeypatch.setattr(row_noise, name, lambda _sigma, size, _rng: np.zeros(size, dtype=np.int64))


WILD = [math.inf, -math.inf, 1e308, -1e308, 5e-324, -5e-324, -0.0, 0.0, 0.1, 1e16, 2.0**53 + 2, 1 / 3]


@pytest.mark.usefixtures("_silent")
@settings(max_examples=300)
@given(
    low=st.floats(-1e12, 1e12),
    width=st.floats(1e-9, 1e12),
    mu=st.floats(1e-3, 1e3),
    raw=st.lists(st.floats(allow_nan=False), min_size=1, max_size=5),
)
def test_sensitivity_never_exceeds_the_declared_width(low: float, width: float, mu: float, raw: list[float]) -> None:
    """Whatever the raw values are, what meets the noise is, exactly, a grid point within the declared bounds."""
    bounds = (low, low + width)
    assume(bounds[0] < bounds[1])
    try:
        described = column(bounds, (bounds[1] - bounds[0]) / mu)
    except PrivacyError:
        assume(False)
    grid = Fraction(described.noise.granularity)
    for value in noisy([*raw, *WILD], described):
        assert Fraction(bounds[0]) <= Fraction(value) <= Fraction(bounds[1])
        assert (Fraction(value) / grid).denominator == 1


@pytest.mark.usefixtures("_silent")
def test_values_move_to_the_nearest_grid_point_within_the_bounds() -> None:
    """Inside the bounds a value moves by at most half a step, and outside it goes to the bound."""
    described = column((-1.0, 1.0), 0.37)
    raw = np.random.default_rng(1).uniform(-1.5, 1.5, 2000)
    assert np.abs(noisy(raw, described) - np.clip(raw, -1, 1)).max() <= described.noise.granularity / 2


@pytest.mark.usefixtures("_silent")
def test_integers_are_clipped_to_their_bounds() -> None:
    """The largest 64-bit integers end at the bounds, without overflow, and inner values stay."""
    described = column((-3.0, 2.0**52), 2.0, "integer")
    raw = [-(2**63), 2**63 - 1, -4, -3, 0, 2**52, 2**52 + 1]
    assert noisy(raw, described).tolist() == [-3, 2**52, -3, -3, 0, 2**52, 2**52]


@pytest.mark.parametrize("kind", ["continuous", "integer"])
def test_noise_does_not_depend_on_the_values(kind: str) -> None:
    """Under the same random bits every value receives the same noise, in steps of the grid."""
    described = column((-50.0, 50.0), 3.0, kind)
    zeros = noisy([0] * 5000, described)
    raw = np.random.default_rng(2).integers(-50, 51, 5000)
    np.testing.assert_array_equal(noisy(raw, described) - raw, zeros)
    assert zeros.std() == pytest.approx(math.sqrt(described.noise.variance), rel=0.05)


def test_far_bounds_lose_nothing() -> None:
    """Narrow bounds a billion away from zero keep their grid, and hopeless ones are refused."""
    bounds = (1e9, 1e9 + 1e-3)
    described = column(bounds, 1e-3)
    result = noisy([1e9, 1e9 + 5e-4, 0.0], described)
    assert np.abs(result - 1e9).max() < 0.02
    assert described.noise.granularity <= 1e-3 / 256
    with pytest.raises(PrivacyError, match="nearer to zero"):
        ROW_NOISE["continuous"].describe(1e-3, (1e14, 1e14 + 1))


@pytest.mark.parametrize(
    ("kind", "sigma", "bounds"),
    [
        ("continuous", 1e-200, (0.0, 1e-200)),
        ("continuous", 5e-324, (0.0, 5e-323)),
        ("continuous", math.inf, (0.0, 1.0)),
        ("continuous", 1e-100, (-1e300, 1e300)),
        ("continuous", 1e9, (0.0, 1.0)),
        ("continuous", 0.0, None),
        ("integer", 1e10, (0.0, 1.0)),
        ("integer", 10.0, (-9e18, 9e18)),
    ],
)
def test_noise_that_fits_no_grid_is_a_privacy_error(kind: str, sigma: float, bounds: Bounds | None) -> None:
    """Noise too weak, too strong, or bounds out of the range of exact numbers are refused in one line."""
    with pytest.raises(PrivacyError):
        ROW_NOISE[kind].describe(sigma, bounds)


@given(st.floats(1e-100, 1e100), st.floats(1e-6, 1e3))
def test_grid_is_fine_enough_for_noise_and_signal(sigma: float, mu: float) -> None:
    """The step is a power of two, at most sigma / 256 and above sigma / 8192, and 1/64 of the width where it can be."""
    step = granularity_for(sigma, (0.0, sigma * mu))
    assert math.frexp(step)[0] == 0.5
    assert sigma / 8192 < step <= sigma / 256
    assert step <= sigma * mu / 64 or step <= sigma / 4096
    assert sigma / 512 < granularity_for(sigma, None) <= sigma / 256


def test_missing_values_are_refused_by_name() -> None:
    """Null and NaN count as missing, and the column is named."""
    for kind, values in (("continuous", [1.0, math.nan]), ("continuous", [None, 1.0]), ("integer", [1, None])):
        with pytest.raises(MissingValuesError) as caught:
            noisy(values, column(kind=kind))
        assert caught.value.column == "v"


@pytest.mark.usefixtures("_silent")
@pytest.mark.parametrize(
    ("kind", "bounds", "middle"),
    [
        ("continuous", (0.0, 10.0), 5.0),
        ("integer", (0.0, 10.0), 5),
        ("integer", (0.0, 1.0), 0),
        ("integer", (-4, 3), 0),
    ],
)
def test_midpoint_takes_the_middle_of_the_bounds(kind: str, bounds: Bounds, middle: float) -> None:
    """A missing cell takes a value that depends on the bounds alone, and is counted."""
    report = RowReport()
    values = [None, 1, None] if kind == "integer" else [None, 1.0, math.nan]
    result = noisy(values, column(bounds, 1.0, kind, "midpoint"), report=report)

    assert result.tolist() == [middle, 1, middle]
    assert report.filled == {"v": 2}
    assert report.clipped == {}


@pytest.mark.usefixtures("_silent")
def test_dropping_takes_whole_rows() -> None:
    """A row without a value in a column that drops is left out of every column, and only such rows are."""
    columns = (column(missing="drop"), column(missing="midpoint"))
    first, second = pa.array([1.0, None, 3.0, math.nan]), pa.array([None, 6.0, 7.0, 8.0])
    batch = pa.RecordBatch.from_arrays([first, second], names=["v", "w"])
    named = (columns[0], columns[1].model_copy(update={"name": "w"}))
    report = RowReport()
    result = add_noise(batch, named, insecure_keystream(1), report)

    assert result.to_pydict() == {"v": [1.0, 3.0], "w": [5.0, 7.0]}
    assert (report.n_rows, report.n_dropped, report.filled) == (2, 2, {"w": 1})


def test_clipping_is_counted_per_column_and_batch() -> None:
    """Only values strictly outside the declared bounds count, and counts add up over batches."""
    report = RowReport()
    for _ in range(2):
        noisy([-1e-9, 0.0, 10.0, 10.0001, math.inf, 5.0], column(), report=report)
    noisy([-1, 0, 10, 11], column(kind="integer"), report=report)
    assert report.clipped == {"v": 8}
    assert report.n_rows == 16
