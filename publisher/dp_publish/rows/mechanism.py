"""The row mechanism: clip, snap to the grid, add noise, batch by batch.

Every cell becomes an integer number of grid steps within its column's bounds, and an integer number of steps of noise
is added: continuous columns on a dyadic grid of `granularity` with rounded Gaussian noise, integer columns on the
integers with discrete Gaussian noise. Rounding x + N(0, sigma^2) to a grid that x lies on is post-processing of the
Gaussian mechanism, so no bit of the result depends on anything but that mechanism's output. The bounds in use are the
outermost grid points inside the declared ones: clipping is never wider than declared.

`add_noise` is a pure function of a batch and of random bits: nothing in it knows where it runs.

References
----------
Mironov (2012), On significance of the least significant bits for differential privacy. Haney et al. (2022), arXiv
2207.13793.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dp_bundle.data import part_schema, to_arrow, to_numpy
from dp_bundle.errors import PrivacyError
from dp_bundle.manifest import Column, Noise
from dp_bundle.privacy import MAX_SIGMA, MIN_SIGMA
from dp_publish.data import RowReport, drop_missing, fill_missing, find_gaps
from dp_publish.sampling import Keystream, sample_discrete_gaussian, sample_rounded_gaussian

__all__ = ["add_noise", "granularity_for", "noise_for"]

_STEPS_PER_SIGMA = 256
_STEPS_PER_WIDTH = 64
_MAX_STEPS_PER_SIGMA = 4096
_EXACT = 2**52  # integers up to here, and their sums with noise, are exact as float64
_SIGMAS = (2.0**-400, 2.0**400)  # of continuous noise: its variance is far from the ends of float64


def noise_for(kind: str, sigma: float, bounds: tuple[float, float] | None) -> Noise:
    """Return the noise of one column, with its grid and exact variance.

    Parameters
    ----------
    kind : {"continuous", "integer"}
        The column's kind.
    sigma : float
        The standard deviation, in data units.
    bounds : tuple of float, or None
        What the values are clipped to, in data units.

    Raises
    ------
    PrivacyError
        The noise is so large, or so small, that the bounds cannot be put on a grid.
    """
    least, most = (MIN_SIGMA, MAX_SIGMA) if kind == "integer" else _SIGMAS
    granularity = 1.0 if kind == "integer" else granularity_for(sigma, bounds)
    if not least <= sigma <= most or (bounds is not None and not _fits(bounds, granularity)):
        limits = "" if bounds is None else f" within {list(bounds)}"
        raise PrivacyError(
            f"noise of sigma {sigma:.6g} does not go with {kind} values{limits}: choose another strength, or bounds "
            "nearer to zero"
        )
    return Noise.discrete_gaussian(sigma) if kind == "integer" else Noise.rounded_gaussian(sigma, granularity)


def granularity_for(sigma: float, bounds: tuple[float, float] | None) -> float:
    """Return the grid step: the largest power of two that is at most sigma/256, and 1/64 of the width where possible.

    The second condition keeps the signal finer than the grid under heavy noise, up to 4096 steps to a sigma.
    """
    step = sigma / _STEPS_PER_SIGMA
    if bounds is not None:
        step = min(step, max((bounds[1] - bounds[0]) / _STEPS_PER_WIDTH, sigma / _MAX_STEPS_PER_SIGMA))
    return math.ldexp(0.5, math.frexp(step)[1])


def add_noise(
    batch: pa.RecordBatch, columns: Sequence[Column], keystream: Keystream, report: RowReport
) -> pa.RecordBatch:
    """Clip, snap and add noise to one batch.

    Parameters
    ----------
    batch : RecordBatch
        Raw values as float64 or int64, nulls allowed; its columns are those of `columns`, in order.
    columns : sequence of Column
        What each column's bounds and noise are, and what becomes of missing values.
    keystream : Keystream
        Where the random bits come from.
    report : RowReport
        Counts are added to it.

    Returns
    -------
    RecordBatch
        Noisy values, without nulls; fewer rows if some were dropped.

    Raises
    ------
    MissingValuesError
        A column that refuses missing values has one.
    """
    kept = drop_missing(batch, columns)
    report.n_dropped += batch.num_rows - kept.num_rows
    report.n_rows += kept.num_rows
    kept = _put_at_center(kept, columns, report)
    if columns[0].ball is not None:
        kept = _clip_to_ball(kept, columns, report)
    noisy = [_noisy_column(kept.column(index), column, keystream, report) for index, column in enumerate(columns)]
    return pa.RecordBatch.from_arrays(noisy, schema=part_schema(columns))


def _put_at_center(batch: pa.RecordBatch, columns: Sequence[Column], report: RowReport) -> pa.RecordBatch:
    """Put rows with such gaps, whole, at the columns' fill, so that a gap neither links columns nor dilutes a link."""
    gaps = find_gaps(batch, columns)
    if gaps is None or not gaps.any():
        return batch
    report.n_centered += int(np.count_nonzero(gaps))
    arrays = []
    for index, column in enumerate(columns):
        values = batch.column(index)
        if column.missing != "center":
            values = fill_missing(values, column, report)  # of all rows, as one that refuses gaps refuses them here too
        arrays.append(pc.if_else(pa.array(gaps), pa.scalar(_fill_of(column), values.type), values))
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)


