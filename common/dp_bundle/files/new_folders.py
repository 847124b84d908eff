"""Folders that appear whole or not at all, are on the disk by then, and never replace another."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from dp_bundle.errors import DpGraphError
from dp_bundle.files.new_files import settle
from dp_bundle.files.renaming import UNSUPPORTED, rename_new, sync_folder
from dp_bundle.quoting import quote_path


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
    hidden = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
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
    finally:
        shutil.rmtree(hidden, ignore_errors=True)


@contextlib.contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """Open a new file in such a folder, whose content is on the disk when the block ends."""
    with path.open("xb") as file:
        yield file
        settle(file)
