"""Files and folders that appear whole or not at all; what a killed run left of a folder goes, and nothing else."""

import contextlib
import errno
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest

from dp_bundle.files import new_files
from dp_bundle.files.new_files import (
    exchange,
    new_folder,
    rename_new,
    require_names,
    sync_folder,
    whole_file,
    write_whole,
)

_refuse = Mock(side_effect=PermissionError(errno.EPERM, "Operation not permitted"))


@pytest.fixture(params=["unnamed", "hidden", "without links"])
def system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run on a system that knows files without names, on one that does not, and on one without links, as FAT is."""
    if request.param != "unnamed":
        monkeypatch.delattr(os, "O_TMPFILE")
    if request.param == "without links":
        monkeypatch.setattr(os, "link", _refuse)
    return str(request.param)


def test_file_appears_at_the_end_and_not_before(tmp_path: Path, system: str) -> None:
    """The name is there only once the block has ended, and then with all of the content."""
    with whole_file(tmp_path / "a") as file:
        file.write(b"content")
        file.flush()
        assert not (tmp_path / "a").exists()
        assert len(list(tmp_path.iterdir())) == (0 if system == "unnamed" else 1)
        file.seek(0)
        assert file.read() == b"content"
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("a", b"content")]


@pytest.mark.parametrize("error", [ValueError, OSError, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_nothing_is_left_after_an_error(error: type[BaseException], tmp_path: Path, system: str) -> None:
    """Whatever ends the block early, the folder is as it was."""

    def write_half() -> None:
        with whole_file(tmp_path / "a") as file:
            file.write(b"content")
            raise error

    with pytest.raises(error):
        write_half()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("make", [lambda path: path.write_bytes(b"theirs"), lambda path: path.symlink_to("elsewhere")])
def test_existing_file_is_never_replaced(make: Callable[[Path], object], tmp_path: Path, system: str) -> None:
    """What came to be in the meantime stays, also a link to nowhere, whose target is not made; ours leaves no trace."""

    def write_too_late() -> None:
        with whole_file(tmp_path / "a") as file:
            file.write(b"ours")
            make(tmp_path / "a")

    with pytest.raises(FileExistsError):
        write_too_late()
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").is_symlink() or (tmp_path / "a").read_bytes() == b"theirs"


def test_modes_are_as_asked(tmp_path: Path, system: str) -> None:
    """Under a hidden name any file is for its owner alone, a private one always, and the umask still counts."""
    before = os.umask(0o027)
    try:
        with whole_file(tmp_path / "secret", mode=0o600) as file:
            assert stat.S_IMODE(os.fstat(file.fileno()).st_mode) == 0o600
        with whole_file(tmp_path / "large"):
            assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.glob(".*")} <= {0o600}
        write_whole(tmp_path / "shared", b"", replace=False)
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes == {"secret": 0o600, "large": 0o640, "shared": 0o640}


def test_small_files_are_replaced_whole_or_kept(tmp_path: Path, system: str) -> None:
    """Whether a file may be replaced has to be said, and what is no regular file never is."""
    write_whole(tmp_path / "a", b"1", replace=True)
    write_whole(tmp_path / "a", b"2", replace=True)
    with pytest.raises(FileExistsError):
        write_whole(tmp_path / "a", b"3", replace=False)
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("a", b"2")]


def test_where_no_name_can_be_given_nothing_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without links, and a way to rename onto nothing, the error comes before the block, and nothing is left."""
    monkeypatch.delattr(os, "O_TMPFILE")
    monkeypatch.setattr(os, "link", _refuse)
    monkeypatch.setattr(new_files, "_system_call", lambda: None)
    with pytest.raises(OSError, match="use another folder"), whole_file(tmp_path / "a"):
        pytest.fail("the block began")
    with pytest.raises(OSError, match="use another folder"):
        require_names(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_content_and_name_are_on_the_disk_when_the_block_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, system: str
) -> None:
    """First the content is synced, then there is the name, then the folder is synced; replacing is no different."""
    path = tmp_path / "a"
    synced: list[tuple[str, bool]] = []
    sync = os.fsync

    def note(descriptor: int) -> None:
        kind = "folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file"
        synced.append((kind, path.exists() and path.read_bytes() == b"content"))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    with whole_file(path) as file:
        file.write(b"content")
    assert synced == [("file", False), ("folder", True)]
    path.write_bytes(b"earlier")
    write_whole(path, b"content", replace=True)
    assert synced[-1] == ("folder", True)
    assert ("file", False) in synced[2:]


def test_names_change_places_in_one_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two folders change names, a new name replaces nothing, and a system that cannot says so and changes nothing."""
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    other.mkdir()
    (one / "file").write_text("")
    assert exchange(one, other)
    assert (other / "file").exists()
    with pytest.raises(FileNotFoundError):
        exchange(one, tmp_path / "no")
    with pytest.raises(FileExistsError):
        rename_new(one, other)
    rename_new(one, tmp_path / "new")
    assert not one.exists()

    monkeypatch.setattr(new_files, "_system_call", lambda: None)
    assert not exchange(other, tmp_path / "new")
    assert (other / "file").exists()


def test_folder_that_cannot_be_synced_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some file systems have no way to sync a folder; an error of the disk is one all the same."""
    monkeypatch.setattr(os, "fsync", Mock(side_effect=OSError(errno.EINVAL, "Invalid argument")))
    sync_folder(tmp_path)
    monkeypatch.setattr(os, "fsync", Mock(side_effect=OSError(errno.EIO, "Input/output error")))
    with pytest.raises(OSError, match="Input/output"):
        sync_folder(tmp_path)


KILLED = """
import os, pathlib, signal, sys
from dp_bundle.files.new_files import new_folder
with new_folder(pathlib.Path(sys.argv[1])) as new:
    (new / "data").mkdir()
    (new / "data" / "part").write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_run_left_is_removed(tmp_path: Path) -> None:
    """A run to the same place removes it; one to another place does not."""
    ended = subprocess.run([sys.executable, "-c", KILLED, tmp_path / "wine"], check=False)
    assert ended.returncode == -signal.SIGKILL
    (left,) = tmp_path.iterdir()
    with new_folder(tmp_path / "beer"):
        assert left.exists()
    with new_folder(tmp_path / "wine"):
        assert not left.exists()
    assert {path.name for path in tmp_path.iterdir()} == {"beer", "wine"}


def test_what_a_run_is_writing_stays(tmp_path: Path) -> None:
    """Two runs to one place do not take each other's folder; the later one to end is refused."""
    with contextlib.ExitStack() as earlier:
        one = earlier.enter_context(new_folder(tmp_path / "wine"))
        (one / "first").write_text("x")
        with new_folder(tmp_path / "wine") as other:
            (other / "second").write_text("x")
            assert (one / "first").exists()
        with pytest.raises(FileExistsError):
            earlier.close()
    assert [path.name for path in tmp_path.rglob("*")] == ["wine", "second"]
