"""Folders under construction: what a killed run left is removed, and nothing else is."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dp_bundle.base.errors import DpGraphError
from dp_bundle.files.new_files import new_folder

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


@pytest.mark.parametrize("name", [".wine.original", ".wine.0123456789abcdef", ".winery.0123456789abcdef.partial"])
def test_other_hidden_folders_stay(name: str, tmp_path: Path) -> None:
    """Only names that this module gives are looked at."""
    (tmp_path / name).mkdir()
    (tmp_path / ".wine.0123456789abcdef.partial").symlink_to(tmp_path / name)
    with new_folder(tmp_path / "wine"):
        pass
    assert {path.name for path in tmp_path.iterdir()} == {name, ".wine.0123456789abcdef.partial", "wine"}


def test_a_folder_in_none_is_refused(tmp_path: Path) -> None:
    """The sentence names the folder that is missing."""
    with pytest.raises(DpGraphError, match="there is no folder"), new_folder(tmp_path / "none" / "wine"):
        pass
