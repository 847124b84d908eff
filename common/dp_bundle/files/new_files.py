"""Files and folders that appear whole or not at all, are on the disk by then, and never replace another by accident.

Until then a folder has a hidden name beside it, and is locked. One of such a name that nobody holds is what a killed
run left, and the next run to the same place removes it.

Linux renames to a new name that replaces nothing, and exchanges two names, by renameat2(2), on most file systems.
Elsewhere `rename_new` and `exchange` return False, with nothing changed.

Locks keep processes from doing the same thing at once; they end with the process, however it ends.

Checks that nobody else could have written, or read, a file that is relied on.

The folder where the commands keep keys, trusted signers and the ledger.
"""

import contextlib
import ctypes
import errno
import fcntl
import hashlib
import math
import os
import re
import secrets
import shlex
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

from dp_bundle.base.errors import DpGraphError, KeyStoreError, ParameterError
from dp_bundle.base.quoting import quote_path

_UNSUPPORTED = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.EMLINK)
_HERE = -100  # AT_FDCWD
_NO_REPLACE, _EXCHANGE = 1, 2
_UNFINISHED = ".partial"


def make_private_folder(folder: Path) -> None:
    """Make a folder and its missing parents, for the user alone; existing folders stay as they are."""
    for path in reversed([path for path in (folder, *folder.parents) if not path.exists()]):
        path.mkdir(mode=0o700, exist_ok=True)
    folder.mkdir(exist_ok=True)


def write_whole(path: Path, content: bytes, *, replace: bool, mode: int | None = None) -> None:
    """Write a small file so that a reader sees all of it or none; its folder is made, for the user alone, if missing.

    Parameters
    ----------
    path : Path
        The file to write.
    content : bytes
        All of it.
    replace : bool
        Whether to replace an existing file, which must be known to be ours.
    mode : int, optional
        The permissions, before the umask; by default those of the file that is replaced, and of a new one 0644.

    Raises
    ------
    FileExistsError
        `path` exists and `replace` is false, or it is not a regular file.
    """
    make_private_folder(path.parent)
    if not replace:
        with whole_file(path, mode=mode or 0o644) as file:
            file.write(content)
        return
    before = path.lstat().st_mode if os.path.lexists(path) else None
    if before is not None and not stat.S_ISREG(before):
        raise FileExistsError(errno.EEXIST, "it is no regular file", str(path))
    partial = _partial(path)
    with whole_file(partial, mode=mode or (0o644 if before is None else 0o600)) as file:
        file.write(content)
    try:
        if mode is None and before is not None:
            partial.chmod(stat.S_IMODE(before))
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    sync_folder(path.parent)


def is_inside(name: str) -> bool:
    """Return True for a path that cannot lead out of the folder that it begins in."""
    return not Path(name).is_absolute() and ".." not in Path(name).parts


