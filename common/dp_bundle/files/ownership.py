"""Checks that nobody else could have written, or read, a file that is relied on.

The folder where the commands keep keys, trusted signers and the ledger.
"""

import errno
import os
import shlex
import stat
from pathlib import Path

from dp_bundle.base.errors import KeyStoreError
from dp_bundle.base.quoting import quote_path
from dp_bundle.files.new_files import read_at, regular_file


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
