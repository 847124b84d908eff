"""Canaries for an audit: made-up rows, and what the row mechanism makes of them.

A canary cell has two possible values, and a fair coin decides; with the row as the unit all its cells share the coin.
The pairs are the bounds themselves, values far outside them, or values close to each other; a fourth kind is spread at
random inside the bounds, off the grid. What should come out before noise is computed here again, not taken from
`rows`, whose faults it is to show.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dp_bundle.base.errors import PrivacyError
from dp_bundle.manifest.columns import Column
from dp_publish.accounting.conversions import unit_mu

Unit: TypeAlias = Literal["cell", "row"]
_Floats: TypeAlias = NDArray[np.float64]
Values: TypeAlias = NDArray[np.float64] | NDArray[np.int64]

OUTSIDE = ("half a width outside", "far outside", "infinitely far outside")
_INSIDE = 0.98  # of a ball's radius, so that rounding takes nothing out of it
_LARGE_MU, _BEST_MU = 6.0, 3.0  # above the one, canaries are also put close: as far apart as gives the other


@dataclass(frozen=True)
class Draft:
    """Canaries of one kind before the mechanism: a column of raw values each, with the coins that chose them.

    `low` and `high`, of shape (n_columns,) or (n_rows, n_columns), are what noise should be added to, in steps of each
    column's grid.
    """

    low: _Floats
    high: _Floats
    coins: NDArray[np.bool_]
    values: Sequence[Values]

    def after(self, noisy: _Floats) -> Canaries:
        """Return the canaries as they came out, in steps."""
        return Canaries(self.low, self.high, self.coins, noisy)


@dataclass(frozen=True)
class Canaries:
    """Canaries of one kind after the mechanism: arrays of shape (n_rows, n_columns), in steps of each column's grid.

    `low` and `high`, of shape (n_columns,) or the full one, are what noise should have been added to.
    """

    low: _Floats
    high: _Floats
    coins: NDArray[np.bool_]
    noisy: _Floats

    @cached_property
    def expected(self) -> _Floats:
        """The values that noise should have been added to."""
        return np.where(self.coins, self.high, self.low)

    @cached_property
    def residuals(self) -> _Floats:
        """The noise found, rounded to whole steps."""
        return np.rint(self.noisy) - self.expected


def at_bounds(columns: Sequence[Column], unit: Unit, n: int, rng: np.random.Generator, rows: int = 1) -> Draft:
    """Return canaries at one of their two bounds; `rows` in turn share their coins, as those of an entity do."""
    coins = np.repeat(_toss(unit, -(-n // rows), len(columns), rng), rows, axis=0)[:n]
    values = []
    for j, column in enumerate(columns):
        low, high = canary_limits(column, len(columns))
        values.append(_typed(column, np.where(coins[:, j], high, low)))
    return Draft(*_step_bounds(columns), coins, values)


def close(columns: Sequence[Column], unit: Unit, n: int, rng: np.random.Generator, rows: int = 1) -> Draft | None:
    """Return canaries at the upper bound or a little below it, or None where mu is not too large for the bounds."""
    low, high = _step_bounds(columns)
    mus = (high - low) / [column.cell_noise.sigma / column.cell_noise.granularity for column in columns]
    mu = mus if unit == "cell" else np.full(len(mus), math.sqrt(rows) * unit_mu(unit, mus.tolist()))
    if mu.max() <= _LARGE_MU:
        return None
    near = high - np.maximum(1, np.rint(np.minimum(1, _BEST_MU / mu) * (high - low)))
    coins = np.repeat(_toss(unit, -(-n // rows), len(columns), rng), rows, axis=0)[:n]
    steps = np.where(coins, high, near)
    values = [_typed(column, steps[:, j] * column.cell_noise.granularity) for j, column in enumerate(columns)]
    return Draft(near, high, coins, values)


def changed_canaries(columns: Sequence[Column], n: int, rng: np.random.Generator) -> Draft:
    """Return canaries at the upper bound, or below it by as much as one person's part of a count."""
    low, high = _step_bounds(columns)
    limits = np.array([math.inf if column.max_change is None else column.max_change for column in columns])
    near = np.maximum(low, high - limits)
    coins = _toss("cell", n, len(columns), rng)
    steps = np.where(coins, high, near)
    values = [_typed(column, steps[:, j] * column.cell_noise.granularity) for j, column in enumerate(columns)]
    return Draft(near, high, coins, values)


