"""The ledger's checkpoint: what it says is what the whole log says, or it is not used."""

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.publisher.ledger.conftest import execute, lines, run_at_once

from dp_bundle.base.errors import DpGraphError, PrivacyError
from dp_publish.accounting.conversions import Cost
from dp_publish.ledger import checkpoint
from dp_publish.ledger import log as ledger_log
from dp_publish.ledger.books import chain, encode_line
from dp_publish.ledger.budget import exact, root
from dp_publish.ledger.ledger import Ledger, Reservation

ROW = Cost("row", {"cell": 0.1, "row": 0.3}, continuous=True)
costs = st.builds(
    Cost,
    st.sampled_from(["row", "cell", "entity:who"]),
    st.dictionaries(st.sampled_from(["row", "cell", "entity:who"]), st.floats(1e-9, 1e9), max_size=3),
    st.booleans(),
    st.floats(0.0, 1e-3),
)
steps = st.one_of(
    st.tuples(st.sampled_from(["a", "b"]), st.sampled_from([None, "p", "q"]), costs, st.none() | st.floats(0.1, 1e10)),
    st.sampled_from(["seal", "commit", "cancel"]),
)


def never(*_: object) -> None:
    """Stand for what must not be called."""
    raise AssertionError("the log was read whole")


def require_same(ledger: Ledger) -> None:
    """Compare the account of every dataset and partition with what the whole log says."""
    places = [(dataset, partition) for dataset in ("a", "b", "wine") for partition in (None, "p", "q")]
    with ledger_log.LocalLog(ledger.path, ledger.copy).open() as log:
        kept = {place: log.account(*place) for place in places}
        known, books = not log.is_whole, log.books
    for (dataset, partition), account in kept.items():
        whole = books.account(dataset)
        if known:
            whole.parts = {} if partition is None else {partition: whole.parts.get(partition, {})}
        assert account == whole


@settings(max_examples=12, deadline=None)
@given(st.lists(steps, min_size=1, max_size=8))
def test_checkpoint_says_what_the_log_says(steps: list[object]) -> None:
    """After whatever releases do, in whatever order, the account that is kept is the one that a replay gives."""
    with tempfile.TemporaryDirectory() as folder:
        ledger, open_ones = Ledger(Path(folder) / "l.sqlite", Path(folder) / "l.log"), []
        for step in steps:
            try:
                if isinstance(step, tuple):
                    dataset, partition, cost, budget = step
                    open_ones.append(ledger.reserve(dataset, cost, partition=partition, budget_mu=budget))
                elif open_ones:
                    finish(ledger, open_ones[-1], str(step))
            except DpGraphError:  # beyond a budget, or done already
                continue
        if ledger.path.exists():
            require_same(ledger)
            assert checkpoint.read_copy(ledger.copy) == ledger.books().lines


def finish(ledger: Ledger, reservation: Reservation, how: str) -> None:
    """Seal, commit or cancel a release."""
    if how == "cancel":
        ledger.cancel(reservation)
    else:
        getattr(ledger, how)(reservation, f"{reservation.lineage.number:064x}", Path("x.tar"))


@given(st.lists(st.floats(0.0, 1e300), max_size=5))
def test_sums_are_exact(mus: list[float]) -> None:
    """The root of one square is the number itself, and sums do not depend on their order."""
    for mu in mus:
        assert root(exact(mu, squared=True)) == mu
    squares = [exact(mu, squared=True) for mu in mus]
    assert root(sum(squares)) == root(sum(reversed(squares)))
    assert [number / 2**2148 for number in map(exact, mus)] == mus


