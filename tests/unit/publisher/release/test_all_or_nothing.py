"""A release is whole or not at all, and paid for or not at all, whatever happens on the way."""

from __future__ import annotations

import os
import resource
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pandas as pd
import pytest
from tests.unit.publisher.release.conftest import Publish, nothing_happened, private

from dp_bundle.base.errors import DpGraphError, MissingValuesError
from dp_bundle.bundle.reading import open_bundle
from dp_bundle.files import new_files
from dp_publish.ledger.ledger import Ledger
from dp_publish.release import targets


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
    with pytest.raises(DpGraphError, match="cannot be written") as caught:
        publish_here(frame)
    assert "\n" not in str(caught.value)
    assert nothing_happened(tmp_path, before)


def test_late_missing_value_leaves_nothing_and_costs_nothing(tmp_path: Path, publish_here: Publish) -> None:
    """A gap in the last row, after noise was drawn for the others, ends as if nothing had been begun."""
    values = np.full(300_000, 0.5)
    values[-1] = np.nan
    done: list[int] = []
    with pytest.raises(MissingValuesError, match="'x'") as caught:
        publish_here(pd.DataFrame({"x": values}), progress=done.append)
    assert "nothing is booked" in caught.value.__notes__[0]
    assert done
    assert nothing_happened(tmp_path, set())


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


def test_interruption_after_the_file_has_its_name_stays_paid_for(
    tmp_path: Path, publish_here: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once a bundle is in place its cost is never taken back, not even if the process is stopped right then."""
    whole_file = targets.whole_file

    class Stopped:
        def __init__(self, path: Path) -> None:
            self.inner = whole_file(path)

        def __enter__(self) -> BinaryIO:
            return self.inner.__enter__()

        def __exit__(self, *error: Any) -> None:
            self.inner.__exit__(*error)
            raise KeyboardInterrupt

    monkeypatch.setattr(targets, "whole_file", Stopped)
    with pytest.raises(KeyboardInterrupt):
        publish_here()
    assert (tmp_path / "a.tar").exists()
    assert [entry.state for entry in Ledger().entries()] == ["sealed"]


@pytest.mark.parametrize(("system", "error"), [("unnamed", FileExistsError), ("hidden", TimeoutError)])
def test_link_whose_answer_was_lost_is_a_release(
    system: str, error: type[OSError], tmp_path: Path, publish_here: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the file has its name though the system says otherwise, the release is complete, on the books and said so.

    On a network a repeated request for a link finds the first one's.
    """
    if system == "hidden":
        monkeypatch.delattr(os, "O_TMPFILE")
        monkeypatch.setattr(tempfile, "_O_TMPFILE_WORKS", False)  # which remembers what the system could do
    link = os.link

    def link_and_deny(source: str, target: Path, **options: Any) -> None:
        link(source, target, **options)
        if Path(target).name == "a.tar":
            raise error(5, "lost")

    monkeypatch.setattr(os, "link", link_and_deny)
    receipt = publish_here()
    with open_bundle(tmp_path / "a.tar") as opened:
        assert opened.manifest_sha256 == receipt.manifest_sha256
    assert [entry.state for entry in Ledger().entries()] == ["published"]


def test_file_that_comes_at_the_last_moment_stays_and_the_release_is_spent(
    tmp_path: Path, publish_here: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stranger's file is never taken for ours, and where the link was tried nothing proves that it was not made."""

    def lose_the_race(_source: str, target: Path, **_options: Any) -> None:
        Path(target).write_bytes(b"theirs")
        raise FileExistsError(17, "exists")

    monkeypatch.setattr(os, "link", lose_the_race)
    with pytest.raises(DpGraphError, match="already") as caught:
        publish_here()
    assert (tmp_path / "a.tar").read_bytes() == b"theirs"
    assert "stays on the books" in caught.value.__notes__[0]
    assert [entry.state for entry in Ledger().entries()] == ["sealed"]


def test_folder_without_links_is_found_out_before_anything_is_spent(
    tmp_path: Path, publish_here: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a file can be given no name in one step there is no file, and nothing was ever on the books."""
    _take_links_away(monkeypatch)
    monkeypatch.setattr(new_files, "_system_call", lambda: None)
    with pytest.raises(DpGraphError, match="another folder"):
        publish_here()
    assert nothing_happened(tmp_path, set())
    assert Ledger().books().lines == []


def test_folder_without_links_can_be_published_to(
    tmp_path: Path, publish_here: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A memory stick has no links, and renames onto nothing: the release appears there whole, and replaces nothing."""
    _take_links_away(monkeypatch)
    (tmp_path / "stick").mkdir()
    receipt = publish_here(out=tmp_path / "stick" / "a.tar")
    with open_bundle(receipt.path) as opened:
        assert opened.manifest_sha256 == receipt.manifest_sha256
    assert [path.name for path in (tmp_path / "stick").iterdir()] == ["a.tar"]
    with pytest.raises(DpGraphError, match="never replaced"):
        publish_here(out=tmp_path / "stick" / "a.tar")


def _take_links_away(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_words: object, **_options: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.delattr(os, "O_TMPFILE")
    monkeypatch.setattr(tempfile, "_O_TMPFILE_WORKS", False)  # which remembers what the system could do
    monkeypatch.setattr(os, "link", refuse)


def test_ledger_says_published_only_when_the_file_is_on_the_disk(
    tmp_path: Path, publish_here: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder is synced with the file's name in it before the commit, so that a loss of power cannot undo it."""
    states: list[tuple[bool, str]] = []
    sync = os.fsync

    def note(descriptor: int) -> None:
        if os.path.samestat(os.fstat(descriptor), tmp_path.stat()):
            states.append(((tmp_path / "a.tar").exists(), Ledger().entries()[0].state))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    publish_here()
    assert states == [(True, "sealed")]
    assert Ledger().entries()[0].state == "published"


def test_existing_files_are_never_replaced(tmp_path: Path, publish_here: Publish) -> None:
    """A file, folder or link that is there before, or that appears in the meantime, stays, and nothing is spent."""
    out = tmp_path / "a.tar"
    frame = pd.DataFrame({"x": [0.5]})
    with pytest.raises(DpGraphError, match="already"):
        publish_here(frame, out=out, progress=lambda _: out.write_bytes(b"theirs") and None)
    with pytest.raises(DpGraphError, match="already"):
        publish_here(frame, out=out)
    assert out.read_bytes() == b"theirs"
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "target")
    for name in ("folder", "link"):
        with pytest.raises(DpGraphError, match="already"):
            publish_here(out=tmp_path / name)
    assert nothing_happened(tmp_path, {out, tmp_path / "folder", tmp_path / "link"})