@contextlib.contextmanager
def regular_file(path: str | os.PathLike[str], flags: int = 0, folder: int | None = None) -> Iterator[int]:
    """Open a file for reading, as a number; a pipe with nobody behind it is no reason to wait.

    Parameters
    ----------
    path : str or Path
        The file.
    flags : int
        Further flags of open(2).
    folder : int, optional
        The open folder that a relative path starts from.

    Raises
    ------
    OSError
        It cannot be opened, or is no regular file (EINVAL).
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | flags, dir_fd=folder)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", os.fspath(path))
        yield descriptor
    finally:
        os.close(descriptor)


def read_at(descriptor: int, position: int, size: int) -> bytes:
    """Return `size` bytes of an open file, or fewer at its end."""
    content = os.pread(descriptor, size, position)
    while len(content) < size and (more := os.pread(descriptor, size - len(content), position + len(content))):
        content += more
    return content


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


def link_hidden(file: BinaryIO, path: Path) -> Path | None:
    """Give an open file a hidden name beside a path, by which it outlives its process; None where that cannot be."""
    hidden = _partial(path)
    try:
        with _open_files() as folder:
            os.link(str(file.fileno()), hidden, src_dir_fd=folder)
        sync_folder(path.parent)
    except OSError:
        return None
    return hidden


@contextlib.contextmanager
def _open_files() -> Iterator[int]:
    """Open the folder of this process's open files, by which one without a name can be linked."""
    folder = os.open("/proc/self/fd", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield folder
    finally:
        os.close(folder)


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


class HashedFile:
    """A binary file that is written from start to end, its size and its SHA-256, for which nothing is read again.

    Parameters
    ----------
    file : binary file, optional
        New and empty; it gets what is written.

    Attributes
    ----------
    size : int
        The bytes written so far.
    """

    closed = False  # pyarrow asks; whoever opened the file closes it

    def __init__(self, file: BinaryIO | None = None) -> None:
        self._file, self._digest, self.size = file, hashlib.sha256(), 0

    def write(self, content: bytes) -> int:
        """Write bytes, and return their number."""
        self._digest.update(content)
        self.size += len(content)
        return len(content) if self._file is None else self._file.write(content)

    def flush(self) -> None:
        """Hand everything written to the system."""
        if self._file is not None:
            self._file.flush()

    def sha256(self) -> str:
        """Return the digest of all bytes so far, in hexadecimal digits."""
        return self._digest.hexdigest()


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
        folder = cleanup.enter_context(_open_files())
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
        if error.errno not in _UNSUPPORTED:
            raise
    else:
        return lambda target: os.link(partial, target)
    _require_renamed(partial, trial)
    _require_renamed(trial, partial)
    return lambda target: _require_renamed(partial, target)


def _require_renamed(source: Path, target: Path) -> None:
    if not rename_new(source, target):
        said = "its file system can neither link files nor rename them without replacing others, so use another folder"
        raise OSError(errno.ENOTSUP, said, str(target.parent))


def _is_named(descriptor: int, path: Path) -> bool:
    """Return True if an open file has this name."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except OSError:
        return False


def _partial(path: Path) -> Path:
    return path.with_name(f".{path.name}.{secrets.token_hex(8)}{_UNFINISHED}")


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
        if not rename_new(hidden, folder):
            hidden.rename(folder)
        sync_folder(folder.parent)


@contextlib.contextmanager
def hidden_folder(folder: Path, mode: int = 0o700) -> Iterator[Path]:
    """Make a hidden folder beside `folder`, and hold it; if it still has its name in the end, it is removed."""
    hidden = _partial(folder)
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


def rename_new(source: Path, target: Path) -> bool:
    """Rename a file or folder without replacing another; return False where the system cannot.

    Raises
    ------
    FileExistsError
        There is something at the target.
    OSError
        The system failed to.
    """
    return _rename(source, target, _NO_REPLACE)


def exchange(one: Path, other: Path) -> bool:
    """Exchange the names of two files or folders in one step; return False where the system cannot."""
    return _rename(one, other, _EXCHANGE)


def sync_folder(folder: Path) -> None:
    """Flush the names in a folder to the disk, where its file system can do that."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP):
            raise
    finally:
        os.close(descriptor)


def _rename(source: Path, target: Path, flags: int) -> bool:
    call = _system_call()
    if call is None:
        return False
    if call(_HERE, os.fsencode(source), _HERE, os.fsencode(target), flags):
        number = ctypes.get_errno()
        if number not in _UNSUPPORTED:
            raise OSError(number, os.strerror(number), str(target))
        return False
    return True


def _system_call() -> Callable[..., Any] | None:
    """Return the C library's renameat2, if it has one."""
    try:
        call = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError, TypeError):
        return None
    call.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
    return call


def locked(path: Path, patience: float = math.inf) -> contextlib.AbstractContextManager[None]:
    """Hold a lock file, which is made if missing, so that no other process holds it at the same time.

    Raises
    ------
    OSError
        It cannot be made, or others held it for longer than so many seconds (TimeoutError).
    """
    make_private_folder(path.parent)
    return _held(path, os.O_CREAT | os.O_RDWR, patience)


def locked_folder(folder: Path, patience: float = math.inf) -> contextlib.AbstractContextManager[None]:
    """Hold a folder itself, which leaves no file in it, so that no other process holds it at the same time.

    Raises
    ------
    OSError
        It is not there, or others held it for longer than so many seconds (TimeoutError).
    """
    return _held(folder, os.O_RDONLY | os.O_DIRECTORY, patience)


@contextlib.contextmanager
def _held(path: Path, flags: int, patience: float) -> Iterator[None]:
    """Open and lock a file or folder, and close it in the end, which gives the lock back."""
    descriptor = os.open(path, flags | os.O_CLOEXEC, 0o600)
    deadline = time.monotonic() + patience
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if time.monotonic() >= deadline:
                    raise TimeoutError(errno.ETIMEDOUT, "another process holds it", str(path)) from error
                time.sleep(0.005)
        yield
    finally:
        os.close(descriptor)


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


