"""Made-up raw tables, published like real ones and opened like a reader does.

Every cell of a made-up table is in one of a few states. A number is at an end of its bounds, or anywhere inside with
all the low bits that a raw value has. Or it is outside them, as far as infinitely far. A level is each of its levels,
and a cell that may have a gap has one. The first two states are those that an attacker is to tell apart. They are as
far from each other as the policy lets them be. What a state is published as, before noise, is computed here from what a
manifest says of bounds, levels and gaps. It is not computed by the code that is attacked.

Publication itself is handed in, as a `Press`, which yields the bundle's path and the cost that was booked: nothing here
can reach a ledger. The command's is `release.publishing.publish_aside`.
"""

import datetime
import itertools
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from dp_bundle.base.arrays import Floats, Integers
from dp_bundle.bundle.reading import open_bundle
from dp_bundle.data.margins import Margin
from dp_bundle.manifest.columns import Column, Source
from dp_bundle.manifest.costs import sound_mu
from dp_bundle.manifest.release import Release
from dp_bundle.trust.judging import UnsafeTrustAnyone
from dp_publish.accounting.conversions import Cost
from dp_publish.data.dialect import Dialect
from dp_publish.data.kinds import KINDS, OF_TEXT, ColumnType
from dp_publish.policy.columns import Prepared
from dp_publish.policy.model import Policy

States: TypeAlias = Integers
Press: TypeAlias = Callable[[pa.Table, Policy], AbstractContextManager[tuple[Path, Cost]]]

N_AT_EDGES = 240  # first rows of a table, and as many last ones, that are the first or the last of their batch
_CUTS = (0.13, 0.4, 0.41, 0.78)  # where one batch ends and the next begins
_N_INSIDE = 6
_ANYWHERE = (-100.0, 100.0)  # numbers without declared bounds
_WORDS = ("a", "b", "c", "d")  # of text of which nothing is declared


@dataclass(frozen=True)
class RawCell:
    """A column of a raw table, of which every cell is in one of a few states.

    Attributes
    ----------
    name : str
        The raw column's.
    values : pyarrow.Array
        The raw value of every state, null or NaN in gaps.
    numbers : ndarray, shape (n_states,)
        What these are as numbers, NaN in gaps; of levels nothing but that.
    drops_rows : bool
        Whether rows with a gap here are left out.
    """

    name: str
    values: pa.Array
    numbers: Floats
    drops_rows: bool = False

    @property
    def n_states(self) -> int:
        """The number of states."""
        return len(self.values)

    @property
    def filled(self) -> "RawCell":
        """The same cell without gaps, if rows with one are left out."""
        n = int(np.count_nonzero(~np.isnan(self.numbers))) if self.drops_rows else self.n_states
        return replace(self, values=self.values[:n], numbers=self.numbers[:n])

    def published_as(self, columns: Sequence[Column], source: Source | None, *, gaps_stay: bool = False) -> Floats:
        """Return the numbers of shape (n_states, n_columns) that a manifest says the states are published as.

        Parameters
        ----------
        columns : sequence of Column
            Those that are published for this raw column.
        source : Source or None
            As the manifest has it; None of a number.
        gaps_stay : bool
            Whether gaps are NaN: of two rounds, which place them later.
        """
        numbers = self.numbers
        if source is not None and source.levels:
            places = {level: float(place) for place, level in enumerate(source.levels)}
            of_gaps, of_others = places.get(source.gaps or "", np.nan), places.get(source.other or "", np.nan)
            words = self.values.cast(pa.string()).to_pylist()
            numbers = np.array([of_gaps if word is None else places.get(word, of_others) for word in words])
            if source.has_level_columns:
                return np.eye(len(source.levels))[numbers.astype(np.int64)]
        low, high = columns[0].limits
        gaps = np.isnan(numbers)
        middle = np.nan if gaps_stay else 0.5 * low + 0.5 * high
        clipped = np.where(gaps, middle, np.clip(numbers, low, high))
        return np.column_stack([clipped, gaps] if columns[0].missing == "indicator" else [clipped])

    def with_lower(self, value: float) -> "RawCell":
        """Return the same cell with another number in its first state, if its raw values are numbers."""
        if not (pa.types.is_floating(self.values.type) or pa.types.is_integer(self.values.type)):
            return self
        values = pa.concat_arrays([pa.array([value]).cast(self.values.type), self.values[1:]])
        return replace(self, values=values, numbers=np.r_[value, self.numbers[1:]])


