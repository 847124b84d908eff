"""Raw tables whose cells are no numbers, or have gaps, replayed through their coding with the same random bits.

Two releases then differ by exactly what their tables' numbers differ by. Cells are in their states (`raw_cells`):
levels, the ends of a number, and its gaps.

**Rows.** A table in which every cell is in its first state is compared with two others of as many rows in as many
batches:

- one whose batches hold one state each, or one row each, or rows in any state: what a cell becomes follows from that
  cell alone, and not from the least, the most or the number of different ones in its batch;
- one in which a few rows have what no other row has, and they are rows whose levels randomised response replaced: which
  levels it replaces, and by which, follows from chance alone.

All that a reader sees besides the values is the same for these tables, which have hardly a cell in common.

**Second moments.** The same random bits show

- that rows in all states come out exactly as the numbers they stand for, which are computed here afresh;
- that a row, or an entity, in which every cell is in another state, or which is not there, moves the matrix by no more
  than the policy allows, and changes nothing else that a reader sees. No other row has these states: a list of levels
  that was read off the data shows there. One pair is of two rows that should move the sum about as far as any.

Of two rounds and of eigenvectors a movement cannot be measured, as what they choose and draw follows from the data: as
they are attacked with numbers, it matters that raw rows come out as these.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dp_audit.canaries import crowd_rows, granularities, in_batches, name_rows, raw_table
from dp_audit.checks import Check
from dp_audit.press import Limit, Press, Replayer, made_up_policy, replay_crowds
from dp_audit.raw_cells import Floats, RawCell, States, any_states, raw_arrays, raw_cells, tables_of
from dp_bundle.manifest.columns import Column
from dp_bundle.manifest.sources import Source
from dp_publish.covariance.calibration import ball_radius
from dp_publish.covariance.mechanisms.base import Mechanism
from dp_publish.covariance.scaling import Scaling
from dp_publish.policy.model import Policy
from dp_publish.rows.calibration import calibrate

_ROWS = 600  # of a release of rows
_ALONE = 8  # batches of one state, and as many of one row
_FEW = 3  # rows of a batch of one state
_RARE = 12  # rows of a cell that are in a state of their own
_SUMMED = 40  # rows of a covariance release
_TURNS = (0, 1, -2)  # the state that a cell changes to the next one from
_DRAWN = 256  # pairs of rows, of which one is replayed


def without_sources(policy: Policy, kinds: dict[str, str]) -> Policy:
    """Return the policy for a table of the published columns' numbers, by which rows are put where they were."""
    columns = {name: policy.column(name) for name in kinds}
    for name, entry in columns.items():
        filled = "midpoint" if entry.missing == "indicator" else entry.missing
        columns[name] = entry.model_copy(update={"missing": filled, "mechanism": None})
    privacy = policy.privacy.model_copy(update={"l2_radius": ball_radius(policy, kinds)})
    return policy.model_copy(update={"privacy": privacy, "columns": columns, "sources": ()})


def check_row_coding(press: Press, policy: Policy, kinds: dict[str, str]) -> Check:
    """Replay releases of raw rows.

    Parameters
    ----------
    press : callable
        Publishes a made-up table where nobody keeps the books.
    policy : Policy
        For a release of rows, with sources.
    kinds : dict of str to str
        The published columns.
    """
    policy = made_up_policy(policy, kinds)
    columns, rng = calibrate(policy, kinds), np.random.default_rng(1)
    replayer, cells = Replayer(press, policy), raw_cells(policy.sources, columns)
    _compare_states(replayer, columns, cells, rng)
    replay_crowds(replayer, cells)
    return replayer.check("coding", "a cell comes out as its number, whatever the other cells are")


def check_coding(
    replayer: Replayer, kinds: dict[str, str], columns: Sequence[Column], mechanism: Mechanism, limit: Limit
) -> Check:
    """Replay covariance releases of raw tables.

    Parameters
    ----------
    replayer : Replayer
        Publishes raw tables, by a policy with sources.
    kinds : dict of str to str
        The published columns.
    columns : sequence of Column
        As they are published.
    mechanism : Mechanism
        Which puts rows, and perhaps gaps, where they should be.
    limit : Limit
        How far apart neighbours may come out.
    """
    policy, rng = replayer.policy, np.random.default_rng(1)
    cells = raw_cells(policy.sources, columns)
    n_states = np.array([cell.n_states for cell in cells])
    pairs = [(turn % n_states, (turn + 1) % n_states) for turn in _TURNS]
    pairs.append(_far_apart(cells, mechanism.scaling, rng))
    most = max([0.0, *(_replay(replayer, cells, before, after, limit, rng) for before, after in pairs)])

    of_numbers = without_sources(policy, kinds)
    raw, numbers = tables_of(policy, cells, any_states(cells, _SUMMED, rng))
    if mechanism.places_gaps:
        of_numbers, numbers = _with_gaps(of_numbers, numbers, policy.sources)
    if not (policy.privacy.has_margins and any(source.levels for source in policy.sources)):  # which are no numbers
        replayer.same_as_numbers(raw, of_numbers, numbers)
    replay_crowds(replayer, cells)
    moved = f", and move by at most {most / limit.allowed:.1%} of what the policy allows" if limit.allowed else ""
    alike = (
        "change nothing else that a reader sees"
        if policy.privacy.has_margins
        else "come out as the numbers they stand for"
    )
    return replayer.check("coding", f"raw rows {alike}{moved}")


