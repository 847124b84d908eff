"""A ledger that was rolled back is refused wherever it is; a shared one has the same books, and one winner each."""

import hashlib
import math
import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.s3 import FaultyProxy

from dp_bundle.base.errors import BudgetExceededError, DpGraphError, KeyStoreError, PrivacyError
from dp_bundle.files.opening import FolderStore, open_store
from dp_bundle.files.places import Store
from dp_publish.accounting.conversions import Cost
from dp_publish.ledger.events import EventObjects
from dp_publish.ledger.ledger import Ledger, open_ledger
from dp_publish.ledger.log import Log

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
    open_ledger(place).log.rebuild()
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
    open_ledger(place).log.rebuild()
    assert open_ledger(place).reserve("wine", ROW).lineage.number == 3


def test_a_backup_is_a_copy_of_the_ledger(home: Path, tmp_path: Path) -> None:
    """What `ledger backup` wrote cannot be used beside the ledger it was made of, of whatever kind that is."""
    for name, ledger in (("file", Ledger()), ("folder", open_ledger(f"{tmp_path}/books/"))):
        ledger.reserve("wine", ROW)
        ledger.log.backup(tmp_path / f"{name}.backup")
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
    assert open_ledger(one).log.rebuild() == (None, 1)
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
    for use in (lambda: ledger.reserve("wine", ROW), ledger.entries, ledger.log.rebuild):
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


BUDGET = math.sqrt(5)


@pytest.fixture
def folder(tmp_path: Path, home: Path) -> Path:
    """Return the folder of a shared ledger with three releases: published, cancelled, reserved."""
    ledger = open_ledger(f"{tmp_path}/shared/")
    first = ledger.reserve("wine", ROW, partition="a", budget_mu=3.0)
    ledger.seal(first, "a" * 64, Path("1.tar"))
    ledger.commit(first, "a" * 64, Path("1.tar"))
    ledger.cancel(ledger.reserve("wine", ROW))
    ledger.reserve("wine", ROW)
    return tmp_path / "shared"


def test_books_are_those_of_a_local_ledger(folder: Path, tmp_path: Path) -> None:
    """Entries, totals, budgets and heads, each the SHA-256 of an object, are those of the backup, an SQLite file."""
    ledger = open_ledger(f"file://{folder}")
    ledger.log.backup(tmp_path / "backup.sqlite")
    local = Ledger(tmp_path / "backup.sqlite")
    assert [(entry.number, entry.state) for entry in ledger.entries()] == [(1, "published"), (3, "reserved")]
    assert (ledger.entries(), ledger.books().budgets) == (local.entries(), {"wine": {"row": 3.0}})
    with pytest.raises(FileExistsError):
        ledger.log.backup(tmp_path / "backup.sqlite")

    paths = sorted(folder.glob("*.txt"))[1:]
    digests = [hashlib.sha256(path.read_bytes()).hexdigest() for path in paths]
    assert digests == ledger.books().heads == local.books().heads
    assert [path.read_text().split("\n")[0] for path in paths] == ["", *digests[:-1]]
    marks = {line.partition('"mark":"')[2][:32] for line in ledger.books().lines}
    assert len(marks) == len(paths)
    lineage = ledger.reserve("wine", ROW).lineage
    assert (lineage.ledger_head, lineage.previous) == (ledger.books().head, "a" * 64)


def _mix(folder: Path) -> None:
    other = open_ledger(f"{folder.parent}/other/")
    for _ in range(3):
        other.cancel(other.reserve("wine", ROW))
    for path in sorted((folder.parent / "other").glob("*.txt"))[4:]:
        (folder / path.name).write_bytes(path.read_bytes())


def _edit(name: str, before: bytes, after: bytes) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        content = (folder / name).read_bytes()
        assert before in content
        (folder / name).write_bytes(content.replace(before, after))

    return edit


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "gap": (lambda folder: (folder / "00000002.txt").unlink(), "event 2"),
    "no beginning": (lambda folder: (folder / "00000000.txt").unlink(), "event 0"),
    "rewritten": (_edit("00000004.txt", b'"row":1.0', b'"row":0.5'), "event 4"),
    "rewritten last": (_edit("00000006.txt", b'"row":1.0', b'"row":0.5'), "event 6"),
    "broken hash": (_edit("00000003.txt", b"\n{", b"0\n{"), "event 3"),
    "no event": (lambda folder: (folder / "00000005.txt").write_bytes(b"\xff"), "event 5"),
    "cut short": (lambda folder: (folder / "00000006.txt").unlink(), "lacks lines"),
    "two ledgers": (_mix, "event 4"),
    "something else": (lambda folder: (folder / "notes.txt").write_text("x"), "notes.txt"),
    "another version": (_edit("00000000.txt", b"version 1", b"version 2"), "version"),
}


