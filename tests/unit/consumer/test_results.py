"""The folder of results: what may be replaced, and what may not."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from dp_bundle.errors import DpGraphError
from dp_learn import estimate_moments, results
from dp_learn.results import is_result, write_results
from dp_publish import Policy, Receipt, publish

Run = Callable[..., "subprocess.CompletedProcess[str]"]
OURS = {"estimator": "graphical-lasso", "bundles": [{"manifest_sha256": "0" * 64}]}


@pytest.mark.parametrize(
    ("files", "ours"),
    [
        ({}, True),
        ({"summary.json": json.dumps(OURS), "edges.csv": "source,target\n"}, True),
        ({"edges.csv": "mine\n"}, False),
        ({"summary.json": "{}"}, False),
        ({"summary.json": "[]", "edges.csv": ""}, False),
        ({"summary.json": "no json"}, False),
        ({"summary.json": json.dumps({**OURS, "bundles": []})}, False),
        ({"summary.json": json.dumps(OURS), "notes.txt": ""}, False),
    ],
)
def test_only_results_of_ours_may_be_replaced(files: dict[str, str], ours: bool, tmp_path: Path) -> None:
    """A folder is a result if its summary names the bundles it came from and nothing else lies there."""
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    assert is_result(tmp_path) is ours


def test_links_and_folders_with_names_of_ours_are_not_results(tmp_path: Path) -> None:
    """A folder called graph.png, or a link, is somebody else's."""
    (tmp_path / "summary.json").write_text(json.dumps(OURS))
    (tmp_path / "graph.png").mkdir()
    assert not is_result(tmp_path)
    (tmp_path / "graph.png").rmdir()
    (tmp_path / "edges.csv").symlink_to(tmp_path / "summary.json")
    assert not is_result(tmp_path)


def test_files_that_came_meanwhile_survive(tmp_path: Path) -> None:
    """What somebody put into the folder while the graph was computed is not removed, and nothing else is left."""
    folder = tmp_path / "result"
    folder.mkdir()
    (folder / "summary.json").write_text(json.dumps(OURS))
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(DpGraphError, match="give another --out"):
        write_results(None, {}, OURS, "", folder)
    assert (folder / "notes.txt").read_text() == "mine"
    assert list(tmp_path.iterdir()) == [folder]


@pytest.mark.parametrize("error", [OSError("no room"), KeyboardInterrupt()], ids=str)
def test_an_earlier_result_survives_a_failure(
    error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the new folder cannot take its place, or somebody interrupts, the earlier one is there as before."""
    folder, rename = tmp_path / "result", os.rename
    folder.mkdir()
    (folder / "summary.json").write_text(json.dumps(OURS))
    calls = iter([None, error, None])

    def fail_at_second(old: Path, new: Path) -> None:
        if (said := next(calls)) is not None:
            raise said
        rename(old, new)

    monkeypatch.setattr(results.os, "rename", fail_at_second)
    with pytest.raises((DpGraphError, KeyboardInterrupt)):
        write_results(None, {}, {**OURS, "estimator": "new"}, "", folder)
    assert json.loads((folder / "summary.json").read_text()) == OURS
    assert list(tmp_path.iterdir()) == [folder]


def test_handmade_files_survive_and_results_are_replaced(bundle: Receipt, command: Run, tmp_path: Path) -> None:
    """Learning into a folder with somebody's own edges.csv is refused; learning twice into one folder is not."""
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "edges.csv").write_text("a,b\n")
    refused = command("dp-learn", bundle.path, "--out", mine)
    assert refused.returncode == 2
    assert (mine / "edges.csv").read_text() == "a,b\n"

    assert command("dp-learn", bundle.path, "--alpha", "0.2", "--out", "result").returncode == 0
    assert command("dp-learn", bundle.path, "--alpha", "0.3", "--out", "result").returncode == 0
    assert command("dp-learn", bundle.path, "--estimator", "ridge", "--out", "result").returncode == 0


def test_what_many_bundles_have_in_common_is_said_once(
    tmp_path: Path, table: object, policy: Policy, key: object, command: Run
) -> None:
    """Pooling releases under one guarantee prints a line for each file, and the guarantee once."""
    names = [f"{place}.tar" for place in range(3)]
    for name in names:
        publish(table, policy, out=tmp_path / name, key=key)  # type: ignore[arg-type]
    ended = command("dp-learn", *names, "--alpha", "0.2")
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count("Replacing one row") == 1
    assert sum(line.split(":")[0].endswith(".tar") for line in ended.stdout.splitlines()) == 3


def test_moments_of_rows_are_not_asked_of_a_covariance_release(bundle: Receipt) -> None:
    """The error of `estimate_moments` on second moments says what to call instead."""

    class Covariance:
        release = bundle.release.model_copy(update={"kind": "covariance"})

    with pytest.raises(ValueError, match=r"learn_graph\(bundle\).*bundle\.second_moments\(\)"):
        estimate_moments(Covariance())  # type: ignore[arg-type]
