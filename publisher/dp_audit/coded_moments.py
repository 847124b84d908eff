"""Second moments of raw tables whose cells are no numbers, or have gaps, replayed through their coding.

Neighbours are made of cells in their states (`raw_cells`): levels, the ends of a number, and its gaps. The same random
bits show

- that rows in all states come out exactly as the numbers they stand for, which are computed here afresh;
- that a row, or an entity, in which every cell is in another state, or which is not there, moves the matrix by no more
  than the policy allows, and changes nothing else that a reader sees. No other row has these states: a list of levels
  that was read off the data shows there. One pair is of two rows that should move the sum about as far as any.

Of two rounds and of eigenvectors a movement cannot be measured, as what they choose and draw follows from the data: as
they are attacked with numbers, it matters that raw rows come out as these.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from dp_audit.capped_rows import replay_crowds
from dp_audit.checks import Check, make_check
from dp_audit.made_up import crowd_rows, name_rows
from dp_audit.press import Published
from dp_audit.raw_cells import RawCell, raw_cells, tables_of
from dp_audit.replayer import Limit, Replayer
from dp_bundle.manifest.columns import Column
from dp_bundle.manifest.sources import Source
from dp_publish.covariance.calibration import ball_radius
from dp_publish.covariance.mechanisms.base import Mechanism
from dp_publish.covariance.scaling import Scaling
from dp_publish.policy.model import Policy

_ROWS = 40
_TURNS = (0, 1, -2)  # the state that a cell changes to the next one from
_DRAWN = 256  # pairs of rows, of which one is replayed

_States = NDArray[np.int64]


def without_sources(policy: Policy, kinds: dict[str, str]) -> Policy:
    """Return the policy for a table of the published columns' numbers, by which rows are put where they were."""
    columns = {name: policy.column(name) for name in kinds}
    for name, entry in columns.items():
        filled = "midpoint" if entry.missing == "indicator" else entry.missing
        columns[name] = entry.model_copy(update={"missing": filled, "mechanism": None})
    privacy = policy.privacy.model_copy(update={"l2_radius": ball_radius(policy, kinds)})
    return policy.model_copy(update={"privacy": privacy, "columns": columns, "sources": ()})


def check_coding(
    replayer: Replayer, kinds: dict[str, str], columns: Sequence[Column], mechanism: Mechanism, limit: Limit
) -> Check:
    """Replay releases of raw tables.

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
    cells, rng = raw_cells(replayer.policy.sources, columns), np.random.default_rng(1)
    pairs = [_turned(cells, turn) for turn in _TURNS]
    pairs.append(_far_apart(cells, mechanism.scaling, rng))
    found = [_replay(replayer, cells, before, after, limit, rng) for before, after in pairs]
    of_numbers = without_sources(replayer.policy, kinds)
    if mechanism.places_gaps:
        of_numbers = _with_gaps(of_numbers, replayer.policy)
    _compare_with_numbers(replayer, of_numbers, cells, rng)
    replay_crowds(replayer, cells)
    most = max((each for each in found if each is not None), default=0.0)
    moved = f", and move by at most {most / limit.allowed:.1%} of what the policy allows" if limit.allowed else ""
    return make_check(
        "coding", list(dict.fromkeys(replayer.faults)), f"raw rows come out as the numbers they stand for{moved}"
    )


def _compare_with_numbers(
    replayer: Replayer, of_numbers: Policy, cells: Sequence[RawCell], rng: np.random.Generator
) -> None:
    """Compare releases of raw rows, and of the numbers that they stand for."""
    raw, numbers = tables_of(replayer.policy, cells, _any_states(cells, _ROWS, rng))
    for source in of_numbers.sources:  # whose gaps the mechanism places
        value, gap = (numbers.column(name) for name in source.columns)
        values = pc.if_else(pc.equal(gap, 1.0), None, value)
        place = numbers.column_names.index(source.name)
        numbers = numbers.set_column(place, source.name, values).drop_columns(source.columns[1])
    one = replayer.publish(raw)
    other = Replayer(replayer.press, of_numbers, faults=replayer.faults).publish(numbers)
    if one and other and not _equal(one, other):
        replayer.faults.append("raw rows do not come out as the numbers that they stand for")


def _with_gaps(of_numbers: Policy, policy: Policy) -> Policy:
    """Return the policy for numbers whose gaps are left to the mechanism."""
    sources = [source for source in policy.sources if source.has_gap_column]
    gaps = {
        source.name: of_numbers.column(source.name).model_copy(update={"missing": "indicator"}) for source in sources
    }
    numbers = tuple(Source(name=source.name, kind="number", columns=source.columns) for source in sources)
    return of_numbers.model_copy(update={"columns": {**of_numbers.columns, **gaps}, "sources": numbers})


def _equal(one: Published, other: Published) -> bool:
    """Return True if two releases have the same matrices."""
    pairs = [(one.values, other.values)]
    if one.rounds is not None and other.rounds is not None:
        pairs += [(one.rounds.first, other.rounds.first), (one.rounds.transform, other.rounds.transform)]
    return all(np.array_equal(own, others) for own, others in pairs)


def _replay(
    replayer: Replayer,
    cells: Sequence[RawCell],
    before: _States,
    after: _States,
    limit: Limit,
    rng: np.random.Generator,
) -> float | None:
    """Change all rows of one unit from some states to others that no other row has, or add them."""
    policy = replayer.policy
    rest = _any_states(cells, _ROWS, rng)
    rest = np.where(rest == after, before, rest)
    crowd = crowd_rows(policy) or 1
    own = name_rows(_ROWS)
    owners = [*own, *(["crowd"] * crowd)]

    one, other = (np.vstack([rest, np.tile(states, (crowd, 1))]) for states in (before, after))
    raw, _ = tables_of(policy, cells, other, owners)
    if policy.privacy.neighbours.n_rows_public:
        fewer, _ = tables_of(policy, cells, one, owners)
    else:
        fewer, _ = tables_of(policy, cells, rest, own)
    pair = replayer.neighbours(fewer, raw, limit)
    return None if pair is None else limit.of(pair)


def _any_states(cells: Sequence[RawCell], n: int, rng: np.random.Generator) -> _States:
    """Return states of rows, a column for each cell."""
    return np.column_stack([rng.integers(0, cell.n_states, n) for cell in cells])


def _turned(cells: Sequence[RawCell], turn: int) -> tuple[_States, _States]:
    """Return a row, and one in which every cell is in the next state."""
    n_states = np.array([cell.n_states for cell in cells])
    return turn % n_states, (turn + 1) % n_states


def _far_apart(cells: Sequence[RawCell], scaling: Scaling, rng: np.random.Generator) -> tuple[_States, _States]:
    """Return the two of some rows whose products with themselves are farthest apart."""
    drawn = _any_states(cells, 2 * _DRAWN, rng)
    numbers = np.hstack([cell.numbers[places] for cell, places in zip(cells, drawn.T, strict=True)])
    rows = (numbers - scaling.centers) / scaling.half_widths
    rows = np.column_stack([rows, np.full(len(rows), scaling.constant)])

    one, other = rows[:_DRAWN], rows[_DRAWN:]
    squares = [np.einsum("ij,ij->i", *pair) for pair in ((one, one), (other, other), (one, other))]
    best = int(np.argmax(squares[0] ** 2 + squares[1] ** 2 - 2 * squares[2] ** 2))
    return drawn[best], drawn[_DRAWN + best]
