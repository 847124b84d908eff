"""A release is whole or not at all, and paid for or not at all, whatever happens on the way."""

import contextlib
import os
import resource
import signal
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.unit.publisher.release.conftest import Publish, nothing_happened, private, states

from dp_bundle.base.errors import DpGraphError, SchemaError
from dp_bundle.bundle.reading import open_bundle
from dp_bundle.files import new_files
from dp_publish.accounting.conversions import Cost
from dp_publish.ledger import events
from dp_publish.ledger.ledger import Ledger
from dp_publish.release import preparing


@pytest.fixture
def full_disk() -> Iterator[Callable[[int], None]]:
    """Return a function that lets no file of this process grow beyond a size, as a full disk would not."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.parametrize("missing", [6_000, 30_000])
def test_full_disk_leaves_nothing_and_costs_nothing(
    missing: int, full_disk: Callable[[int], None], tmp_path: Path, publish_here: Publish
) -> None:
    """When the archive (6 kB short) or the data before it (30 kB short) does not fit, there is no file and no cost."""
    frame = pd.DataFrame({"x": np.random.default_rng(1).uniform(size=100_000)})
    sample = publish_here(frame, out="sample.tar", ledger=Ledger(tmp_path / "l")).path
    before = {path for path in tmp_path.iterdir() if path.name != "home"}
    full_disk(sample.stat().st_size - missing)
    with pytest.raises(DpGraphError, match="cannot be written"):
        publish_here(frame)
    assert nothing_happened(tmp_path, before)


@pytest.mark.parametrize(("error", "release"), [(KeyboardInterrupt, "rows"), (MemoryError, "covariance")])
def test_interruption_leaves_nothing_and_costs_nothing(
    error: type[BaseException], release: str, tmp_path: Path, publish_here: Publish
) -> None:
    """Whatever stops the work, even the user, there is no file and no cost."""

    def stop(_rows: int) -> None:
        raise error

    with pytest.raises(error):
        publish_here(policy=private({"x": {"bounds": [0, 1]}}, mu=1.0, release=release), progress=stop)
    assert nothing_happened(tmp_path, set())


def test_a_table_that_cannot_be_read_after_a_search_stays_paid_for(
    tmp_path: Path, publish_here: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was found is known by then, and would be drawn anew; before it, the same costs nothing."""
    monkeypatch.setattr(preparing, "_MOST_KEPT", 0)
    monkeypatch.setattr(preparing, "_ROOM", 2**60)  # there is none, so that every pass parses the text
    policy, path = private(mu=1.0, release="covariance"), tmp_path / "t.csv"
    pd.DataFrame(np.random.default_rng(1).normal(size=(2000, 2)), columns=["x", "y"]).to_csv(path, index=False)
    with path.open("a") as file:
        file.write("1,2,3\n")
    with pytest.raises(SchemaError):
        publish_here(path, policy)
    assert "reserved" not in states()

    def damage(_rows: int) -> None:  # after the first search
        path.write_text(f"x,y\n{'1,2,3' * 2000}\n")

    path.write_text(path.read_text().removesuffix("1,2,3\n"))
    with pytest.raises(SchemaError) as refused:
        publish_here(path, policy, progress=damage)
    assert states()[-1] == "reserved"
    assert "stays in the ledger" in refused.value.__notes__[0]