@dataclass(frozen=True)
class Published:
    """The contents of a bundle of made-up rows as a reader finds them, and the cost that was booked.

    Attributes
    ----------
    release : Release
        The manifest.
    cost : Cost
        What was booked.
    begun : datetime
        When publishing began.
    values : ndarray of float64
        The noisy rows, or the noisy matrix of a covariance release.
    first_round, transform : ndarray of float64 or None
        Where a covariance was released in two rounds, the noisy matrix of the first, and what the second multiplied its
        rows by.
    margins : tuple of Margin
        The histograms, if there are any.
    """

    release: Release
    cost: Cost
    begun: datetime.datetime
    values: Floats = field(repr=False)
    first_round: Floats | None = field(default=None, repr=False)
    transform: Floats | None = field(default=None, repr=False)
    margins: tuple[Margin, ...] = field(default=(), repr=False)

    @property
    def mu(self) -> float:
        """The mu of the unit of privacy that the manifest states, or that follows from its noise."""
        return sound_mu(self.release.guarantee, self.release.columns)

    def columns_of(self, cells: Sequence[RawCell]) -> list[tuple[RawCell, slice, Source | None]]:
        """Return the cells in the order of the published columns, with the places of theirs, and with their sources."""
        names, by_name = [column.source_name for column in self.release.columns], {cell.name: cell for cell in cells}
        sources = {name: source for source in self.release.sources for name in (source.name, *source.columns)}
        found, start = [], 0
        for name, group in itertools.groupby(names, key=lambda name: sources[name].name if name in sources else name):
            end = start + len([*group])
            found.append((by_name[name], slice(start, end), sources.get(name)))
            start = end
        return found

    def numbers(self, cells: Sequence[RawCell], states: States) -> Floats:
        """Return rows in these states as numbers before noise; NaN in gaps that two rounds place."""
        columns, stated = self.release.columns, self.release.second_moments
        gaps_stay = stated is not None and stated.first_round is not None
        of = {cell.name: own for cell, own in zip(cells, states.T, strict=True)}
        return np.hstack(
            [
                cell.published_as(columns[place], source, gaps_stay=gaps_stay)[of[cell.name]]
                for cell, place, source in self.columns_of(cells)
            ]
        )


def made_up_policy(prepared: Prepared) -> Policy:
    """Return the policy for made-up tables of a table's columns; what is spent on them counts towards no budget."""
    policy = prepared.policy
    columns = {name: entry for name, entry in policy.columns.items() if name in prepared.kinds}
    return policy.with_privacy(budget_mu=None).changed(columns=columns, table=Dialect())


def raw_cells(prepared: Prepared) -> list[RawCell]:
    """Return the cells of a raw row, as the policy declares them, or by their types where nothing is declared."""
    policy, types, rng = prepared.policy, prepared.table.types, np.random.default_rng(1)
    sources = {name: source for source in policy.sources for name in source.columns}
    cells = []
    for name, kind in prepared.kinds.items():
        source, entry = sources.get(name), policy.column(name)
        if source is None and policy.sought is not None:
            cells.append(_undeclared(name, types[name], rng))
        elif source is None or source.columns[0] == name:
            if source is not None and source.levels:
                words = pa.array([None if level == source.gaps else level for level in source.levels], pa.string())
                cell = RawCell(source.name, words, np.zeros(len(words)))
            elif source is not None and source.kind != "number":
                cell = _decoded(source.name, source.kind, entry.bounds or _ANYWHERE)
            else:
                cell = _number(source.name if source else name, entry.bounds, rng, whole=kind == "integer")
            cells.append(_with_gaps(cell, entry.missing))
    return cells


def raw_table(
    policy: Policy, cells: Sequence[RawCell], states: States, owners: Sequence[object] | Integers | None = None
) -> pa.Table:
    """Return rows in these states, with the entities that own them if the policy has any: by default one each."""
    table = pa.table({cell.name: cell.values.take(pa.array(own)) for cell, own in zip(cells, states.T, strict=True)})
    unit = policy.privacy.entity
    if unit is not None:
        table = table.append_column(unit.entity, pa.array(np.arange(table.num_rows) if owners is None else owners))
    return table


