"""A release whose process ended: taken back where nothing was told, and else finished by the same command."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.unit.publisher.release.conftest import Publish, killed_by, private, states

from dp_bundle.base.errors import DpGraphError
from dp_bundle.bundle.reading import open_bundle
from dp_publish import Receipt
from dp_publish.covariance.two_rounds.steps import Choice, NoisyCounts
from dp_publish.ledger.ledger import Ledger
from dp_publish.release import begun as records
from dp_publish.release import publishing, targets

SEARCHED = private(mu=4.0, release="covariance")
DECLARED = private({name: {"bounds": [-4, 4]} for name in "xy"}, mu=4.0)
ROWS = private({name: {} for name in "xy"}, mu=4.0, release="rows")


class KilledError(BaseException):
    """Ends a process as a kill does: nothing of ours handles it."""


# What a process ends in, before the call or after it.
STOPS: dict[str, tuple[Any, str, str]] = {
    "before it is booked": (Ledger, "reserve", "before"),
    "booked": (Ledger, "reserve", "after"),
    "drawn": (publishing, "settle", "before"),
    "recorded as sealed": (Ledger, "seal", "before"),
    "sealed": (Ledger, "seal", "after"),
    "placed": (Ledger, "commit", "before"),
    "published": (Ledger, "commit", "after"),
    "before its members": (targets, "unpack_bundle", "before"),
    "after its members": (targets, "unpack_bundle", "after"),
}


@contextlib.contextmanager
def killed(stop: str) -> Iterator[None]:
    """End the block at a step, as a kill would: no handler runs."""
    owner, name, when = STOPS[stop]
    original = getattr(owner, name)

    def call(*given: Any, **named: Any) -> Any:
        if when == "after":
            original(*given, **named)
        raise KilledError

    with killed_by(KilledError, owner, name, call):
        yield


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of a table."""
    values = np.random.default_rng(3).normal(size=(1000, 2)) @ [[1, 0.5], [0, 1]]
    pd.DataFrame(values, columns=["x", "y"]).to_parquet(tmp_path / "d.parquet")
    return tmp_path / "d.parquet"


