"""A ledger that was rolled back is refused however its place is written, and wherever it was moved to."""

import hashlib
import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.s3 import FaultyProxy

from dp_bundle.base.errors import KeyStoreError, PrivacyError
from dp_publish.accounting.conversions import Cost
from dp_publish.ledger.books import chain
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


def test_a_bucket_that_was_rolled_back_is_refused_by_any_name(s3: FaultyProxy, home: Path) -> None:
    """A slash more or less is no other ledger, nor are its objects under another prefix."""
    place = f"s3://{s3.bucket}/books"
    ledger = open_ledger(place)
    for _ in range(2):
        ledger.reserve("wine", ROW)
    store = ledger._log._store  # type: ignore[attr-defined]
    kept = {name: store.read(name) for name in store.names()}
    store.delete("00000002.txt")
    moved = open_ledger(f"s3://{s3.bucket}/moved")._log._store  # type: ignore[attr-defined]
    for name in ("00000000.txt", "00000001.txt"):
        moved.create(name, kept[name])
    for other in (f"{place}/", f"s3://{s3.bucket}//books", f"s3://{s3.bucket}/moved"):
        with pytest.raises(PrivacyError, match=LACKS):
            open_ledger(other).reserve("wine", ROW)
    for name in store.names():
        store.delete(name)
    with pytest.raises(PrivacyError, match=LACKS):
        open_ledger(f"{place}/").reserve("wine", ROW)


def test_of_two_copies_one_goes_on(home: Path, tmp_path: Path) -> None:
    """Once one of two equal ledgers has booked, the other lacks that, and restoring it puts all on its books."""
    ledger = open_ledger(tmp_path / "a.sqlite")
    ledger.reserve("wine", ROW)
    shutil.copy(tmp_path / "a.sqlite", tmp_path / "b.sqlite")
    assert open_ledger(tmp_path / "b.sqlite").reserve("wine", ROW).lineage.number == 2
    with pytest.raises(PrivacyError, match=LACKS):
        ledger.reserve("wine", ROW)
    ledger.rebuild()
    assert [entry.number for entry in ledger.entries()] == [1, 2]
    ledger.reserve("wine", ROW)
    with pytest.raises(PrivacyError, match=LACKS):
        open_ledger(tmp_path / "b.sqlite").entries()


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


def test_an_old_ledger_without_a_mark_goes_on_and_is_known(home: Path, tmp_path: Path) -> None:
    """A first line from before there were marks is as good, and a copy named after another spelling is found."""
    path = tmp_path / "folder" / "l.sqlite"
    spelled = f"{path.parent}/../folder/l.sqlite"
    ledger = Ledger(path)
    with ledger._log.open() as log:
        log.append_line(
            '{"continuous":true,"dataset":"wine","event":"reserved","excepted_delta":0.0,"mu":{"cell":1.0,"row":1.0},'
            '"number":1,"partition":null,"time":"2026-01-01T00:00:00Z","unit":"row"}'
        )
    line = ledger.books().lines[0]
    assert "mark" not in line
    assert ledger.books().head == chain("", line)
    old = path.read_bytes()
    assert open_ledger(spelled).reserve("wine", ROW).lineage.number == 2
    (copy,) = (home / "keys").glob("ledger-*.log")
    copy.rename(copy.with_name(f"ledger-{hashlib.sha256(spelled.encode()).hexdigest()[:16]}.log"))
    path.unlink()
    with pytest.raises(PrivacyError, match=LACKS):
        open_ledger(spelled).reserve("wine", ROW)
    path.write_bytes(old)
    with pytest.raises(PrivacyError, match=LACKS):
        open_ledger(path).reserve("wine", ROW)


@pytest.mark.slow
def test_names_of_one_ledger_at_once_lose_nothing(home: Path, tmp_path: Path) -> None:
    """Eight that book at the same moment by four names of one file get numbers of their own."""
    path = tmp_path / "folder" / "l.sqlite"
    open_ledger(path).reserve("wine", ROW)
    names = [path, *(OF_FILES[name](path, tmp_path) for name in ("hard link", "dots", "link"))]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda index: open_ledger(str(names[index % 4])).reserve("wine", ROW), range(24)))
    assert sorted(each.lineage.number for each in found) == list(range(2, 26))


CASES_OF_MODES = [("", 0o620), ("", 0o640), ("", 0o604), ("-journal", 0o644), ("copy", 0o644)]


@pytest.mark.parametrize(("end", "mode"), CASES_OF_MODES)
def test_a_ledger_that_others_may_read_or_write_is_refused(end: str, mode: int, home: Path, tmp_path: Path) -> None:
    """So is its copy; the refusal ends with the command that mends it, and nothing is booked."""
    path = tmp_path / "l.sqlite"
    ledger = open_ledger(path)
    ledger.reserve("wine", ROW)
    (copy,) = (home / "keys").glob("ledger*.log")
    place = copy if end == "copy" else path.with_name(f"{path.name}{end}")
    place.touch()
    place.chmod(mode)
    for use in (lambda: ledger.reserve("wine", ROW), ledger.entries, ledger.rebuild):
        with pytest.raises(KeyStoreError, match=f"chmod go-rwx {place}$"):
            use()
    place.chmod(0o600)
    assert [entry.number for entry in ledger.entries()] == [1]


def test_a_folder_of_a_ledger_that_others_may_write_is_refused(home: Path, tmp_path: Path) -> None:
    """Who may rename the file can put an old one in its place; in a folder like /tmp nobody else may."""
    folder = tmp_path / "folder"
    ledger = open_ledger(folder / "l.sqlite")
    ledger.reserve("wine", ROW)
    folder.chmod(0o777)
    with pytest.raises(KeyStoreError, match=f"chmod go-w {folder}$"):
        ledger.reserve("wine", ROW)
    folder.chmod(0o1777)
    assert ledger.reserve("wine", ROW).lineage.number == 2


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


def test_a_copy_of_a_shared_ledger_that_others_may_read_is_refused(home: Path, tmp_path: Path) -> None:
    """The shared folder itself is its users' own business."""
    ledger = open_ledger(f"{tmp_path}/books/")
    ledger.reserve("wine", ROW)
    (tmp_path / "books").chmod(0o777)
    assert ledger.reserve("wine", ROW).lineage.number == 2
    (copy,) = (home / "keys").glob("ledger*.log")
    copy.chmod(0o644)
    for use in (lambda: ledger.reserve("wine", ROW), ledger.entries, ledger.rebuild):
        with pytest.raises(KeyStoreError, match=f"chmod go-rwx {copy}$"):
            use()
