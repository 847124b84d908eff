"""A ledger that was rolled back is refused however its place is written, and wherever it was moved to."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.s3 import FaultyProxy

from dp_bundle.base.errors import DpGraphError, KeyStoreError, PrivacyError
from dp_bundle.files.opening import open_store
from dp_publish.accounting.conversions import Cost
from dp_publish.ledger.ledger import Ledger, open_ledger

ROW = Cost("row", {"cell": 1.0, "row": 1.0}, continuous=True)
LACKS = "that it had before"


def _linked(path: Path, link: Path) -> Path:
    link.symlink_to(path)
    return link


def _moved(path: Path, target: Path) -> Path:
    path.rename(target)
    return target


SPELLINGS: dict[str, Callable[[Path, Path], object]] = {
    "dots": lambda path, _: f"{path.parent}/../{path.parent.name}/{path.name}",
    "link": lambda path, place: _linked(path, place / "link"),
    "linked parent": lambda path, place: _linked(path.parent, place / "parent") / path.name,
    "renamed parent": lambda path, place: _moved(path.parent, place / "renamed") / path.name,
    "moved": lambda path, place: _moved(path, place / "moved"),
}
OF_FILES: dict[str, Callable[[Path, Path], object]] = {
    **SPELLINGS,
    "hard link": lambda path, place: (place / "hard").hardlink_to(path) or place / "hard",
    "relative": lambda path, _: os.path.relpath(path),
}
CASES = [*((name, False) for name in OF_FILES), ("link", True), ("moved", True)]


@pytest.mark.parametrize(("name", "own"), CASES)
def test_a_file_that_was_rolled_back_is_refused_by_any_name(name: str, own: bool, home: Path, tmp_path: Path) -> None:
    """An old copy in its place is known by its first line, an empty one by its place, and all is put back."""
    path = home / "ledger.sqlite" if own else tmp_path / "folder" / "l.sqlite"
    ledger = Ledger() if own else open_ledger(path)
    ledger.reserve("wine", ROW)
    old = path.read_bytes()
    ledger.reserve("wine", ROW)
    path.write_bytes(old)
    place = str(OF_FILES[name](path, tmp_path))
    for use in (lambda: open_ledger(place).reserve("wine", ROW), open_ledger(place).entries):
        with pytest.raises(PrivacyError, match=LACKS):
            use()
    open_ledger(place).rebuild()
    assert open_ledger(place).reserve("wine", ROW).lineage.number == 3
    Path(place).resolve().unlink()
    if name not in ("moved", "renamed parent", "hard link"):
        with pytest.raises(PrivacyError, match=LACKS):
            open_ledger(place).reserve("wine", ROW)


@pytest.mark.parametrize(("name", "scheme"), [*((name, "") for name in SPELLINGS), ("dots", "file://")])
def test_a_folder_that_was_rolled_back_is_refused_by_any_name(
    name: str, scheme: str, home: Path, tmp_path: Path
) -> None:
    """The same of a shared ledger, where an event lacks."""
    path = tmp_path / "folder" / "books"
    ledger = open_ledger(f"{path}/")
    for _ in range(2):
        ledger.reserve("wine", ROW)
    (path / "00000002.txt").unlink()
    place = f"{scheme}{SPELLINGS[name](path, tmp_path)}/"
    with pytest.raises(PrivacyError, match=LACKS):
        open_ledger(place).reserve("wine", ROW)
    open_ledger(place).rebuild()
    assert open_ledger(place).reserve("wine", ROW).lineage.number == 3


def test_a_backup_is_a_copy_of_the_ledger(home: Path, tmp_path: Path) -> None:
    """What `ledger backup` wrote cannot be used beside the ledger it was made of, of whatever kind that is."""
    for name, ledger in (("file", Ledger()), ("folder", open_ledger(f"{tmp_path}/books/"))):
        ledger.reserve("wine", ROW)
        ledger.backup(tmp_path / f"{name}.backup")
        ledger.reserve("wine", ROW)
        with pytest.raises(PrivacyError, match=LACKS):
            open_ledger(tmp_path / f"{name}.backup").reserve("wine", ROW)


def test_shared_ledgers_that_parted_are_merged(home: Path, tmp_path: Path) -> None:
    """Two folders that went on from one state are both refused, and restoring one puts all on its books."""
    one, other = f"{tmp_path}/one/", f"{tmp_path}/other/"
    open_ledger(one).reserve("wine", ROW)
    shutil.copytree(one, other)
    keys = home / "keys"
    open_ledger(other).reserve("beer", ROW)
    shutil.move(keys, tmp_path / "hidden")  # two machines, whose folders of keys are then put together
    open_ledger(one).reserve("cider", ROW)
    for path in (tmp_path / "hidden").glob("ledger-*.log"):
        if not (keys / path.name).exists():
            shutil.move(path, keys / path.name)
    for place in (one, other):
        with pytest.raises(PrivacyError, match=LACKS):
            open_ledger(place).reserve("wine", ROW)
    assert open_ledger(one).rebuild() == (None, 1)
    assert {entry.dataset for entry in open_ledger(one).entries()} == {"wine", "beer", "cider"}


@pytest.mark.parametrize(
    ("end", "mode"), [("", 0o620), ("", 0o604), ("-journal", 0o644), ("copy", 0o644), ("shared", 0o644)]
)
def test_a_ledger_that_others_may_read_or_write_is_refused(end: str, mode: int, home: Path, tmp_path: Path) -> None:
    """So is its copy, also of a shared one; the refusal ends with the command that mends it, and nothing is booked."""
    path = tmp_path / "l.sqlite"
    ledger = open_ledger(f"{tmp_path}/books/" if end == "shared" else path)
    ledger.reserve("wine", ROW)
    (copy,) = (home / "keys").glob("ledger*.log")
    place = copy if end in ("copy", "shared") else path.with_name(f"{path.name}{end}")
    place.touch()
    place.chmod(mode)
    for use in (lambda: ledger.reserve("wine", ROW), ledger.entries, ledger.rebuild):
        with pytest.raises(KeyStoreError, match=f"chmod go-rwx {place}$"):
            use()
    place.chmod(0o600)
    assert [entry.number for entry in ledger.entries()] == [1]


def test_ledgers_that_begin_alike_are_different(home: Path, tmp_path: Path) -> None:
    """One release that two ledgers begin with in the same second, or that was put back in both, makes no copies."""
    one, other = open_ledger(tmp_path / "one"), open_ledger(tmp_path / "other")
    for ledger in (one, other):
        ledger.reserve("wine", ROW)
    entries = one.entries()
    third, fourth = open_ledger(tmp_path / "third"), open_ledger(f"{tmp_path}/fourth/")
    for ledger in (third, fourth):
        ledger.put_back(entries)
    for number in (2, 3):
        assert [each.reserve("wine", ROW).lineage.number for each in (one, other, third, fourth)] == [number] * 4


def test_a_bucket_that_was_rolled_back_is_refused_by_any_name(s3: FaultyProxy, home: Path) -> None:
    """A slash more or less is no other ledger."""
    place = f"s3://{s3.bucket}/books"
    for _ in range(2):
        open_ledger(place).reserve("wine", ROW)
    for name in ("00000002.txt", "00000001.txt", "00000000.txt"):
        open_store(place).delete(name)
        for other in (f"{place}/", f"s3://{s3.bucket}//books"):
            with pytest.raises(DpGraphError):
                open_ledger(other).reserve("wine", ROW)
