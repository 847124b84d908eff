"""Where this user's keys, trusted signers and ledger live."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["home_folder"]


def home_folder() -> Path:
    """Return the state folder: `$DPGRAPH_HOME`, else `dpgraph` under `$XDG_CONFIG_HOME` or `~/.config`.

    It holds `keys/` (with a copy of the ledger's log), `trusted/` and `ledger.sqlite`; it may not exist yet.
    """
    chosen = os.environ.get("DPGRAPH_HOME")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "dpgraph"