def _compare_states(
    replayer: Replayer, columns: Sequence[Column], cells: Sequence[RawCell], rng: np.random.Generator
) -> None:
    """Compare tables in other states with one in which every cell is in its first."""

    def raw(states: States) -> pa.Table:
        return in_batches(raw_table(replayer.policy, raw_arrays(cells, states)), _cuts())

    base, states = raw(np.zeros((_ROWS, len(cells)), dtype=np.int64)), _alone(cells, rng)
    replaced: dict[str, NDArray[np.bool_]] = {}
    for _ in range(2):
        pair = replayer.pair(base, raw(states), "tables of as many rows")
        if pair is None or pair[0].values.shape != pair[1].values.shape:
            return
        if len(pair[0].values) != _ROWS:
            replayer.faults.append(f"{len(pair[0].values)} rows were published of {_ROWS}")
            return
        moved, first = np.rint((pair[1].values - pair[0].values) / granularities(columns)), 0
        for cell, own in zip(cells, states.T, strict=True):
            places = slice(first, first + len(cell.columns))
            if cell.response is not None and cell.name not in replaced:
                stays = (moved[:, places] == 0).all(axis=1)
                replaced[cell.name] = (own > 0) & stays | (pair[0].values[:, places] != cell.numbers[0]).any(axis=1)
            replayer.faults.extend(_faults(cell, own, moved[:, places], replaced.get(cell.name)))
            first = places.stop
        states = _rare(cells, replaced)


def _faults(cell: RawCell, states: States, moved: Floats, replaced: NDArray[np.bool_] | None) -> list[str]:
    """Return what is wrong with how far the cells of one raw column moved, in steps."""
    right = (moved == cell.steps[states] - cell.steps[0]).all(axis=1)
    if replaced is None:
        return [] if right.all() else [f"what becomes of a cell of {cell.name!r} depends on other cells"]
    stays = (moved == 0).all(axis=1)  # as the same level replaced both
    if (right | stays)[~replaced].all() and stays[replaced].all():
        return []
    return [f"which levels of {cell.name!r} are replaced, or by which, depends on the levels"]


def _alone(cells: Sequence[RawCell], rng: np.random.Generator) -> States:
    """Return states that a batch's rows have in common, for the first batches, and any for the rest."""
    states = any_states(cells, _ROWS, rng)
    for batch, (start, stop) in enumerate(pairwise(_cuts()[: _ALONE + 1])):
        states[start:stop] = [-1 - batch % cell.n_states for cell in cells]
    return np.remainder(states, [cell.n_states for cell in cells])


def _rare(cells: Sequence[RawCell], replaced: dict[str, NDArray[np.bool_]]) -> States:
    """Return first states but for a few rows, those that were replaced if there are any, each in another state."""
    states = np.zeros((_ROWS, len(cells)), dtype=np.int64)
    for place, cell in enumerate(cells):
        rows = np.flatnonzero(replaced.get(cell.name, np.ones(_ROWS, dtype=bool)))[-_RARE:]
        states[rows, place] = 1 + np.arange(len(rows)) % (cell.n_states - 1)
    return states


def _cuts() -> list[int]:
    few = [_FEW * batch for batch in range(_ALONE + 1)]
    single = [few[-1] + row for row in range(1, _ALONE + 1)]
    return [*few, *single, _ROWS // 2]


def _with_gaps(of_numbers: Policy, numbers: pa.Table, sources: Sequence[Source]) -> tuple[Policy, pa.Table]:
    """Return the policy and the table of numbers whose gaps are left to the mechanism."""
    gaps, left = {}, []
    for source in sources:
        if not source.has_gap_column:
            continue
        gaps[source.name] = of_numbers.column(source.name).model_copy(update={"missing": "indicator"})
        left.append(Source(name=source.name, kind="number", columns=source.columns))
        value, gap = (numbers.column(name) for name in source.columns)
        place, values = numbers.column_names.index(source.name), pc.if_else(pc.equal(gap, 1.0), None, value)
        numbers = numbers.set_column(place, source.name, values).drop_columns(source.columns[1])
    policy = of_numbers.model_copy(update={"columns": {**of_numbers.columns, **gaps}, "sources": tuple(left)})
    return policy, numbers


def _replay(
    replayer: Replayer, cells: Sequence[RawCell], before: States, after: States, limit: Limit, rng: np.random.Generator
) -> float:
    """Change all rows of one unit from some states to others that no other row has, or add them."""
    policy = replayer.policy
    rest = any_states(cells, _SUMMED, rng)
    rest = np.where(rest == after, before, rest)
    crowd = crowd_rows(policy) or 1
    own = name_rows(_SUMMED)
    owners = [*own, *(["crowd"] * crowd)]

    one, other = (np.vstack([rest, np.tile(states, (crowd, 1))]) for states in (before, after))
    public_rows = policy.privacy.neighbours.n_rows_public
    fewer, _ = tables_of(policy, cells, one, owners) if public_rows else tables_of(policy, cells, rest, own)
    pair = replayer.neighbours(fewer, tables_of(policy, cells, other, owners)[0], limit)
    return 0.0 if pair is None else limit.of(pair)


def _far_apart(cells: Sequence[RawCell], scaling: Scaling, rng: np.random.Generator) -> tuple[States, States]:
    """Return the two of some rows whose products with themselves are farthest apart."""
    drawn = any_states(cells, 2 * _DRAWN, rng)
    numbers = np.hstack([cell.numbers[places] for cell, places in zip(cells, drawn.T, strict=True)])
    rows = (numbers - scaling.centers) / scaling.half_widths
    rows = np.column_stack([rows, np.full(len(rows), scaling.constant)])

    one, other = rows[:_DRAWN], rows[_DRAWN:]
    squares = [np.einsum("ij,ij->i", *pair) for pair in ((one, one), (other, other), (one, other))]
    best = int(np.argmax(squares[0] ** 2 + squares[1] ** 2 - 2 * squares[2] ** 2))
    return drawn[best], drawn[_DRAWN + best]