def in_batches(whole: pa.Table, cuts: Sequence[int] = ()) -> pa.Table:
    """Return a table in batches of unequal size, at both ends of one row and of two, and cut at further rows."""
    n, few = whole.num_rows, [row for row in range(N_AT_EDGES) if row % 3]
    cuts = [*cuts, *few, *(n - row for row in few), *(int(cut * n) for cut in _CUTS)]
    edges = sorted({0, *(cut for cut in cuts if 0 <= cut <= n), n})
    return pa.concat_tables([whole.slice(start, stop - start) for start, stop in itertools.pairwise(edges)])


def any_states(cells: Sequence[RawCell], n: int, rng: np.random.Generator) -> States:
    """Return states of rows at random, a column for each cell."""
    return np.column_stack([rng.integers(0, cell.n_states, n) for cell in cells])


def publish_made_up(press: Press, table: pa.Table, policy: Policy) -> Published:
    """Publish a made-up table, and open the bundle."""
    begun = datetime.datetime.now(datetime.UTC)
    with press(table, policy) as (path, cost), open_bundle(path, UnsafeTrustAnyone()) as bundle:
        release, stated = bundle.release, bundle.release.second_moments
        if stated is None:
            batches = [np.column_stack([column.to_numpy() for column in batch.columns]) for batch in bundle.batches()]
            return Published(release, cost, begun, np.concatenate(batches).astype(np.float64))
        first, transform = (bundle.first_round(), bundle.transform()) if stated.first_round else (None, None)
        margins = bundle.margins() if release.margins is not None else ()
        return Published(release, cost, begun, bundle.second_moments(), first, transform, margins)


def _number(name: str, bounds: tuple[float, float] | None, rng: np.random.Generator, *, whole: bool) -> RawCell:
    """Return a number at its bounds, inside, and outside: by half a width, by as much as possible, and for ever."""
    low, high = bounds or _ANYWHERE
    half, share = 0.5 * high - 0.5 * low, rng.random(_N_INSIDE)
    most = sys.float_info.max
    if whole:
        inside = rng.integers(int(np.ceil(low)), int(high), _N_INSIDE, endpoint=True).tolist()
        least, largest = -(2**63), 2**63 - 1
        beyond = [int(low - max(1, half // 1)), int(high + max(1, half // 1)), -(2**60), 2**60, least, largest]
        values = np.array([int(np.ceil(low)), int(high), *inside, *(beyond if bounds else [])], dtype=np.int64)
    else:
        within = np.clip(low * (1 - share) + high * share, low, high).tolist()
        outside = [max(low - half, -most), min(high + half, most), -most, most, -np.inf, np.inf]
        values = np.array([low, high, *within, *(outside if bounds else [])])
    return RawCell(name, pa.array(values), values.astype(np.float64))


def _decoded(name: str, kind: str, bounds: tuple[float, float]) -> RawCell:
    """Return a date or a time at both ends of its bounds: whole days, or microseconds."""
    in_days = kind == "date"
    ends = np.trunc(bounds) if in_days else np.rint(np.array(bounds) * 10**6)
    cells = pa.array(ends.astype(np.int32 if in_days else np.int64)).cast(KINDS[kind].stored_as)
    return RawCell(name, cells, ends if in_days else ends * 1e-6)


def _undeclared(name: str, declared: ColumnType, rng: np.random.Generator) -> RawCell:
    """Return a cell of which nothing but the type is known: any numbers, dates or times, or a few words."""
    kinds = [kind for kind in KINDS.values() if declared in kind.read_from and kind.stored_as is not None]
    if declared in OF_TEXT:
        return RawCell(name, pa.array(_WORDS), np.zeros(len(_WORDS)))
    if kinds:
        return _decoded(name, kinds[0].name, (0.0, 1000.0))
    return _number(name, None, rng, whole=declared == ColumnType.INTEGER)


def _with_gaps(cell: RawCell, missing: str) -> RawCell:
    """Return the same with states without a value, null and NaN, where the policy has something to say of that."""
    if missing not in ("midpoint", "indicator", "drop"):
        return cell
    gaps = [pa.nulls(1, cell.values.type), *([pa.array([np.nan])] if pa.types.is_floating(cell.values.type) else [])]
    numbers = np.append(cell.numbers, [np.nan] * len(gaps))
    return RawCell(cell.name, pa.concat_arrays([cell.values, *gaps]), numbers, missing == "drop")