def outside(columns: Sequence[Column], unit: Unit, n: int, rng: np.random.Generator) -> Draft:
    """Return canaries outside their bounds; rows go through the distances in `OUTSIDE` in turn."""
    coins = _toss(unit, n, len(columns), rng)
    turn = np.arange(n) % len(OUTSIDE)
    values: list[Values] = []
    for j, column in enumerate(columns):
        below, above = far_values(column, len(columns))
        values.append(np.where(coins[:, j], above[turn], below[turn]))
    return Draft(*_step_bounds(columns, share=1.0), coins, values)


def far_values(column: Column, n_columns: int) -> tuple[Values, Values]:
    """Return values below and above a column's bounds, at the distances in `OUTSIDE`."""
    low, high = canary_limits(column, n_columns, share=1.0)
    half = 0.5 * high - 0.5 * low
    if column.kind == "integer":
        below = np.array([low - max(1, half // 1), -(2**60), np.iinfo(np.int64).min], dtype=object)
        above = np.array([high + max(1, half // 1), 2**60, np.iinfo(np.int64).max], dtype=object)
        return below.astype(np.int64), above.astype(np.int64)
    most = sys.float_info.max
    return np.array([max(low - half, -most), -most, -math.inf]), np.array([min(high + half, most), most, math.inf])


def inside(columns: Sequence[Column], n: int, rng: np.random.Generator) -> Draft:
    """Return canaries anywhere between their bounds, with all the low bits that a raw value has."""
    values = values_inside(columns, n, rng)
    low_steps, high_steps = _step_bounds(columns)
    granularities = [column.cell_noise.granularity for column in columns]
    steps = np.clip(np.rint(np.column_stack(values) / granularities), low_steps, high_steps)
    return Draft(steps, steps, np.zeros(steps.shape, dtype=bool), values)


def values_inside(columns: Sequence[Column], n: int, rng: np.random.Generator) -> list[Values]:
    """Return raw values anywhere between their bounds."""
    values: list[Values] = []
    for column in columns:
        low, high = canary_limits(column, len(columns))
        if column.kind == "integer":
            values.append(rng.integers(int(low), int(high), n, endpoint=True))
        else:
            share = rng.random(n)
            values.append(np.clip(low * (1 - share) + high * share, low, high))
    return values


def canary_limits(column: Column, n_columns: int, share: float = _INSIDE) -> tuple[float, float]:
    """Return the column's bounds, or, of a ball, a box whose corners are in it, at a share of its radius."""
    if column.bounds is not None:
        return column.bounds
    if column.ball is None:
        raise PrivacyError(f"column {column.name!r} has no bounds, so that nothing is stated that could be audited")
    center, step = column.ball.center, column.cell_noise.granularity
    half = share * column.ball.radius * column.ball.scale / math.sqrt(n_columns)
    return math.ceil((center - half) / step) * step, math.floor((center + half) / step) * step


def middle_of(column: Column) -> float:
    """Return where empty cells are brought, in steps."""
    limits = column.bounds if column.ball is None else (column.ball.center, column.ball.center)
    return float(np.rint(sum(0.5 * limit for limit in limits or ()) / column.cell_noise.granularity))


def _step_bounds(columns: Sequence[Column], share: float = _INSIDE) -> tuple[_Floats, _Floats]:
    """Return the outermost grid points inside the bounds."""
    limits = [(canary_limits(column, len(columns), share), column.cell_noise.granularity) for column in columns]
    return (
        np.array([math.ceil(bounds[0] / step) for bounds, step in limits], dtype=np.float64),
        np.array([math.floor(bounds[1] / step) for bounds, step in limits], dtype=np.float64),
    )


def _typed(column: Column, values: _Floats) -> Values:
    return values.astype(np.int64) if column.kind == "integer" else values


def _toss(unit: Unit, n: int, n_columns: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Return one coin for each cell, or the same for all cells of a row."""
    coins = rng.integers(0, 2, (n, n_columns if unit == "cell" else 1), dtype=np.uint8).astype(np.bool_)
    return np.broadcast_to(coins, (n, n_columns))