@pytest.mark.parametrize("policy", [SEARCHED, DECLARED, ROWS], ids=["searched", "declared", "rows"])
@pytest.mark.parametrize("stop", STOPS)
def test_the_same_command_finishes_a_release(
    stop: str, policy: Any, path: Path, tmp_path: Path, publish_here: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever a process ends: one release, paid for once, no search drawn twice, and nothing left in hidden places."""
    out = f"{tmp_path}/out/" if "members" in stop else "a.tar"
    place = tmp_path / out.rstrip("/")
    drawn: list[str] = []
    for kind in (Choice, NoisyCounts):
        honest = kind.draw
        monkeypatch.setattr(
            kind, "draw", lambda step, *given, honest=honest: (drawn.append(step.name), honest(step, *given))[1]
        )
    with killed(stop):
        publish_here(path, policy, out=out)
    first = place.read_bytes() if place.is_file() else b""
    beside: list[Receipt] = []
    receipt = publish_here(path, policy, out=out, then=beside.append)
    assert (receipt.path, beside) == (place, [receipt])
    with pytest.raises(DpGraphError, match="already"):
        publish_here(path, policy, out=out)

    (entry,) = Ledger().entries()
    with open_bundle(place, allow_older=True) as opened:
        assert (entry.state, entry.manifest_sha256) == ("published", opened.manifest_sha256)
    assert first in (b"", place.read_bytes() if place.is_file() else b"")
    searches = [name for name in drawn if "round" not in name and "radius" not in name]
    assert len(searches) == len(set(searches))
    assert not [*records.records(Ledger())]
    assert {each.name for each in tmp_path.iterdir()} == {"home", "d.parquet", place.name}


@pytest.mark.parametrize(("policy", "state"), [(DECLARED, []), (SEARCHED, ["reserved"])])
def test_another_command_takes_back_what_told_nothing(
    policy: Any, state: list[str], path: Path, publish_here: Publish
) -> None:
    """A killed release of which a search had told something waits for the same command on the same table alone."""
    with killed("drawn"):
        publish_here(path, policy)
    assert states() == ["reserved"]
    other = private({"x": {"bounds": [-4, 4]}, "y": {"drop": True}}, mu=1.0)
    publish_here(path, other, out="b.tar")
    assert states() == [*state, "published"]

    changed = pd.read_parquet(path)
    changed.loc[0, "x"] += 1.0
    changed.to_parquet(path)
    publish_here(path, policy, out="c.tar")
    assert states() == [*state, "published", "published"]


def test_an_outcome_that_was_not_written_to_its_end_is_drawn(path: Path, publish_here: Publish) -> None:
    """Nothing had followed from it; and those before it stay, whatever ends the next process."""
    for more in ("", '{"name": "half'):
        with killed("drawn"):
            publish_here(path, SEARCHED)
        (begun,) = records.records(Ledger())
        outcomes = begun.folder / "outcomes.jsonl"
        whole = outcomes.read_text().splitlines()
        outcomes.write_text("".join(f"{line}\n" for line in whole[:2]) + more)
    publish_here(path, SEARCHED)
    assert states() == ["published"]


def test_a_file_with_a_name_may_have_been_seen(
    path: Path, publish_here: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the system has no files without names, a killed process leaves noisy ones: the next command pays again."""
    monkeypatch.delattr(os, "O_TMPFILE")
    monkeypatch.setattr(tempfile, "_O_TMPFILE_WORKS", False)  # which remembers what the system could do
    for policy in (DECLARED, SEARCHED):
        with killed("drawn"):
            publish_here(path, policy)
        publish_here(path, policy, out=f"{policy is DECLARED}.tar")
    assert states() == ["reserved", "published"] * 2


@pytest.mark.parametrize(("stop", "name"), [("drawn", "outcomes.jsonl"), ("sealed", "sealed.json")])
def test_a_record_that_was_changed_is_named(stop: str, name: str, path: Path, publish_here: Publish) -> None:
    """One sentence says which, and without it the release stays spent."""
    with killed(stop):
        publish_here(path, SEARCHED)
    (begun,) = records.records(Ledger())
    (begun.folder / name).write_text("{\n")
    with pytest.raises(DpGraphError, match="was changed: remove it"):
        publish_here(path, SEARCHED)
    shutil.rmtree(begun.folder)
    publish_here(path, SEARCHED)
    assert len(states()) == 2


def test_a_living_process_keeps_its_release(path: Path, publish_here: Publish) -> None:
    """Two commands of one kind at once are two releases, each with its own record."""
    inner: list[Receipt] = []

    def meanwhile(_rows: int) -> None:
        if not inner:
            inner.append(publish_here(path, SEARCHED, out="b.tar"))
            with pytest.raises(DpGraphError, match="a process is at"):
                records.cancel(Ledger(), "d", 1)

    outer = publish_here(path, SEARCHED, progress=meanwhile)
    assert [each.release.lineage.number for each in (outer, *inner)] == [1, 2]
    assert states() == ["published", "published"]


def test_what_was_signed_and_is_gone_is_not_drawn_again(path: Path, tmp_path: Path, publish_here: Publish) -> None:
    """A sealed bundle may have been seen: without its file the release stays spent, and the next one is another."""
    with killed("placed"):
        publish_here(path, SEARCHED)
    (tmp_path / "a.tar").rename(tmp_path / "elsewhere.tar")
    for hidden in tmp_path.glob(".a.tar*"):
        hidden.unlink()
    with pytest.raises(DpGraphError, match="may have been seen"):
        publish_here(path, SEARCHED)
    publish_here(path, SEARCHED)
    assert states() == ["sealed", "published"]


def test_where_the_name_was_taken_meanwhile_another_will_do(path: Path, tmp_path: Path, publish_here: Publish) -> None:
    """A bundle that was sealed for a name that is taken by now goes where the next command says."""
    with killed("sealed"):
        publish_here(path, DECLARED)
    (tmp_path / "a.tar").write_text("theirs")
    with pytest.raises(DpGraphError, match="already"):
        publish_here(path, DECLARED)
    receipt = publish_here(path, DECLARED, out="b.tar")
    assert (receipt.path.name, receipt.release.lineage.number) == ("b.tar", 1)
    assert states() == ["published"]


def test_where_another_name_has_it_already_the_publisher_is_told(
    path: Path, publish_here: Publish, caplog: pytest.LogCaptureFixture
) -> None:
    """A bundle that lies where an earlier command put it is not published again under the name of the next one."""
    with killed("placed"):
        publish_here(path, DECLARED)
    receipt = publish_here(path, DECLARED, out="b.tar")

    assert receipt.path.name == "a.tar"
    assert [("a.tar" in each, "b.tar" in each) for each in caplog.messages] == [(True, True)]


def test_a_release_on_a_shared_ledger_is_taken_back_where_it_was_begun(
    path: Path, tmp_path: Path, publish_here: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another machine has no record of it, and cannot know; this one takes it out, by name or in passing."""
    from dp_publish.ledger.ledger import open_ledger

    place = f"{tmp_path}/shared/"
    for by_name in (True, False):
        with killed("drawn"):
            publish_here(path, DECLARED, ledger=open_ledger(place))
        number = max(each.number for each in open_ledger(place).books().of("d"))
        with monkeypatch.context() as patch:
            patch.setenv("DPGRAPH_HOME", str(tmp_path / "another"))
            with pytest.raises(DpGraphError, match="no record of it: it failed here"):
                records.cancel(open_ledger(place), "d", number)
        if by_name:
            assert "is out of the ledger" in records.cancel(open_ledger(place), "d", number)
        else:
            records.take_back(open_ledger(place))
        assert open_ledger(place).entries() == []
    shutil.rmtree(tmp_path / "shared")