_WRITE = stat.S_IWGRP | stat.S_IWOTH
_ANY = stat.S_IRWXG | stat.S_IRWXO
_NEAREST = 2  # folders above a file: those that this software makes
_UNMAPPED = 65534  # whom Linux names as the owner of what belongs to nobody in this container
_MOST_LINKS = 40


def require_own(path: Path, *, private: bool, holds: str = "your keys or whom you trust") -> None:
    """Refuse a file that others may write or replace, or perhaps read; a missing file passes.

    Every folder is checked that is passed on the way to it, and to what its links point to.

    Parameters
    ----------
    path : Path
        The file.
    private : bool
        Whether others may not even read it.
    holds : str
        What they could change there.

    Raises
    ------
    KeyStoreError
        Others may; the message has the command that removes the permission.
    """
    folders, target = _way_to(path)
    nearest = {*list(target.parents)[:_NEAREST], *list(path.absolute().parents)[:_NEAREST]}
    for place in folders:
        _require(place, _WRITE, holds, is_near=place in nearest)
    _require(target, _ANY if private else _WRITE, holds)


def _require(place: Path, forbidden: int, holds: str, *, is_near: bool = True) -> None:
    """Refuse a file or folder by its mode and owner."""
    try:
        status = place.stat()
    except OSError:
        return
    is_folder, mine = stat.S_ISDIR(status.st_mode), os.geteuid()
    shared = is_folder and status.st_mode & stat.S_ISVTX  # where nobody can rename the files of others
    given = status.st_mode & forbidden & ~(_WRITE if shared else 0)
    command = f"chmod go-{'w' if forbidden == _WRITE else 'rwx'} {shlex.quote(os.fspath(place))}"
    elsewhere = "" if status.st_uid == mine else ", as its owner or root; or keep what is yours in a folder of yours"
    if given & _WRITE:
        raise KeyStoreError(
            f"other users may change {quote_path(place)}, and with it {holds}: make sure that its content is yours, "
            f"then run{elsewhere}: {command}"
        )
    if given:
        raise KeyStoreError(
            f"other users may read {quote_path(place)}, which is for you alone: copy it to a folder of yours if it is "
            f"on a volume where modes do not change, or else run{elsewhere}: {command}"
        )
    foreign = status.st_uid not in (0, mine)
    if foreign and (is_near or (mine != 0 and status.st_uid != _UNMAPPED)):
        raise KeyStoreError(
            f"{quote_path(place)} belongs to another user, who could change {holds}: set DPGRAPH_HOME to a folder of "
            "yours, or name a file that lies in one"
        )


def _way_to(path: Path) -> tuple[list[Path], Path]:
    """Return every folder that is passed on the way to a file, through all links, and where the way ends.

    A link of another user's is refused where everybody may make links, and nobody may replace those of others.
    """
    rest, place, found, n_links = list(path.absolute().parts[1:]), Path("/"), {Path("/"): None}, 0
    while rest:
        part = rest.pop(0)
        if part == "..":
            place = place.parent
            continue
        step = place / part
        if step.is_symlink() and n_links < _MOST_LINKS:
            n_links += 1
            if place.stat().st_mode & stat.S_ISVTX and step.lstat().st_uid not in (0, os.geteuid()):
                raise KeyStoreError(
                    f"the link {quote_path(step)} belongs to another user, who could let it lead elsewhere: name what "
                    "it leads to"
                )
            link = step.readlink()
            place = Path("/") if link.is_absolute() else place
            rest = [*(link.parts[1:] if link.is_absolute() else link.parts), *rest]
            continue
        place = step
        if rest:
            found[place] = None
    return list(found), place


def read_own(path: Path, most: int, *, private: bool = False) -> bytes:
    """Return the content of a file that `require_own` accepts.

    Raises
    ------
    KeyStoreError
        As `require_own` does.
    OSError
        It is not there, no regular file (reading a pipe would wait for ever), or has more than so many bytes.
    """
    require_own(path, private=private)
    return read_regular(path, most)


def read_regular(path: Path, most: int) -> bytes:
    """Return the content of a file.

    Raises
    ------
    OSError
        It is not there, no regular file (reading a pipe would wait for ever), or has more than so many bytes.
    """
    with regular_file(path) as descriptor:
        if os.fstat(descriptor).st_size > most:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
        return read_at(descriptor, 0, most)