@pytest.mark.parametrize("case", DAMAGES)
def test_every_damage_is_refused(case: str, folder: Path, tmp_path: Path) -> None:
    """A gap, a rewritten object, a broken hash or another ledger's events show anywhere; a lost end where it was seen.

    A reservation reads what is new since the copy, and sees what it would build on.
    """
    damage, message = DAMAGES[case]
    damage(folder)
    with pytest.raises(DpGraphError, match=message):
        open_ledger(f"{folder}/").entries()
    if case not in ("rewritten", "broken hash", "no event"):
        with pytest.raises(DpGraphError):
            open_ledger(f"{folder}/").reserve("wine", ROW)
    if case not in ("rewritten last", "cut short"):
        with pytest.raises(DpGraphError):
            Ledger(log=Log(EventObjects(open_store(folder)), tmp_path / "new.log")).entries()


def test_missing_objects_come_back_from_the_copy(folder: Path) -> None:
    """What was deleted is put back byte for byte; what was rewritten is left, and refused."""
    ledger, before = open_ledger(f"{folder}/"), {path.name: path.read_bytes() for path in folder.iterdir()}
    for name in ("00000000.txt", "00000003.txt", "00000006.txt"):
        (folder / name).unlink()
    assert ledger.log.rebuild() == (None, 2)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    DAMAGES["rewritten"][0](folder)
    with pytest.raises(PrivacyError, match="event 4"):
        ledger.log.rebuild()


def test_other_machines_go_on(folder: Path, tmp_path: Path) -> None:
    """A machine without a copy reads all, one with an older copy what is new, and each sees the other's events."""
    place = open_store(str(folder))
    ours, theirs = (Ledger(log=Log(EventObjects(place), tmp_path / name)) for name in ("ours.log", "theirs.log"))
    numbers = [ledger.reserve("wine", ROW).lineage.number for ledger in (ours, theirs, theirs, ours)]
    assert numbers == [4, 5, 6, 7]
    assert ours.entries() == theirs.entries()
    assert (tmp_path / "ours.log").read_text() == (tmp_path / "theirs.log").read_text()


def _on(store: Store, tmp_path: Path) -> Callable[[int], Ledger]:
    """Return what makes the ledger of each of several machines."""
    return lambda index: Ledger(log=Log(EventObjects(store), tmp_path / f"machine-{index}" / "ledger.log"))


@pytest.mark.parametrize("place", ["file", "folder", pytest.param("bucket", marks=pytest.mark.slow)])
def test_eight_at_once(place: str, tmp_path: Path, home: Path, request: pytest.FixtureRequest) -> None:
    """Of eight reservations with room for five, exactly five fit, of one machine or of several with a shared ledger.

    A bucket fails in every way, and loses each first creation's answer.
    """
    store = tmp_path / "shared"
    if place == "bucket":
        request.getfixturevalue("s3").break_everything()
        store = f"s3://{request.getfixturevalue('s3').bucket}/ledger"
    new_ledger = (lambda _: Ledger()) if place == "file" else _on(open_store(store), tmp_path)

    def reserve(index: int) -> int:
        try:
            return new_ledger(index).reserve("wine", ROW, budget_mu=BUDGET).lineage.number
        except BudgetExceededError:
            return 0

    with ThreadPoolExecutor(8) as pool:
        numbers = sorted(pool.map(reserve, range(8)))
    ledger = new_ledger(0)
    assert numbers == [0, 0, 0, 1, 2, 3, 4, 5]
    assert [entry.number for entry in ledger.entries("wine")] == [1, 2, 3, 4, 5]
    assert ledger.books().account("wine").mu("row") == pytest.approx(BUDGET)


def test_a_lost_answer_books_once(s3: FaultyProxy, tmp_path: Path) -> None:
    """If the answer to every creation is lost, a release is still reserved and published exactly once."""
    s3.lose_answers = True
    ledger = _on(open_store(f"s3://{s3.bucket}/ledger"), tmp_path)(0)
    ledger.commit(ledger.reserve("wine", ROW), "a" * 64, Path("1.tar"))
    assert [(entry.number, entry.state) for entry in ledger.entries()] == [(1, "published")]
    assert (len(ledger.books().lines), s3.faults["lost"]) == (2, 3)


def test_storage_that_replaces_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where an object can be replaced by one that was to be created only, no ledger is begun."""
    create = FolderStore.create

    def replace(store: FolderStore, name: str, content: bytes) -> bytes:
        if name in store.names():
            store.delete(name)
        return create(store, name, content)

    monkeypatch.setattr(FolderStore, "create", replace)
    with pytest.raises(DpGraphError, match="replaces"):
        open_ledger(f"{tmp_path}/books/").reserve("wine", ROW)