@pytest.mark.parametrize(
    ("is_made", "error", "state"),
    [
        (True, FileExistsError(17, "lost"), "published"),
        (True, TimeoutError(5, "lost"), "published"),
        (True, KeyboardInterrupt(), "sealed"),
        (False, FileExistsError(17, "exists"), "sealed"),
    ],
)
def test_file_that_may_have_its_name_stays_paid_for(
    is_made: bool,
    error: BaseException,
    state: str,
    tmp_path: Path,
    publish_here: Publish,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever the system says, a bundle that has its name is a release, and once that was tried nothing is taken back.

    On a network a repeated request for a link finds the first one's; a stranger's file is never taken for ours.
    """
    link = os.link

    def link_and_deny(source: str, target: Path, **options: Any) -> None:
        if Path(target).name == "a.tar":
            link(source, target, **options) if is_made else Path(target).write_bytes(b"theirs")
            raise error
        link(source, target, **options)

    monkeypatch.setattr(os, "link", link_and_deny)
    if state == "published":
        publish_here()
    else:
        with pytest.raises((KeyboardInterrupt, DpGraphError)) as caught:
            publish_here()
        assert "stays in the ledger" in caught.value.__notes__[0]
    assert states() == [state]
    if is_made:
        open_bundle(tmp_path / "a.tar").close()
    else:
        assert (tmp_path / "a.tar").read_bytes() == b"theirs"


def test_folder_without_links_can_be_published_to(
    tmp_path: Path, publish_here: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A memory stick has no links, and renames onto nothing; where not even that can be done nothing is begun."""

    def refuse(*_words: object, **_options: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.delattr(os, "O_TMPFILE")
    monkeypatch.setattr(tempfile, "_O_TMPFILE_WORKS", False)  # which remembers what the system could do
    monkeypatch.setattr(os, "link", refuse)
    with monkeypatch.context() as patch:
        patch.setattr(new_files, "_system_call", lambda: None)
        with pytest.raises(DpGraphError, match="another folder"):
            publish_here()
    assert nothing_happened(tmp_path, set())
    open_bundle(publish_here().path).close()
    assert [path.name for path in tmp_path.iterdir() if path.name != "home"] == ["a.tar"]


def test_ledger_says_published_only_when_the_file_is_on_the_disk(
    tmp_path: Path, publish_here: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder is synced with the file's name in it before the commit, so that a loss of power cannot undo it."""
    found: list[tuple[bool, str]] = []
    sync = os.fsync

    def note(descriptor: int) -> None:
        if os.path.samestat(os.fstat(descriptor), tmp_path.stat()):
            found.append(((tmp_path / "a.tar").exists(), *states()))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    publish_here()
    assert found == [(False, "reserved"), (True, "sealed")]  # the first of its hidden name
    assert states() == ["published"]


def test_existing_files_are_never_replaced(tmp_path: Path, publish_here: Publish) -> None:
    """A file or link that is there before, or that appears in the meantime, stays, and nothing is spent."""
    out, link = tmp_path / "a.tar", tmp_path / "link"
    with pytest.raises(DpGraphError, match="already"):
        publish_here(progress=lambda _: out.write_bytes(b"theirs") and None)
    link.symlink_to(tmp_path / "target")
    for path in (out, link):
        with pytest.raises(DpGraphError, match="already"):
            publish_here(out=path)
    assert out.read_bytes() == b"theirs"
    assert nothing_happened(tmp_path, {out, link})


TABLE = pd.DataFrame({"x": [0.5, 0.25]})


@pytest.fixture
def lock(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """Return what has somebody else hold the user's ledger from then on, for longer than anybody waits."""
    monkeypatch.setattr(events, "PATIENCE", 0.2)
    with contextlib.ExitStack() as held:

        def hold() -> None:
            other = sqlite3.connect(home / "ledger.sqlite", isolation_level=None, check_same_thread=False)
            held.callback(other.close)
            other.execute("BEGIN EXCLUSIVE")

        yield hold


def test_no_file_is_said_to_be_where_none_can_be(
    lock: Callable[[], None], tmp_path: Path, publish_here: Publish
) -> None:
    """A release that the ledger does not take as signed gets no name, which is what its publisher is told."""
    with pytest.raises(DpGraphError, match="another process") as caught:
        publish_here(TABLE, progress=lambda _: lock())
    (note,) = caught.value.__notes__
    assert "is signed, is not published, and stays in the ledger as spent, and the same command" in note
    assert not (tmp_path / "a.tar").exists()


def test_an_error_is_told_though_nothing_can_be_taken_back(lock: Callable[[], None], publish_here: Publish) -> None:
    """What ended the release comes first; that it stays spent, and why, comes with it."""

    def stop(_rows: int) -> None:
        lock()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        publish_here(TABLE, progress=stop)
    (note,) = caught.value.__notes__
    assert "it stays in the ledger as spent, as it could not be taken back: " in note


@pytest.mark.parametrize(("pragma", "said"), [("query_only = ON", "right"), ("max_page_count = 1", "room")])
def test_each_cause_has_its_own_sentence(pragma: str, said: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is said to be damaged where there is no room, or no right."""
    connect = sqlite3.connect

    def hinder(*words: Any, **options: Any) -> sqlite3.Connection:
        connection = connect(*words, **options)
        connection.execute(f"PRAGMA {pragma}")
        return connection

    monkeypatch.setattr(sqlite3, "connect", hinder)
    with pytest.raises(DpGraphError, match=said):
        Ledger().reserve("wine", Cost("row", {"cell": 1.0, "row": 1.0}, continuous=True))
