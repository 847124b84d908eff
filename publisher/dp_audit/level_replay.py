"""Tables of levels, or of numbers with gaps, that differ in one cell, published as rows with the same random bits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dp_audit.cell_states import AuditedCell, CategoryCell, table_in_states
from dp_audit.checks import Check, make_check
from dp_audit.press import Press
from dp_audit.replay import mu_of_move
from dp_audit.replayer import Replayer
from dp_publish.policy.model import Policy

_ROWS = 300


def check_level_replay(press: Press, policy: Policy, cells: Sequence[AuditedCell], rng: np.random.Generator) -> Check:
    """Publish tables that differ in one cell with the same random bits."""
    replayer = Replayer(press, policy)
    base = {each.source.name: rng.integers(0, each.n_states - 1, _ROWS) for each in cells}
    starts = [(cell, start) for cell in cells for start in range(1 if isinstance(cell, CategoryCell) else 2)]
    for each, start in starts:
        name, row = each.source.name, int(rng.integers(_ROWS))
        before, alone = dict(base), dict(base)
        before[name], alone[name] = base[name].copy(), base[name].copy()
        before[name][row] = start
        alone[name][row] = each.n_states - 1  # which no other row has
        one, other = (table_in_states(policy, cells, states) for states in (before, alone))
        pair = replayer.pair(one, other, "tables that differ in one cell")
        if pair and pair[0].values.shape == pair[1].values.shape:
            replayer.faults.extend(_moved_faults(each, pair[1].values - pair[0].values, row))
    faults = list(dict.fromkeys(replayer.faults))
    return make_check("replay", faults, "one changed cell changes nothing else, and moves it by no more than stated")


def _moved_faults(each: AuditedCell, moved: NDArray[np.float64], row: int) -> list[str]:
    """Return what is wrong with how far a changed cell moved the release."""
    own = moved[row, each.places].copy()
    moved[row, each.places] = 0.0
    faults = [f"a cell of {each.source.name!r} moves other cells, too"] if moved.any() else []
    if each.response is None:
        apart = mu_of_move(each.columns, own)
        if apart > each.claim * (1 + 1e-6):
            faults.append(
                f"with the same random bits a cell of {each.source.name!r} moves by {apart:.4g}, above {each.claim:.4g}"
            )
    return faults
