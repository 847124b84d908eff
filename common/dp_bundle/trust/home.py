"""Where this user's keys, trusted signers and ledger live."""

from __future__ import annotations

import os
from pathlib import Path

from dp_bundle.errors import KeyStoreError

__all__ = ["home_folder"]


def home_folder() -> Path:
    """Return the state folder: `$DPGRAPH_HOME`, else `dpgraph` under `$XDG_CONFIG_HOME` or `~/.config`.

    It holds `keys/` (with a copy of the ledger's log), `trusted/` and `ledger.sqlite`; it may not exist yet.

    Raises
    ------
    KeyStoreError
        This user has no home.
    """
    chosen = os.environ.get("DPGRAPH_HOME")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CONFIG_HOME")
    if base:
        return Path(base) / "dpgraph"
    try:
        return Path.home() / ".config" / "dpgraph"
    except RuntimeError as error:
        raise KeyStoreError(
            "this user has no home folder for keys, trusted signers and the ledger: set DPGRAPH_HOME to a folder"
        ) from error
