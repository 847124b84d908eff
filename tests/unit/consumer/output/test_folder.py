"""The folder of results: what may be replaced, and what may not."""

import itertools
import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from dp_bundle.base.errors import DpGraphError
from dp_bundle.base.quoting import quote_path
from dp_bundle.files import new_files
from dp_learn.output import folder as results
from dp_learn.output.folder import foreign_content, write_results
from dp_learn.output.summary import GraphResult

OURS = {"estimator": "graphical-lasso", "bundles": [{"manifest_sha256": "0" * 64}]}
NEW = GraphResult([], {**OURS, "estimator": "new"})


@pytest.fixture
def result(tmp_path: Path) -> Path:
    """Write a result of two files."""
    folder = tmp_path / "result"
    write_results(GraphResult([], OURS, tables={"edges.csv": {"source": ["a"]}}), folder)
    return folder


KILLED = """
import os, pathlib, signal, sys
from dp_learn.output import folder
from dp_learn.output.summary import GraphResult
def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)
setattr(folder, sys.argv[1], die)
ours = {"estimator": "graphical-lasso", "bundles": [{"manifest_sha256": "0" * 64}]}
result = GraphResult([], ours, tables={"edges.csv": {"source": ["a"]}})
folder.write_results(result, pathlib.Path(sys.argv[2]))
"""


@pytest.mark.slow
def test_what_somebody_put_into_it_is_not_removed(result: Path, tmp_path: Path) -> None:
    """A hidden folder with other files in it stays."""
    assert subprocess.run([sys.executable, "-c", KILLED, "_remove", result], check=False).returncode == -signal.SIGKILL
    (left,) = (path for path in tmp_path.iterdir() if path != result)
    (left / "notes.txt").write_text("mine")
    write_results(GraphResult([], OURS), result)
    assert (left / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("name", ["edges.csv", "notes.txt"])
def test_handmade_files_make_a_folder_somebody_elses(name: str, result: Path, tmp_path: Path) -> None:
    """A file, folder or link that dp-learn did not write, or that was changed since, keeps all of it in place."""
    (result / name).unlink(missing_ok=True)
    (result / name).write_text("mine")
    assert quote_path(name) in (foreign_content(result) or "")
    (result / name).unlink()
    (result / name).mkdir()
    assert foreign_content(result) is not None
    (result / name).rmdir()
    (result / name).symlink_to(tmp_path)
    assert foreign_content(result) is not None

    handmade = tmp_path / "handmade"
    handmade.mkdir()
    (handmade / name).write_text(json.dumps(OURS))
    assert name in (foreign_content(handmade) or "")


DAMAGED = [
    "",
    "[]",
    "{}",
    '{"files": []}',
    '{"files": {"../x": [1, 2]}}',
    '{"files": {"/etc/hosts": [1, 2]}}',
    "[" * 100_000,
]


@pytest.mark.parametrize("content", DAMAGED)
def test_damaged_marker_makes_no_result(content: str, result: Path) -> None:
    """A marker that is not one of ours, or that leads out of its folder, vouches for nothing."""
    (result / ".dpgraph-result.json").write_text(content)
    assert foreign_content(result) is not None
    with pytest.raises(DpGraphError, match="--out"):
        write_results(GraphResult([], OURS), result)
    assert (result / "edges.csv").exists()


def test_places_that_are_no_folders_are_refused(result: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a file nor the folder in which the command runs is replaced."""
    (tmp_path / "file").write_text("")
    assert foreign_content(tmp_path / "file") is not None
    monkeypatch.chdir(result)
    assert foreign_content(result) is not None


def test_files_that_came_meanwhile_survive(result: Path, tmp_path: Path) -> None:
    """What somebody put into the folder while the graph was computed is not removed."""
    (result / "notes.txt").write_text("mine")
    with pytest.raises(DpGraphError, match="notes"):
        write_results(NEW, result)
    assert (result / "notes.txt").read_text() == "mine"
    assert json.loads((result / "summary.json").read_text()) == OURS
    assert [path for path in tmp_path.iterdir() if path.name != "home"] == [result]


@pytest.mark.parametrize("error", [OSError("no room"), KeyboardInterrupt()], ids=str)
@pytest.mark.parametrize("at", [1, 2])
def test_an_earlier_result_survives_a_failure(
    at: int, error: BaseException, result: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the new folder cannot take its place, or somebody interrupts, the earlier one is there as before."""
    rename, calls = os.rename, itertools.count(1)
    monkeypatch.setattr(new_files, "_system_call", lambda: None)

    def fail_once(old: Path, new: Path) -> None:
        if next(calls) == at:
            raise error
        rename(old, new)

    monkeypatch.setattr(results.os, "rename", fail_once)
    with pytest.raises((DpGraphError, KeyboardInterrupt)):
        write_results(NEW, result)
    assert json.loads((result / "summary.json").read_text()) == OURS
    assert [path for path in tmp_path.iterdir() if path.name != "home"] == [result]


def test_mode_stays_and_all_is_on_the_disk(result: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A replaced result has the permissions of the earlier one, and its files are synced before it has its name."""
    result.chmod(0o750)
    (result / "edges.csv").chmod(0o640)
    synced: list[str] = []
    sync = os.fsync

    def note(descriptor: int) -> None:
        synced.append(Path(f"/proc/self/fd/{descriptor}").resolve().name)
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    write_results(GraphResult([], OURS, tables={"edges.csv": {"source": ["b"]}}), result)
    assert stat.S_IMODE(result.stat().st_mode) == 0o750
    assert stat.S_IMODE((result / "edges.csv").stat().st_mode) == 0o640
    assert "b" in (result / "edges.csv").read_text()
    assert {"edges.csv", "summary.json", ".dpgraph-result.json", result.parent.name} <= set(synced)
    assert foreign_content(result) is None


def _write_two_levels(new: Path) -> None:
    (new / "periods" / "one").mkdir(parents=True)
    for name in ("periods/one/edges.csv", "summary.json"):
        (new / name).write_text("a")


def test_folders_in_a_result_are_part_of_it(tmp_path: Path) -> None:
    """They are replaced with it and keep their mode; links and empty folders of others make it somebody else's."""
    target = tmp_path / "series"
    results.write_folder(target, _write_two_levels)
    (target / "periods" / "one").chmod(0o750)
    assert foreign_content(target) is None
    results.write_folder(target, _write_two_levels)
    assert stat.S_IMODE((target / "periods" / "one").stat().st_mode) == 0o750
    assert sorted(path.name for path in tmp_path.iterdir()) == ["series"]

    (target / "periods" / "two").mkdir()
    assert "periods/two" in str(foreign_content(target))
    (target / "periods" / "two").rmdir()
    (target / "periods" / "two").symlink_to(tmp_path)
    assert "periods/two" in str(foreign_content(target))