def _fill_of(column: Column) -> float:
    low, high = column.bounds or (0.0, 0.0)
    return 0.5 * low + 0.5 * high if column.fill is None else column.fill


def _clip_to_ball(batch: pa.RecordBatch, columns: Sequence[Column], report: RowReport) -> pa.RecordBatch:
    """Shrink rows that lie outside the ball towards its centre, so far that snapping cannot take them out again."""
    balls = [column.ball for column in columns if column.ball is not None]
    center, scale = np.array([ball.center for ball in balls]), np.array([ball.scale for ball in balls])
    step = np.array([column.cell_noise.granularity for column in columns])
    rounding = np.finfo(float).eps * (np.abs(center) + balls[0].radius * scale)
    radius = balls[0].radius - float(np.linalg.norm((0.5 * step + 8 * rounding) / scale))
    if radius <= 0:
        raise PrivacyError("the ball is smaller than the noise's grid: choose another strength, or a larger l2_radius")
    filled = [fill_missing(batch.column(index), column, report) for index, column in enumerate(columns)]
    rows = np.column_stack([to_numpy(values) for values in filled])
    reach = balls[0].radius * scale
    rows = (np.clip(rows, center - reach, center + reach) - center) / scale  # into the box around the ball: all finite
    norms = np.linalg.norm(rows, axis=1)
    outside = norms > radius
    rows[outside] *= (radius / norms[outside])[:, None]
    report.n_clipped_rows += int(np.count_nonzero(outside))
    return pa.RecordBatch.from_arrays(
        [to_arrow(np.ascontiguousarray(values)) for values in (center + scale * rows).T], names=batch.schema.names
    )


def _noisy_column(values: pa.Array, column: Column, keystream: Keystream, report: RowReport) -> pa.Array:
    values = fill_missing(values, column, report)
    noise = column.cell_noise  # without bounds, values are in a ball already, or there is no guarantee
    low, high = (-_EXACT, _EXACT) if column.bounds is None else _step_bounds(column.bounds, noise.granularity)
    if column.kind == "integer":
        steps = to_numpy(values)
        outside = int(np.count_nonzero((steps < low) | (steps > high)))
        noisy = np.clip(steps, low, high) + sample_discrete_gaussian(noise.sigma, len(steps), keystream)
    else:
        with np.errstate(over="ignore"):  # to infinity, which is clipped like any other value
            scaled = np.rint(to_numpy(values) * (1 / noise.granularity))
        outside = _count_outside(values, column.bounds, scaled, low, high)
        steps = np.clip(scaled, low, high)
        draws = sample_rounded_gaussian(noise.sigma / noise.granularity, len(steps), keystream)
        noisy = (steps + draws) * noise.granularity
    report.count(report.clipped, column.name, outside)
    return to_arrow(noisy)


def _count_outside(
    values: pa.Array, bounds: tuple[float, float] | None, scaled: np.ndarray, low: int, high: int
) -> int:
    if bounds is None:
        return int(np.count_nonzero((scaled < low) | (scaled > high)))
    raw = to_numpy(values)
    return int(np.count_nonzero((raw < bounds[0]) | (raw > bounds[1])))


def _fits(bounds: tuple[float, float], granularity: float) -> bool:
    low, high = _step_bounds(bounds, granularity)
    return low < high and max(-low, high) <= _EXACT


def _step_bounds(bounds: tuple[float, float], granularity: float) -> tuple[int, int]:
    step = Fraction(granularity)  # exact: a quotient of floats could underflow past a bound
    return math.ceil(Fraction(bounds[0]) / step), math.floor(Fraction(bounds[1]) / step)
