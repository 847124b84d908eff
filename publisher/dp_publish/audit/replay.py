"""Neighbouring tables published with the same random bits.

As the noise is then the same, two releases differ by exactly what their tables' sums or values differ by, and so:

- tables that are one after clipping and filling give the same release: rows outside their bounds and rows at them,
  empty cells and the middle of the bounds, rows that are dropped and rows that are not there;
- tables that differ in one unit ask for the same random bits, their releases differ in no more than the unit's own
  values, by no more than the policy's strength allows, and everything else that a reader sees is equal;
- where rows may come and go, so does a table thirty times as long, but for the number of rows that its matrix tells.

This needs no statistics, and finds what thousands of releases would not. Releases by eigenvectors draw as many random
bits as their directions need, and state an estimate of their errors made from the release: there the bits, and what
follows from the matrix, are left out of the comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import ValidationError

from dp_bundle.errors import DpGraphError, MissingValuesError
from dp_bundle.manifest import Column
from dp_publish.audit.canaries import far_values, limits_of, values_inside
from dp_publish.audit.checks import Check, make_check
from dp_publish.audit.made_up import chunked, crowd_rows
from dp_publish.audit.press import Press, Published, publish_made_up
from dp_publish.policy import Policy
from dp_publish.sampling import insecure_keystream

Loss = Callable[[Published, NDArray[np.float64]], float]  # of what two releases differ by, in the policy's strength
Table = list[NDArray[Any]]  # a column each, of Python objects; None where a cell is empty

_ROWS = 40
_CHANGED, _OUTSIDE, _EMPTY = 5, (8, 14), (20, 23)  # rows of the table
_CUTS = (7, 17, 31)  # where one batch ends and the next begins
_MOST_COLUMNS = 8  # that are changed alone
_SEED = 20


class Tap:
    """Random bits that can be repeated, and how many were asked for each time."""

    def __init__(self) -> None:
        self.requests: list[int] = []
        self._stream = insecure_keystream(_SEED)

    def fill(self, buffer: NDArray[Any]) -> None:
        """Overwrite a C-contiguous array of integers with random bits."""
        self.requests.append(buffer.nbytes)
        self._stream.fill(buffer)


@dataclass(frozen=True)
class _Replayer:
    """Publishes tables with the same random bits, and collects what should be equal and is not; see `check_replay`."""

    press: Press
    policy: Policy
    columns: Sequence[Column]
    allowed: float
    loss: Loss
    hidden: Sequence[str]
    same_bits: bool
    faults: list[str] = field(default_factory=list)

    def same(self, one: Table, other: Table, what: str) -> None:
        """Compare releases that should be equal."""
        pair = self._pair(one, other, what)
        if pair and not np.array_equal(pair[0].values, pair[1].values):
            self.faults.append(f"{what} do not come out alike with the same random bits")

    def neighbours(self, one: Table, other: Table, *owners: list[str]) -> None:
        """Compare releases of which the values of one unit may differ."""
        what = "neighbouring tables"
        pair = self._pair(one, other, what, *owners)
        if pair is None or pair[0].values.shape != pair[1].values.shape:
            return
        found = self.loss(pair[0], pair[1].values - pair[0].values)
        if not found <= self.allowed * (1 + 1e-6):
            self.faults.append(
                f"with the same random bits {what} come out {found:.4g} apart, above the {self.allowed:.4g} of the "
                "policy"
            )

    def equal_but_for_values(self, one: Table, other: Table) -> None:
        """Compare everything else that a reader sees."""
        self._pair(one, other, "neighbouring tables")

    def refused(self, table: Table, name: str) -> None:
        """Check that an empty cell is refused."""
        try:
            self._publish(table, None)
        except MissingValuesError:
            return
        except (DpGraphError, ValidationError) as error:
            self.faults.append(f"made-up rows cannot be published: {error}")
            return
        self.faults.append(f"column {name!r} does not refuse its empty cells")

    def _pair(
        self, one: Table, other: Table, what: str, owners: list[str] | None = None, others: list[str] | None = None
    ) -> tuple[Published, Published] | None:
        try:
            (first, bits), (second, more_bits) = self._publish(one, owners), self._publish(other, others)
        except (DpGraphError, ValidationError) as error:
            self.faults.append(f"made-up rows cannot be published: {error}")
            return None
        differing = compare(first, second, self.hidden)
        self.faults.extend(f"the releases of {what} differ in their {key}" for key in differing)
        if self.same_bits and bits != more_bits:
            self.faults.append(f"the releases of {what} draw their noise in another way")
        return first, second

    def _publish(self, table: Table, owners: list[str] | None) -> tuple[Published, list[int]]:
        unit, tap = self.policy.privacy.entity, Tap()
        if unit and owners is None:
            owners = [f"row {index}" for index in range(len(table[0]))]
        types = [pa.int64() if column.kind == "integer" else pa.float64() for column in self.columns]
        arrays = [pa.array(values.tolist(), kind) for values, kind in zip(table, types, strict=True)]
        named = (unit.entity, pa.array(owners)) if unit and owners else None
        without = len(arrays[0]) < _ROWS  # the rows that are empty elsewhere, in the third batch
        cuts = [cut - (_EMPTY[1] - _EMPTY[0]) * (without and cut > _EMPTY[0]) for cut in _CUTS]
        made_up = chunked(self.columns, arrays, named, cuts)
        return publish_made_up(self.press, made_up, self.policy, tap), tap.requests


def compare(one: Published, other: Published, hidden: Sequence[str] = ()) -> list[str]:
    """Return the names of what a reader sees, but for the values, that differs between two releases."""
    names = [name for name in one.seen if name not in hidden]
    return [
        name.replace("_", " ")
        for name in names
        if _without(one.seen[name], hidden) != _without(other.seen[name], hidden)
    ]


def check_replay(
    press: Press,
    policy: Policy,
    columns: Sequence[Column],
    allowed: float,
    loss: Loss | None = None,
    *,
    hidden: Sequence[str] = (),
    same_bits: bool = True,
) -> Check:
    """Replay releases of neighbouring tables, and of tables that should come out alike.

    Parameters
    ----------
    press : callable
        Publishes a table.
    policy : Policy
        For made-up rows.
    columns : sequence of Column
        As they are published.
    allowed : float
        How far apart neighbours may come out.
    loss : callable, optional
        Returns how far apart two releases are; by default that of rows, their distance in standard deviations.
    hidden : sequence of str
        What may differ: parts of the manifest that follow from the noisy values.
    same_bits : bool
        False if the random bits that are drawn depend on the values.
    """
    replayer = _Replayer(press, policy, columns, allowed, loss or _loss_of_rows, hidden, same_bits)
    rng = np.random.default_rng(_SEED)
    base: Table = [np.array(values.tolist(), dtype=object) for values in values_inside(columns, _ROWS, rng)]
    _replay_equals(replayer, columns, base)
    if policy.privacy.entity:
        _replay_entities(replayer, base, crowd_rows(policy) or 1)
    else:
        _replay_rows(replayer, base)
    if not policy.privacy.neighbours.n_rows_public:
        replayer.equal_but_for_values(base, [np.tile(values, 30) for values in base])
    faults = list(dict.fromkeys(replayer.faults))
    return make_check(
        "replay", faults, "with the same random bits, neighbours differ by no more than the policy allows"
    )


def _replay_equals(replayer: _Replayer, columns: Sequence[Column], base: Table) -> None:
    """Compare tables that are one after clipping and filling."""
    at, far = _copy(base), _copy(base)
    for j, column in enumerate(columns):
        low, high = limits_of(column, len(columns))
        below, above = (values.tolist() for values in far_values(column, len(columns)))
        for turn, row in enumerate(range(*_OUTSIDE)):
            at[j][row] = (low, high)[turn % 2]
            far[j][row] = (below, above)[turn % 2][turn // 2]
        if column.kind == "integer":
            at[j] = np.array([round(value) for value in at[j]], dtype=object)
    if columns[0].ball is None:
        replayer.same(at, far, "rows outside their bounds and rows at them")

    rows = slice(*_EMPTY)
    for j, column in enumerate(columns[:_MOST_COLUMNS]):
        gaps, filled = _copy(base), _copy(base)
        gaps[j][rows] = None
        low, high = limits_of(column, len(columns))
        if column.missing == "refuse":
            replayer.refused(gaps, column.name)
        elif column.missing == "center":  # whose place is found from the table, and paid for
            continue
        elif column.missing == "drop":
            replayer.same(gaps, [np.delete(values, rows) for values in base], "rows to be dropped and rows not there")
        else:
            middle = 0.5 * low + 0.5 * high if column.ball is None else column.ball.center
            filled[j][rows] = round(middle) if column.kind == "integer" else middle
            replayer.same(gaps, filled, "empty cells and the middle of the bounds")


def _replay_rows(replayer: _Replayer, base: Table) -> None:
    """Change one cell, or one row, from one end of its bounds to far beyond the other; or add it."""
    privacy, columns = replayer.policy.privacy, replayer.columns
    one, other = _copy(base), _copy(base)
    for j, column in enumerate(columns):
        one[j][_CHANGED] = _end(column, columns)
        other[j][_CHANGED] = far_values(column, len(columns))[1].tolist()[j % 3]

    if privacy.unit == "change":  # from one end by as much as is protected, or to the other end
        for column, values, own in zip(columns, other, one, strict=True):
            if column.max_change is not None:
                values[_CHANGED] = own[_CHANGED] + int(column.max_change)
    if privacy.unit in ("cell", "change") and columns[0].noise is not None:
        for j in range(min(len(columns), _MOST_COLUMNS)):
            changed = [other[index] if index == j else values for index, values in enumerate(one)]
            replayer.neighbours(one, changed)
    elif privacy.neighbours.n_rows_public:
        replayer.neighbours(one, other)
    else:
        replayer.neighbours([np.delete(values, _CHANGED) for values in other], other)


def _replay_entities(replayer: _Replayer, base: Table, crowd: int) -> None:
    """Change all rows of an entity that has more than it may have, over several batches; or add them."""
    columns = replayer.columns
    own = [f"row {index}" for index in range(_ROWS)]
    owners = [*own, *(["crowd"] * crowd)]
    ends = []
    for beyond in (False, True):
        values = [far_values(c, len(columns))[1].tolist()[0] if beyond else _end(c, columns) for c in columns]
        ends.append([np.concatenate([column, [value] * crowd]) for column, value in zip(base, values, strict=True)])
    if replayer.policy.privacy.neighbours.n_rows_public:
        replayer.neighbours(ends[0], ends[1], owners, owners)
    else:
        replayer.neighbours(base, ends[1], own, owners)


def _loss_of_rows(published: Published, moved: NDArray[np.float64]) -> float:
    return float(np.linalg.norm(moved / [column.cell_noise.sigma for column in published.release.columns]))


def _end(column: Column, columns: Sequence[Column]) -> float | int:
    low, _ = limits_of(column, len(columns))
    return int(low) if column.kind == "integer" else low


def _copy(table: Table) -> Table:
    return [values.copy() for values in table]


def _without(found: Any, hidden: Sequence[str]) -> Any:
    if isinstance(found, list):
        return [_without(part, hidden) for part in found]
    if isinstance(found, dict):
        return {key: _without(value, hidden) for key, value in found.items() if key not in hidden}
    return found