def test_releases_do_not_read_the_whole_log(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A release of a dataset that the ledger knows, or does not know, reads a few rows however long the log is."""
    ledger = Ledger()
    ledger.reserve("wine", ROW, budget_mu=9.0)
    monkeypatch.setattr(ledger_log, "_read", never)
    monkeypatch.setattr(checkpoint, "read_copy", never)
    for dataset in ("wine", "beer", "wine"):
        for partition in ("2026-10", None, "2026-10"):
            release = ledger.reserve(dataset, ROW, partition=partition)
            assert ledger.entities(dataset) == {}
            ledger.seal(release, "a" * 64, Path("x"))
            ledger.commit(release, "a" * 64, Path("x"))
    assert (release.lineage.number, release.cumulative.releases, release.budgets) == (7, 7, {"row": 9.0})
    monkeypatch.undo()
    monkeypatch.setenv("DPGRAPH_HOME", str(home))
    require_same(ledger)


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("step", ["advance", "append_to_copy", "_write_lines", "write_stamp"])
def test_kill_at_every_write_leaves_a_ledger_that_is_right(step: str, moment: str, home: Path) -> None:
    """Killed at any moment, a reservation is on the books or not, and the next one goes on from there."""
    ledger = Ledger()
    ledger.reserve("wine", ROW)
    child = os.fork()
    if not child:
        module = checkpoint if step == "_write_lines" else ledger_log
        work: Callable[..., object] = getattr(module, step)

        def kill(*arguments: object) -> None:
            if moment == "after":
                work(*arguments)
            os._exit(9)

        setattr(module, step, kill)
        ledger.reserve("wine", ROW)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    found = len(ledger.books().lines)
    assert found == (1 if step == "advance" else 2)
    assert ledger.reserve("wine", ROW).lineage.number == found + 1
    assert ledger.reserve("wine", ROW).cumulative.releases == found + 2
    require_same(ledger)
    assert (home / "keys" / "ledger.log").read_text().splitlines() == ledger.books().lines


ACCOUNT = "UPDATE checkpoint SET content = replace(content, '\"releases\":3', '\"releases\":1') WHERE part = ''"


@pytest.mark.parametrize("statement", [ACCOUNT, "DELETE FROM checkpoint", "DROP TABLE checkpoint"])
def test_a_checkpoint_that_was_changed_is_not_believed(statement: str, home: Path) -> None:
    """The file is not as it was left, so the log is read whole, and the checkpoint made anew."""
    ledger = Ledger()
    for _ in range(3):
        ledger.reserve("wine", ROW)
    execute(ledger.path, statement)
    assert ledger.reserve("wine", ROW).cumulative.releases == 4
    assert ledger.reserve("wine", ROW).cumulative.releases == 5
    require_same(ledger)


def test_a_checkpoint_with_a_stamp_that_fits_must_hold_together(home: Path) -> None:
    """Whoever changes a row and writes the stamp anew is found out by the row's hash, and by that of the last line."""
    ledger = Ledger()
    for _ in range(3):
        end = ledger.reserve("wine", ROW)
    execute(ledger.path, ACCOUNT)
    checkpoint.write_stamp(ledger.path, checkpoint.state_of_copies(ledger.copy), 3, end.lineage.ledger_head or "")
    assert ledger.reserve("wine", ROW).cumulative.releases == 4
    execute(ledger.path, "UPDATE log SET content = replace(content, '0.3', '0.2') WHERE line = 4")
    with ledger_log.LocalLog(home / "other.sqlite", None).open() as other:
        assert other.line == 0
    head = lines(ledger)[-1][2]
    checkpoint.write_stamp(ledger.path, checkpoint.state_of_copies(ledger.copy), 4, head)
    with pytest.raises(PrivacyError, match="altered at line 4"):
        ledger.reserve("wine", ROW)


def test_an_old_line_that_was_changed_is_refused(home: Path) -> None:
    """The file's times tell that it was changed, also where they are put back; a reader of all of it sees it anyway."""
    ledger = Ledger()
    for _ in range(3):
        last = ledger.reserve("wine", ROW)
    before = ledger.path.stat()
    execute(ledger.path, "UPDATE log SET content = replace(content, '0.3', '0.2') WHERE line = 1")
    os.utime(ledger.path, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(PrivacyError, match="altered at line 1"):
        ledger.reserve("wine", ROW)
    checkpoint.write_stamp(ledger.path, checkpoint.state_of_copies(ledger.copy), 3, last.lineage.ledger_head or "")
    for use in (ledger.entries, ledger.books, lambda: ledger.total("wine", "row"), lambda: ledger.backup(home / "b")):
        with pytest.raises(PrivacyError, match="altered at line 1"):
            use()


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b"\xff", b'{"line": 1}'])
def test_a_stamp_that_is_none_is_as_good_as_none(content: bytes, home: Path) -> None:
    """Without a stamp, or with one that was cut short or changed, the log is read whole."""
    ledger = Ledger()
    ledger.reserve("wine", ROW)
    stamp = home / "ledger.sqlite.stamp"
    sound = json.loads(stamp.read_bytes())
    changed = encode_line({**sound, "line": 2}).encode()
    for each in (content, changed):
        stamp.write_bytes(each)
        number = len(ledger.books().lines) + 1
        assert ledger.reserve("wine", ROW).lineage.number == number
    stamp.unlink()
    assert ledger.reserve("wine", ROW).lineage.number == number + 1


def test_an_earlier_version_may_go_on_in_between(home: Path) -> None:
    """Lines of a version without checkpoints are counted, and so are those from before there were any."""
    ledger = Ledger()
    ledger.reserve("wine", ROW)
    ((_, line, head),) = lines(ledger)
    content = encode_line({**json.loads(line), "number": 2})
    execute(ledger.path, "INSERT INTO log (content, sha256) VALUES (?, ?)", values=(content, chain(head, content)))
    with (home / "keys" / "ledger.log").open("a") as copy:
        copy.write(f"{content}\n")
    assert ledger.reserve("wine", ROW).cumulative.releases == 3
    execute(ledger.path, "DROP TABLE checkpoint")
    (home / "ledger.sqlite.stamp").unlink()
    assert ledger.reserve("wine", ROW).cumulative.releases == 4
    require_same(ledger)


def test_a_rollback_with_the_stamp_is_refused(home: Path) -> None:
    """An old file that comes back with its own stamp lacks lines of the copy, and is another file than was left."""
    ledger = Ledger()
    ledger.reserve("wine", ROW)
    old = {path: path.read_bytes() for path in (ledger.path, home / "ledger.sqlite.stamp")}
    ledger.reserve("wine", ROW)
    for path, content in old.items():
        path.write_bytes(content)
    with pytest.raises(PrivacyError, match="lacks lines that it had before"):
        ledger.reserve("wine", ROW)


@pytest.mark.slow
def test_two_processes_without_a_copy_keep_one_account(tmp_path: Path) -> None:
    """Where no lock but the file's own is held, no stamp is believed that is about another state of it."""
    code = "for _ in range(40): Ledger(Path(sys.argv[1])).reserve('wine', Cost('row', {'row': 1.0}, True))"
    assert run_at_once(2, code, str(tmp_path / "l.sqlite")) == [0, 0]
    ledger = Ledger(tmp_path / "l.sqlite")
    assert sorted(entry.number for entry in ledger.entries("wine")) == list(range(1, 81))
    assert ledger.reserve("wine", ROW).cumulative.releases == 81
    require_same(ledger)
