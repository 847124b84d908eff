"""The folder of this user's keys, trusted signers and ledger."""

from __future__ import annotations

import os
from pathlib import Path

from dp_bundle.base.errors import KeyStoreError


def home_folder() -> Path:
    """Return the state folder: `$DPGRAPH_HOME`, else `dpgraph` where this system keeps a user's settings.

    That is under `$XDG_CONFIG_HOME` or `~/.config`; on other systems than Linux only if there is one already. It holds
    `keys/` (with a copy of the ledger's log), `trusted/` and `ledger.sqlite`; it may not exist yet.

    Raises
    ------
    KeyStoreError
        This user has no home.
    """
    chosen = os.environ.get("DPGRAPH_HOME")
    if chosen:
        return Path(chosen)
    try:
        known = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "dpgraph"
    except RuntimeError as error:
        raise KeyStoreError(
            "this user has no home folder for keys, trusted signers and the ledger: set DPGRAPH_HOME to a folder"
        ) from error
    if known.exists():
        return known
    from platformdirs import user_config_path  # only commands that need the folder pay for its import

    return user_config_path("dpgraph", appauthor=False)
