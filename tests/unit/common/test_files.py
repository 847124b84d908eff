"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from dp_bundle.files import whole_file, write_whole


@pytest.fixture(params=["unnamed", "hidden"])
def system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run on a system that knows files without names, and on one that does not."""
    if request.param == "hidden":
        monkeypatch.delattr(os, "O_TMPFILE")
    return str(request.param)


def test_file_appears_at_the_end_and_not_before(tmp_path: Path, system: str) -> None:
    """The name is there only once the block has ended, and then with all of the content."""
    with whole_file(tmp_path / "a") as file:
        file.write(b"content")
        file.flush()
        assert not (tmp_path / "a").exists()
        assert len(list(tmp_path.iterdir())) == (1 if system == "hidden" else 0)
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


def test_existing_file_is_never_replaced(tmp_path: Path, system: str) -> None:
    """A file that came to be in the meantime stays, and ours leaves no trace."""

    def write_too_late() -> None:
        with whole_file(tmp_path / "a") as file:
            file.write(b"ours")
            (tmp_path / "a").write_bytes(b"theirs")

    with pytest.raises(FileExistsError):
        write_too_late()
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("a", b"theirs")]


def test_link_to_nowhere_is_not_followed(tmp_path: Path, system: str) -> None:
    """A dangling link at the path counts as a file and keeps its target uncreated."""
    (tmp_path / "a").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileExistsError), whole_file(tmp_path / "a") as file:
        file.write(b"ours")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_modes_are_as_asked(tmp_path: Path, system: str) -> None:
    """A private file is private from its first byte, and the umask still counts."""
    before = os.umask(0o027)
    try:
        with whole_file(tmp_path / "secret", mode=0o600) as file:
            assert stat.S_IMODE(os.fstat(file.fileno()).st_mode) == 0o600
        write_whole(tmp_path / "shared", b"")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "secret").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "shared").stat().st_mode) == 0o640


def test_unfinished_file_is_nobody_elses_to_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under its hidden name a file is for its owner alone, whatever it will be."""
    monkeypatch.delattr(os, "O_TMPFILE")
    with whole_file(tmp_path / "a") as file:
        file.write(b"content")
        assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o600}
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) & 0o700 == 0o600
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o666 & ~_umask() & 0o644


def _umask() -> int:
    current = os.umask(0o077)
    os.umask(current)
    return current


def test_missing_folder_is_an_os_error(tmp_path: Path, system: str) -> None:
    """A large file's folder is not made up; a small one's is, for the user alone."""
    with pytest.raises(FileNotFoundError), whole_file(tmp_path / "no" / "a"):
        pass
    write_whole(tmp_path / "yes" / "deep" / "a", b"1")
    assert stat.S_IMODE((tmp_path / "yes").stat().st_mode) == 0o700


def test_small_files_are_replaced_whole_or_kept(tmp_path: Path, system: str) -> None:
    """Replacing is the default, and can be forbidden."""
    write_whole(tmp_path / "a", b"1")
    write_whole(tmp_path / "a", b"2")
    with pytest.raises(FileExistsError):
        write_whole(tmp_path / "a", b"3", replace=False)
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("a", b"2")]


def test_failed_replacement_leaves_nothing(tmp_path: Path, system: str) -> None:
    """Where the name is taken by a folder, no half of the file stays behind."""
    (tmp_path / "a" / "b").mkdir(parents=True)
    with pytest.raises(OSError, match="a"):
        write_whole(tmp_path / "a", b"content")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
