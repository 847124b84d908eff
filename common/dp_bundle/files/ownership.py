"""Checks that nobody else could have written a file that is relied on."""

from __future__ import annotations

import errno
import os
import shlex
import stat
from pathlib import Path

from dp_bundle.errors import KeyStoreError
from dp_bundle.quoting import quote_path

_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def require_own(path: Path) -> None:
    """Refuse a file that others may write or replace; a missing file passes.

    For a link, both its own place and its target's are checked.

    Raises
    ------
    KeyStoreError
        Others may; the message has the command that removes the permission.
    """
    target = Path(os.path.realpath(path))  # also where links form a circle
    for place in dict.fromkeys((path.parent.parent, path.parent, target.parent.parent, target.parent, target)):
        try:
            status = place.stat()
        except OSError:
            continue
        shared_folder = place != target and status.st_mode & stat.S_ISVTX  # where nobody can rename the files of others
        if status.st_mode & _OTHERS and not shared_folder:
            raise KeyStoreError(
                f"other users may change {quote_path(place)}, and with it your keys or whom you trust: make sure "
                f"that its content is yours, then run: chmod go-w {shlex.quote(os.fspath(place))}"
            )
        if status.st_uid not in (0, os.geteuid()):
            raise KeyStoreError(
                f"{quote_path(place)} belongs to another user, who could change your keys or whom you trust: set "
                "DPGRAPH_HOME to a folder of yours"
            )


def read_own(path: Path, most: int) -> bytes:
    """Return the content of a file that `require_own` accepts.

    Raises
    ------
    KeyStoreError
        As `require_own` does.
    OSError
        It is not there, no regular file (reading a pipe would wait for ever), or has more than so many bytes.
    """
    require_own(path)
    return read_regular(path, most)


def read_regular(path: Path, most: int) -> bytes:
    """Return the content of a file.

    Raises
    ------
    OSError
        It is not there, no regular file (reading a pipe would wait for ever), or has more than so many bytes.
    """
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", str(path))
        if status.st_size > most:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
        return file.read(most)
