"""Columns of the raw table behind the published ones: levels, truth values, ordered levels, dates and times as numbers.

A `Source` is a column of the raw table that was no number, or had gaps that are published. One of at least three levels
is published as a column for each, which is 1 in rows that have the level and 0 in all others. Everything else is one
column of numbers, with a second one beside it, which is 1 where there was no value, if that is published. Columns of
one source form a block.

Cells of the raw table, and how far one of them moves a published row.

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
from collections.abc import Collection, Sequence
from itertools import groupby
from typing import Annotated, Literal, NamedTuple

from pydantic import Field, model_validator

from dp_bundle.manifest.base import Model, Name
from dp_bundle.manifest.columns import Column, Noise
from dp_bundle.privacy.discrete_curve import DiscreteLoss

MAX_LEVELS = 1_000
NO_VALUE = "(no value)"  # the level of gaps, and the last part of the name of a column that indicates them
_WITH_LEVELS = ("boolean", "category", "ordered")
_MAY_INDICATE = ("ordered", "date", "time", "time-of-day", "duration")  # gaps, beside their numbers; "number" does


class Source(Model):
    """A column of the raw table, and what its published `columns` hold.

    `category`: each column is 1 in rows that have its level and 0 elsewhere, one column for each of the `levels`, in
    their order; of two levels, one column for the second. `boolean`: 1 for the second level and 0 for the first, as a
    category of two. `ordered`: the place of the level among all, from 0. `date`: days since 1970-01-01. `time`: seconds
    since 1970-01-01T00:00:00Z. `time-of-day`: seconds since midnight. `duration`: seconds. `number`: the number. The
    last six may have a second column, and a `number` has one: 1 in rows without a value and 0 elsewhere.

    Values that are none of the levels were counted as `other`, which is one of them, or refused; so were rows without
    a value as `gaps`. Levels are declared: public, and not read off the data.
    """

    name: Name
    kind: Literal["boolean", "category", "ordered", "date", "time", "time-of-day", "duration", "number"]
    columns: Annotated[tuple[Name, ...], Field(min_length=1, max_length=MAX_LEVELS)]
    levels: Annotated[tuple[Name, ...], Field(max_length=MAX_LEVELS)] = ()
    other: Name | None = None
    gaps: Name | None = None

    @model_validator(mode="after")
    def _check(self) -> Source:
        if len(set(self.levels)) != len(self.levels):
            raise ValueError(f"column {self.name!r} has a level twice")
        if (len(self.levels) >= 2) != (self.kind in _WITH_LEVELS) or (self.kind == "boolean" and len(self.levels) != 2):
            raise ValueError(f"column {self.name!r} has not the levels of its kind")
        if not {self.other, self.gaps} - {None} <= set(self.levels):
            raise ValueError(f"column {self.name!r} counts values as a level that is none")
        if len(self.columns) not in self._numbers_of_columns:
            raise ValueError(f"column {self.name!r} is not published as one column for each level")
        return self

    @property
    def _numbers_of_columns(self) -> tuple[int, ...]:
        if self.has_level_columns:
            return (len(self.levels),)
        return (2,) if self.kind == "number" else (1, 2) if self.kind in _MAY_INDICATE else (1,)

    @property
    def has_level_columns(self) -> bool:
        """True if there is a column for each level."""
        return self.kind == "category" and len(self.levels) > 2

    @property
    def has_gap_column(self) -> bool:
        """True if the second of two columns says where there was no value."""
        return not self.has_level_columns and len(self.columns) == 2

    @property
    def is_block(self) -> bool:
        """True if there are several columns."""
        return len(self.columns) > 1

    @property
    def is_whole(self) -> bool:
        """True if what is published are integers, as long as the release does not ask for other numbers."""
        return self.kind in (*_WITH_LEVELS, "date")


def check_sources(sources: Sequence[Source], columns: Sequence[Column]) -> None:
    """Refuse, by ValueError, sources that are not those of the columns, or a block that is none."""
    if len({source.name for source in sources}) != len(sources):
        raise ValueError("two sources have the same name")
    stated = [(source.name if source.is_block else None, name) for source in sources for name in source.columns]
    if len({name for _, name in stated}) != len(stated):
        raise ValueError("a column has two sources")
    by_name = {column.name: column for column in columns}
    if any(name not in by_name or by_name[name].block != block for block, name in stated):
        raise ValueError("a source is published as columns that are not there, or are not its block")
    blocks = [(name, list(group)) for name, group in groupby(columns, key=lambda column: column.block) if name]
    if {name: [column.name for column in group] for name, group in blocks} != {
        source.name: list(source.columns) for source in sources if source.is_block
    } or len(blocks) != len(dict(blocks)):
        raise ValueError("the columns of a block do not stand together, or have no source")
    with_gaps = {source.name for source in sources if source.has_gap_column}
    for name, group in blocks:
        if name in with_gaps:
            _check_pair(name, group)
            continue
        if any(_shared(column) != _shared(group[0]) for column in group):
            raise ValueError(f"the columns of {name!r} are not all alike")
        if group[0].response is not None and group[0].response.n_levels != len(group):
            raise ValueError(f"the levels of {name!r} are replaced by those of a list of another length")
    _check_gaps(columns, with_gaps)


def _check_pair(name: str, pair: Sequence[Column]) -> None:
    """Refuse two columns that are not a number and the indicator of its gaps."""
    if [column.missing for column in pair] != ["indicator", "refuse"]:
        raise ValueError(f"the columns of {name!r} are not a number and the indicator of its gaps")
    if any(column.kind != "continuous" for column in pair):
        raise ValueError(f"a number and the indicator of its gaps, of {name!r}, have no rounded Gaussian noise")


def _check_gaps(columns: Sequence[Column], with_gaps: Collection[str]) -> None:
    """Refuse gaps that no column indicates, and their indicators where rows are moved whole.

    A row that is put at the means moves a number and the indicator of its gaps farther than a cell does.
    """
    indicated = [column for column in columns if column.missing == "indicator"]
    if any(column.block not in with_gaps for column in indicated):
        raise ValueError("gaps are indicated by a column that is not there")
    if indicated and any(column.missing == "center" for column in columns):
        raise ValueError("gaps are indicated where rows with gaps stand at the center")


def _shared(column: Column) -> Column:
    """Return what all columns of a category have in common: in rows everything but their names."""
    own = {"name": "", "standards": (), "standard_obtained": None}
    return column.model_copy(update=own)


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
