"""Whether a file that one relies on could have been written by somebody else."""

from __future__ import annotations

import os
import shlex
import stat
from pathlib import Path

from dp_bundle.errors import KeyStoreError
from dp_bundle.quoting import quote_path

__all__ = ["require_own"]

_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def require_own(path: Path) -> None:
    """Refuse a file that others may write, or put another in the place of; one that is not there is nobody's.

    Raises
    ------
    KeyStoreError
        With the line that takes the permission away.
    """
    for place in (path.parent.parent, path.parent, path):
        try:
            status = place.stat()
        except OSError:
            continue
        shared_folder = place != path and status.st_mode & stat.S_ISVTX  # where none can rename what is another's
        if status.st_mode & _OTHERS and not shared_folder:
            raise KeyStoreError(
                f"others may write {quote_path(place)}, on which it depends whom to trust: make sure that its content "
                f"is yours, then run: chmod go-w {shlex.quote(os.fspath(place))}"
            )
        if status.st_uid not in (0, os.geteuid()):
            raise KeyStoreError(
                f"{quote_path(place)}, on which it depends whom to trust, belongs to another user: set DPGRAPH_HOME to "
                "a folder of yours"
            )
