"""Entities with more rows than they may have, a crowd for every state that cells can be in.

Their rows come in turn, first in batches that hold one row of each, so that neither what a row holds nor where batches
begin can let a row pass the cap unseen. How many rows are left is public, and known beforehand.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dp_audit.made_up import crowd_rows, in_batches, name_rows
from dp_audit.raw_cells import RawCell, raw_table
from dp_audit.replayer import Replayer

_OTHERS = 10  # entities of one row
_MOST_STATES = 64
_TURNS = 24  # batches of one row of each crowd


def replay_crowds(replayer: Replayer, cells: Sequence[RawCell]) -> None:
    """Check how many rows are published of entities that have too many."""
    policy, rows = replayer.policy, crowd_rows(replayer.policy)
    if not rows or not policy.privacy.neighbours.n_rows_public:
        return
    n = min(max(cell.n_states for cell in cells), _MOST_STATES)
    turns = np.concatenate([np.arange(_OTHERS) % n, np.tile(np.arange(n), rows)])
    owners = [*name_rows(_OTHERS), *(f"crowd {state}" for state in turns[_OTHERS:])]
    arrays = {cell.name: cell.values.take(np.minimum(turns, cell.n_states - 1)) for cell in cells}
    cuts = [_OTHERS + n * turn for turn in range(min(rows, _TURNS))]
    published = replayer.publish(in_batches(raw_table(policy, arrays, owners), cuts))
    allowed = _OTHERS + n * policy.privacy.max_rows
    if published is not None and published.release.n_rows != allowed:
        replayer.faults.append(
            f"{published.release.n_rows} rows were published where entities may have {allowed} in all"
        )
