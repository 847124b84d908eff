"""Cells of the raw table, and how far one of them moves a published row.

A number moves by the width of its bounds, or by `max_change` where changes of that size are the unit of privacy.
Another level in a category's cell takes 1 from one of its columns and adds 1 to another: with noise on both, the
category moves by the square root of 2, however many levels it has.

A number beside an indicator of its gaps moves by the width w of its bounds, and the indicator not at all; or, as a gap
has the middle of the bounds, by half of w, and the indicator by 1. On a grid of steps of g the middle may be a step
off. With noise of sigma on the number and of s on the indicator, the cell's mu is the larger one of w / sigma and
sqrt(((w / 2 + g) / sigma)^2 + 1 / s^2): an indicator with enough noise costs nothing.

Where noise is discrete, its mu stands in place of a distance over sigma (`Noise.mu_of`): mu is true of every cell, and
what cells of one row add up to by squares is true of the row.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

from dp_bundle.manifest.columns import Column, Noise
from dp_bundle.privacy.discrete_curve import DiscreteLoss


class Cell(NamedTuple):
    """A cell of the raw table.

    Attributes
    ----------
    column : Column
        The published column that it moves most.
    reach : float
        How far it moves that; infinite without bounds.
    n_moved : int
        How many columns it moves so far at once.
    gaps : Column or None
        The indicator of its gaps.
    """

    column: Column
    reach: float
    n_moved: int = 1
    gaps: Column | None = None

    @property
    def mu(self) -> float:
        """The distinguishability of the cell: a mu of which it is mu-GDP, whatever the kind of its noise."""
        if self.column.response is not None:
            return self.column.cell_mu
        alone = math.sqrt(self.n_moved) * self.column.mu_of(self.reach)
        if self.gaps is None:
            return alone
        return max(alone, mu_of_gap(self.reach, self.column.cell_noise, self.gaps.cell_mu))

    @property
    def rho(self) -> float:
        """The rho of the cell: mu^2 / 2, or less of discrete noise, for which (D / sigma)^2 / 2 is exact."""
        if self.column.is_gaussian or self.gaps is not None:
            return 0.5 * self.mu**2
        return 0.5 * self.n_moved * (self.reach / self.column.cell_noise.sigma) ** 2

    @property
    def loss(self) -> DiscreteLoss:
        """The privacy loss of each column that it moves, by discrete noise: a number of steps, and sigma."""
        column = self.column
        if column.bounds is None:
            return DiscreteLoss(math.floor(self.reach), column.cell_noise.sigma)
        steps = math.floor(column.bounds[1]) - math.ceil(column.bounds[0])
        return DiscreteLoss(min(steps, math.floor(self.reach)), column.cell_noise.sigma)


def cells_of(columns: Sequence[Column], unit: str = "cell") -> list[Cell]:
    """Return the cells of one row, and how far a unit of privacy moves each.

    Parameters
    ----------
    columns : sequence of Column
        As they are published. In a ball, where all move together, each has a cell of its own.
    unit : str
        "change" where cells move by `max_change` alone, wherever a column has one.
    """
    cells: list[Cell] = []
    for block, group in groupby(columns, key=lambda column: column.block):
        members = [_alone(column, unit) for column in group]
        if block is None or members[0].column.ball is not None:
            cells += members
        elif members[0].column.missing == "indicator":
            cells.append(members[0]._replace(gaps=members[1].column))
        else:
            worst = max(members, key=lambda cell: cell.mu)
            cells.append(worst if worst.column.response is not None else worst._replace(n_moved=2))
    return cells


def mu_of_gap(width: float, noise: Noise, indicator_mu: float) -> float:
    """Return the distinguishability of a value and a gap, of which another column tells.

    Parameters
    ----------
    width : float
        Of the bounds.
    noise : Noise
        On the number.
    indicator_mu : float
        What the indicator's change from 0 to 1 costs alone.
    """
    return math.hypot(noise.mu_of(0.5 * width + noise.granularity), indicator_mu)


def _alone(column: Column, unit: str) -> Cell:
    """Return the cell that moves this column and no other."""
    limit = column.max_change if unit == "change" and column.max_change is not None else math.inf
    return Cell(column, min(column.width, limit))
