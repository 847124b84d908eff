"""Folders that appear whole or not at all, are on the disk by then, and never replace another.

Until then they have a hidden name beside it, and are locked. One of such a name that nobody holds is what a killed run
left, and the next run to the same place removes it.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from dp_bundle.base.errors import DpGraphError
from dp_bundle.base.quoting import quote_path
from dp_bundle.files.locking import locked_folder
from dp_bundle.files.new_files import settle
from dp_bundle.files.renaming import UNSUPPORTED, rename_new, sync_folder

_UNFINISHED = ".partial"


@contextlib.contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Make a hidden folder that gets its name when the block ends, and vanishes if it ends by an error.

    Raises
    ------
    DpGraphError
        The folder that is to hold it does not exist.
    FileExistsError
        There is something of that name when the block ends; it is left as it is.
    OSError
        It cannot be written.
    """
    if not folder.parent.is_dir():
        raise DpGraphError(f"the folder must be in one that exists: there is no folder {quote_path(folder.parent)}")
    clear_unfinished(folder)
    with hidden_folder(folder) as hidden:
        yield hidden
        hidden.chmod(0o755)
        for inner in (hidden, *(path for path in hidden.rglob("*") if path.is_dir())):
            sync_folder(inner)
        try:
            rename_new(hidden, folder)
        except OSError as error:
            if error.errno not in UNSUPPORTED:
                raise
            hidden.rename(folder)
        sync_folder(folder.parent)


@contextlib.contextmanager
def hidden_folder(folder: Path, mode: int = 0o700) -> Iterator[Path]:
    """Make a hidden folder beside `folder`, and hold it; if it still has its name in the end, it is removed."""
    hidden = folder.with_name(f".{folder.name}.{secrets.token_hex(8)}{_UNFINISHED}")
    hidden.mkdir(mode)
    made = hidden.stat()
    try:
        with contextlib.ExitStack() as lock:
            with contextlib.suppress(OSError):  # of a file system without locks, where nobody removes it either
                lock.enter_context(locked_folder(hidden))
            yield hidden
    finally:
        with contextlib.suppress(OSError):
            if os.path.samestat(made, hidden.lstat()):  # and not what changed places with it
                shutil.rmtree(hidden, ignore_errors=True)


def clear_unfinished(folder: Path, may_go: Callable[[Path], bool] = lambda _: True) -> None:
    """Remove the user's own hidden folders that killed runs left beside `folder`; `may_go` looks at each before."""
    name = re.compile(rf"\.{re.escape(folder.name)}\.[0-9a-f]{{16}}{re.escape(_UNFINISHED)}")
    with contextlib.suppress(OSError):
        for path in [each for each in folder.parent.iterdir() if name.fullmatch(each.name)]:
            with contextlib.suppress(OSError):  # it is held, or another run removed it
                if not path.is_symlink() and path.stat().st_uid == os.geteuid():
                    with locked_folder(path, 0.0):
                        if may_go(path):
                            shutil.rmtree(path)


@contextlib.contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """Open a new file in such a folder, whose content is on the disk when the block ends."""
    with path.open("xb") as file:
        yield file
        settle(file)
