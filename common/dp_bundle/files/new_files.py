"""Files that appear whole or not at all, are on the disk by then, and never replace another by accident."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, cast

from dp_bundle.base.errors import ParameterError
from dp_bundle.base.quoting import quote_path
from dp_bundle.files.renaming import UNSUPPORTED, rename_new, sync_folder


def make_private_folder(folder: Path) -> None:
    """Make a folder and its missing parents, for the user alone; existing folders stay as they are."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(mode=0o700, exist_ok=True)
    folder.mkdir(exist_ok=True)


def write_whole(path: Path, content: bytes, *, replace: bool, mode: int = 0o644) -> None:
    """Write a small file so that a reader sees all of it or none; its folder is made, for the user alone, if missing.

    Parameters
    ----------
    path : Path
        The file to write.
    content : bytes
        All of it.
    replace : bool
        Whether to replace an existing file, which must be known to be ours.
    mode : int
        The permissions of a new file, before the umask.

    Raises
    ------
    FileExistsError
        `path` exists and `replace` is false, or it is not a regular file.
    """
    make_private_folder(path.parent)
    if not replace:
        with whole_file(path, mode=mode) as file:
            file.write(content)
        return
    if os.path.lexists(path) and not stat.S_ISREG(path.lstat().st_mode):
        raise FileExistsError(errno.EEXIST, "it is no regular file", str(path))
    partial = _partial(path)
    with whole_file(partial, mode=mode) as file:
        file.write(content)
    try:
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    sync_folder(path.parent)


@contextlib.contextmanager
def whole_file(path: Path, *, mode: int = 0o644) -> Iterator[BinaryIO]:
    """Open a new file for writing and reading that gets its name only when the block ends without an error.

    Until then it has no name where the system allows that (Linux), so that it vanishes with the process in any case.
    Elsewhere it has a hidden name in the folder of `path`, which nobody else may read; only a killed process leaves it
    behind. Before the block begins, the file system has shown that it can name a file in one step without replacing
    another. After the block, content and name are on the disk.

    Raises
    ------
    FileExistsError
        There is another file at `path` when the block ends; it is left as it is.
    OSError
        It cannot be written, or the file system cannot give a name in that way.
    """
    with contextlib.ExitStack() as cleanup:
        descriptor, give = _open_new(path, mode, cleanup)
        asked = stat.S_IMODE(os.fstat(descriptor).st_mode)
        if os.fstat(descriptor).st_nlink:  # it has a name
            os.fchmod(descriptor, 0o600)
        with cast(BinaryIO, os.fdopen(descriptor, "w+b")) as file:
            yield file
            settle(file)
            os.fchmod(descriptor, asked)
            try:
                give(path)
            except OSError:
                if not _is_named(descriptor, path):  # a network may lose the answer after the name was given
                    raise
            sync_folder(path.parent)


def require_folder(path: Path) -> None:
    """Refuse the path of a new file in a folder that does not exist.

    Raises
    ------
    ParameterError
        There is no such folder; the sentence names it, and the option `--out` that commands have for the file.
    """
    if not path.parent.is_dir():
        raise ParameterError("--out", f"in a folder that exists: there is no folder {quote_path(path.parent)}")


def require_names(folder: Path) -> None:
    """Check that `whole_file` works in a folder; nothing is left there.

    Raises
    ------
    OSError
        No file can be made there, or be given its name in one step.
    """
    with contextlib.ExitStack() as cleanup:
        descriptor, _ = _open_new(folder / "trial", 0o600, cleanup)
        os.close(descriptor)


def settle(file: BinaryIO) -> None:
    """Flush everything written to a file to the disk; a full disk fails here rather than later."""
    file.flush()
    os.fsync(file.fileno())


_Give = Callable[[Path], None]


def _open_new(path: Path, mode: int, cleanup: contextlib.ExitStack) -> tuple[int, _Give]:
    """Open a new file; return it with the function that gives it a name, which must be free."""
    return _open_unnamed(path, mode, cleanup) or _open_hidden(path, mode, cleanup)


def _open_unnamed(path: Path, mode: int, cleanup: contextlib.ExitStack) -> tuple[int, _Give] | None:
    """Open a file without a name, which can be linked through this process's open files (open(2), O_TMPFILE)."""
    try:
        folder = os.open("/proc/self/fd", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        cleanup.callback(os.close, folder)
        descriptor = os.open(path.parent, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, mode)
    except (AttributeError, OSError):
        return None
    return descriptor, lambda target: os.link(str(descriptor), target, src_dir_fd=folder)


def _open_hidden(path: Path, mode: int, cleanup: contextlib.ExitStack) -> tuple[int, _Give]:
    """Open a file under a hidden name in the folder of `path`, after trying a link, or else a renaming, there."""
    partial, trial = _partial(path), _partial(path)
    for name in (partial, trial):
        cleanup.callback(name.unlink, missing_ok=True)
    descriptor = os.open(partial, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, mode)
    try:
        give = _link_or_rename(partial, trial)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor, give


def _link_or_rename(partial: Path, trial: Path) -> _Give:
    """Return the function that names a file without replacing another: by a link, or renaming where there are none."""
    try:
        os.link(partial, trial)
        trial.unlink()
    except OSError as error:
        if error.errno not in UNSUPPORTED:
            raise
        _try_renaming(partial, trial)
        return lambda target: rename_new(partial, target)
    return lambda target: os.link(partial, target)


def _try_renaming(partial: Path, trial: Path) -> None:
    try:
        rename_new(partial, trial)
        rename_new(trial, partial)
    except OSError as error:
        if error.errno not in UNSUPPORTED:
            raise
        said = "its file system can neither link files nor rename them without replacing others, so use another folder"
        raise OSError(error.errno, said, str(trial.parent)) from error


def _is_named(descriptor: int, path: Path) -> bool:
    """Return True if an open file has this name."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except OSError:
        return False


def _partial(path: Path) -> Path:
    return path.with_name(f".{path.name}.{secrets.token_hex(8)}.partial")
