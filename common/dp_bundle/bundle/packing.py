"""The two forms of a bundle, a tar and a folder, made from each other: the same members, so the same signature.

Whoever holds one form can make the other, without a key. Every byte is compared with what was verified as it is copied,
and the other form appears whole or not at all.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from dp_bundle.bundle.opened import Bundle
from dp_bundle.errors import DpGraphError
from dp_bundle.files import new_file, new_folder, require_folder, whole_file, write_archive
from dp_bundle.quoting import quote_path


def pack_bundle(bundle: Bundle, path: Path) -> None:
    """Write a verified bundle to a new tar, which is the only one that it has.

    Parameters
    ----------
    bundle : Bundle
        In either form.
    path : Path
        The new file. Nothing is ever replaced.

    Raises
    ------
    BundleFormatError
        The bundle was changed after it was verified.
    DpGraphError
        There is something of that name already, or it cannot be written.
    """
    with _writing(path), whole_file(path) as file:
        write_tar(bundle, file)


def unpack_bundle(bundle: Bundle, folder: Path) -> None:
    """Write a verified bundle to a new folder, with each member as a file.

    Parameters
    ----------
    bundle : Bundle
        In either form.
    folder : Path
        The new folder. Nothing is ever replaced.

    Raises
    ------
    BundleFormatError
        The bundle was changed after it was verified.
    DpGraphError
        There is something of that name already, or it cannot be written.
    """
    with _writing(folder), new_folder(folder) as new:
        for name in bundle.members:
            target = new / name
            target.parent.mkdir(exist_ok=True)
            with bundle.open(name) as member, new_file(target) as file:
                shutil.copyfileobj(member, file)


def write_tar(bundle: Bundle, file: BinaryIO) -> None:
    """Write a verified bundle as a tar, from the file's position on.

    Raises
    ------
    BundleFormatError
        The bundle was changed after it was verified.
    """
    write_archive(file, ((name, bundle.open(name)) for name in bundle.members))


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Refuse a path that is taken, and say in a sentence what keeps it from being written."""
    taken = DpGraphError(f"there is something at {quote_path(path)} already: give another name with --out")
    if os.path.lexists(path):
        raise taken
    require_folder(path)
    try:
        yield
    except FileExistsError as error:
        raise taken from error
    except OSError as error:
        raise DpGraphError(f"{quote_path(path)} cannot be written: {error.strerror or error}") from error
