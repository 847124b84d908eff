"""A ledger that was rolled back, lost or damaged: it is refused, and can be put right without forgetting a cost."""

import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.conftest import Run, make_policy
from tests.unit.publisher.ledger.conftest import ROW, execute

from dp_bundle.base.errors import MissingValuesError, UntrustedKeyError
from dp_bundle.trust.signing import public_key_of
from dp_publish import Policy, Receipt, publish
from dp_publish.ledger.budget import Entry
from dp_publish.ledger.ledger import Ledger
from dp_publish.ledger.restoring import cost_of_release, restore

Publish = Callable[..., Receipt]

FRAME = pd.DataFrame({"x": np.linspace(0, 1, 50), "n": np.arange(50) % 7, "who": np.arange(50) // 2})
BOUNDS: dict[str, list[float]] = {"x": [0, 1], "n": [0, 7]}


@pytest.fixture
def release(tmp_path: Path, key: Ed25519PrivateKey) -> Publish:
    """Return a function that publishes a small table under a privacy section, into a folder of its own."""
    (tmp_path / "out").mkdir()
    numbers: Iterator[int] = iter(range(1, 100))

    def make(policy: Policy | None = None, **privacy: Any) -> Receipt:
        chosen = policy or make_policy(BOUNDS, name="d", **(privacy or {"mu": 1.0}))
        frame = FRAME if "who" in str(chosen.privacy.unit) else FRAME[["x", "n"]]
        if not chosen.columns:  # so that bounds are found near the values
            frame = pd.concat([frame] * 200)
        return publish(frame, chosen, out=tmp_path / "out" / f"{next(numbers)}.tar", key=key)

    return make


def keep(home: Path, *names: str) -> Callable[[], None]:
    """Back up some of the state's files; return what puts them back."""
    kept = {name: (home / name).read_bytes() for name in names}

    def put_back() -> None:
        for name, content in kept.items():
            (home / name).write_bytes(content)

    return put_back


def forget(home: Path) -> None:
    """Delete the ledger and its copy."""
    for name in ("ledger.sqlite", "keys/ledger.log"):
        (home / name).unlink()


@pytest.mark.parametrize("loss", ["rolled back", "deleted", "damaged", "altered", "of another"])
def test_lost_ledger_is_refused_and_restored(loss: str, home: Path, release: Publish, tmp_path: Path) -> None:
    """Neither without its file, nor with an old, a broken or a strange one, does the ledger begin anew."""
    release(mu=1.0, budget_mu=5.0)
    roll_back, path = keep(home, "ledger.sqlite"), Ledger().path
    release()
    before = Ledger().books()
    if loss == "rolled back":
        roll_back()
    elif loss == "deleted":
        path.unlink()
    elif loss == "damaged":
        path.write_bytes(b"this is no database" * 1000)
    elif loss == "altered":
        execute(path, "DELETE FROM log WHERE line > 2")
    else:
        other = Ledger(tmp_path / "other.sqlite")
        other.reserve("other", ROW)
        shutil.copy(other.path, path)

    for use in (Ledger().entries, lambda: Ledger().reserve("d", ROW), lambda: Ledger().reserve("other", ROW)):
        with pytest.raises(Exception, match="dp-publish ledger restore") as caught:
            use()
        assert "\n" not in str(caught.value)
    done = restore(Ledger(), [])
    assert (done.put_back, done.damaged is not None) == ([], loss in ("damaged", "altered"))
    assert (Ledger().entries("d"), Ledger().budgets("d")) == (before.of("d"), {"row": 5.0})
    if loss == "of another":
        assert [entry.dataset for entry in Ledger().entries()].count("other") == 1
    else:
        assert Ledger().books() == before
    assert release(mu=0.1).release.lineage.number == 3


ENTITY = {"entity": "who", "max_rows": 3}
STRENGTHS = [
    {"mu": 1.0, "unit": ENTITY},
    {"mu": 1.0, "bounds": False, "unit": "cell"},
    {"mu": 1.0, "bounds": False, "unit": ENTITY},
    {"sigma": 3.0},
    {"mu": 1.0, "unit": "change"},
    {"rho": 2.0, "unit": "cell"},
    {"rho": 2.0, "bounds": False, "found": True},
    {"epsilon": 3.0, "delta": 1e-6, "unit": ENTITY},
    {"mu": 1.0, "release": "covariance", "mechanism": "gaussian", "unit": ENTITY},
    {"epsilon": 1.0, "release": "covariance", "mechanism": "laplace", "neighbours": "add-remove"},
    {"epsilon": 1.0, "delta": 1e-4, "release": "covariance", "mechanism": "wishart", "neighbours": "add-remove"},
    {"epsilon": 30.0, "release": "covariance", "mechanism": "wishart-difference"},
    {"epsilon": 2.0, "release": "covariance", "mechanism": "eigenvectors", "neighbours": "add-remove"},
]


@pytest.mark.parametrize("privacy", STRENGTHS, ids=str)
def test_bundle_tells_what_it_cost(privacy: dict[str, Any], release: Publish) -> None:
    """What bounds and noise of a bundle say of its cost, in every unit, is what the ledger had booked."""
    privacy = dict(privacy)
    columns: dict[str, Any] = {name: {"bounds": bounds} for name, bounds in BOUNDS.items()}
    if privacy.get("unit") == "change":
        columns["n"]["max_change"] = 1
    if not privacy.pop("bounds", True):
        columns = {name: {"kind": "continuous"} for name in BOUNDS}
    if privacy.pop("found", False):  # of whole numbers, too
        columns = {}
    document = {"dataset": {"name": "d"}, "privacy": privacy, "columns": columns}
    made = release(Policy.model_validate(document)).release
    (booked,) = (entry.cost for entry in Ledger().entries())
    found = cost_of_release(made)
    assert found.mu == pytest.approx(booked.mu, rel=1e-9)
    assert all(found.mu[unit] >= mu * (1 - 1e-11) for unit, mu in booked.mu.items())
    assert (found.unit, found.continuous, found.changes) == (booked.unit, booked.continuous, booked.changes)
    assert found.excepted_delta == pytest.approx(booked.excepted_delta, abs=0)
    assert found.rho == pytest.approx(booked.rho, rel=1e-9)
    assert made.lineage.ledger_head == Ledger().books().heads[0]


@pytest.mark.parametrize("privacy", [{"mu": 3.0}, {"sigma": 0.5}, {"rho": 4.5, "found": True}], ids=str)
def test_whole_numbers_are_put_back_with_their_mu_and_nothing_seems_lost(
    privacy: dict[str, Any], home: Path, release: Publish, tmp_path: Path
) -> None:
    """Whatever their strength was given as; and a release that no bundle tells of is found by its rho."""
    found = privacy.pop("found", False)
    columns = {} if found else {"n": {"bounds": [0, 1]}, "x": {"bounds": [0, 1]}}
    policy = Policy.model_validate({"dataset": {"name": "d"}, "privacy": privacy, "columns": columns})
    for _ in range(3):
        release(policy)
    before = Ledger().entries()
    forget(home)
    done = restore(Ledger(), [tmp_path / "out"])
    assert [entry.state for entry in done.put_back] == ["published"] * 3
    for old, new in zip(before, Ledger().entries(), strict=True):
        assert new.cost.mu == pytest.approx(old.cost.mu, rel=1e-9)
        assert new.cost.rho == pytest.approx(old.cost.rho, rel=1e-9)

    forget(home)
    (tmp_path / "out" / "2.tar").unlink()
    lost = [entry for entry in restore(Ledger(), [tmp_path / "out"]).put_back if entry.state == "lost"]
    assert len(lost) == 1
    unit = before[1].cost.unit
    assert lost[0].cost.rho[unit] == pytest.approx(before[1].cost.rho[unit], rel=1e-6)
    assert lost[0].cost.mu[unit] >= before[1].cost.mu[unit] * (1 - 1e-6)


def test_bundles_restore_what_no_copy_holds(
    home: Path, release: Publish, tmp_path: Path, key: Ed25519PrivateKey
) -> None:
    """After the whole state folder was rolled back, bundles put the releases back, and doing so twice adds nothing."""
    release()
    roll_back = keep(home, "ledger.sqlite", "keys/ledger.log")
    release(mu=2.0)
    frame, policy = pd.DataFrame({"x": [np.nan], "n": [1]}), make_policy(BOUNDS, name="d", mu=1.0)
    with pytest.raises(MissingValuesError):
        publish(frame, policy, out=tmp_path / "x.tar", key=key)
    last = release(mu=1.0, unit="cell")
    before = {entry.number: entry for entry in Ledger().entries()}
    roll_back()

    done = restore(Ledger(), [tmp_path / "out"])
    assert [entry.number for entry in done.put_back] == [2, 4]
    after = {entry.number: entry for entry in Ledger().entries()}
    assert after.keys() == before.keys()
    for number, entry in after.items():
        assert entry.cost.mu == pytest.approx(before[number].cost.mu)
        assert (entry.state, entry.manifest_sha256) == ("published", before[number].manifest_sha256)
    assert last.release.cumulative.rho == pytest.approx(Ledger().total("d", "cell").rho)  # type: ignore[union-attr]
    again = restore(Ledger(), [tmp_path / "out"])
    assert (again.put_back, again.doubled, again.damaged) == ([], [], None)
    assert release().release.lineage.number == 5


def test_restoring_tells_of_budgets_that_no_bundle_holds(home: Path, release: Publish, tmp_path: Path) -> None:
    """What comes from bundles alone has lost its budget, and the publisher is told so; the copy keeps budgets."""
    release(mu=1.0, budget_mu=3.0)
    (home / "ledger.sqlite").unlink()
    assert restore(Ledger(), [tmp_path / "out"]).without_budget == []
    forget(home)
    assert restore(Ledger(), [tmp_path / "out"]).without_budget == ["d"]


def test_totals_of_bundles_count_what_is_lost(home: Path, release: Publish) -> None:
    """What the newest bundle's total holds beyond all bundles that turn up is booked as lost, in every unit."""
    release()
    roll_back = keep(home, "ledger.sqlite", "keys/ledger.log")
    release(mu=2.0)
    release(mu=0.5, unit="cell")
    last = release(mu=1.0)
    stated = last.release.cumulative
    roll_back()

    done = restore(Ledger(), [last.path])
    assert [(entry.number, entry.state) for entry in done.put_back] == [(4, "published"), (2, "lost")]
    for unit, rho in {stated.unit: stated.rho, **stated.other_units_rho}.items():
        total = Ledger().total("d", unit)
        assert total.rho == pytest.approx(rho)
    assert restore(Ledger(), [last.path]).put_back == []
    assert release(mu=0.1).release.lineage.number == 5


def test_cancelled_releases_are_no_loss(release: Publish) -> None:
    """A total that counted a release which was cancelled later does not bring that one back."""
    ledger = Ledger()
    cancelled = ledger.reserve("d", ROW)
    last = release()
    ledger.cancel(cancelled)
    assert last.release.cumulative.releases == 2
    assert restore(ledger, [last.path]).put_back == []


def test_two_releases_of_one_number_both_count(home: Path, release: Publish, tmp_path: Path) -> None:
    """After a rollback that nobody noticed, restoring finds the number that was given twice, and charges for both."""
    roll_back = keep(home, "keys/publisher.pub")
    first = release(mu=2.0)
    roll_back()
    forget(home)
    second = release(mu=1.0)
    assert first.release.lineage.number == second.release.lineage.number == 1

    done = restore(Ledger(), [tmp_path / "out"])
    assert done.doubled == [("d", 1)]
    assert done.rewritten == [first.path]
    total = Ledger().total("d", "row")
    assert total.rho == pytest.approx(2.0 + 0.5, rel=1e-9)
    assert release().release.lineage.number == 2


def test_only_own_bundles_are_witnesses(release: Publish, tmp_path: Path, home: Path) -> None:
    """A stranger's bundle changes nothing; in a folder it is skipped, as is what is no bundle."""
    made = release()
    stranger = Ed25519PrivateKey.generate()
    other = Ledger(tmp_path / "theirs.sqlite")
    theirs, policy = tmp_path / "out" / "theirs.tar", make_policy(BOUNDS, name="d", mu=9.0)
    publish(FRAME[["x", "n"]], policy, out=theirs, key=stranger, ledger=other)
    (tmp_path / "out" / "note.tar").write_text("no bundle")
    before = Ledger().books()
    with pytest.raises(UntrustedKeyError, match=public_key_of(stranger).fingerprint):
        restore(Ledger(), [made.path, theirs])
    done = restore(Ledger(), [tmp_path / "out"])
    assert set(done.skipped) == {theirs, tmp_path / "out" / "note.tar"}
    assert Ledger().books() == before


def test_file_alone_is_the_whole_ledger(tmp_path: Path, home: Path) -> None:
    """A copy of the database file holds every release, even while another process has it open."""
    ledger = Ledger()
    ledger.reserve("wine", ROW)
    reader = sqlite3.connect(ledger.path)
    reader.execute("SELECT * FROM log").fetchall()
    ledger.reserve("wine", ROW)
    shutil.copy(ledger.path, tmp_path / "copy.sqlite")
    reader.close()
    assert Ledger(tmp_path / "copy.sqlite").entries() == ledger.entries()
    assert {path.name for path in home.iterdir()} == {"ledger.sqlite", "keys"}


@pytest.mark.parametrize("cut", [1, 30])
def test_copy_that_a_crash_cut_short_is_completed(cut: int) -> None:
    """The copy may be behind by a line or a part of one; the next use completes it."""
    ledger = Ledger()
    ledger.reserve("wine", ROW)
    ledger.reserve("wine", ROW)
    whole = ledger.copy.read_bytes()
    ledger.copy.write_bytes(whole[:-cut])
    assert len(ledger.entries()) == 2
    assert ledger.copy.read_bytes() == whole


def test_ledger_commands(tmp_path: Path, home: Path, release: Publish, command: Run) -> None:
    """A backup is a ledger; put in place of the ledger it is refused, with the command that mends it."""
    release()
    assert command("dp-publish", "ledger", "backup", "safe.sqlite").stdout == "wrote safe.sqlite\n"
    assert command("dp-publish", "ledger", "backup", "safe.sqlite").returncode == 1
    assert Ledger(tmp_path / "safe.sqlite").entries() == Ledger().entries()
    roll_back = keep(home, "ledger.sqlite", "keys/ledger.log")
    release(mu=2.0)
    shutil.copy(tmp_path / "safe.sqlite", home / "ledger.sqlite")
    refused = command("dp-publish", "ledger")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "dp-publish ledger restore" in refused.stderr
    assert "put back 3 lines" in command("dp-publish", "ledger", "restore").stdout
    assert "mu = 2.23607 over 2 releases" in command("dp-publish", "ledger", "d").stdout

    roll_back()
    document = json.loads(command("dp-publish", "ledger", "restore", "out", "--json").stdout)
    assert [entry["number"] for entry in document["put_back"]] == [2]
    shown = command("dp-publish", "ledger", "show", "d").stdout
    assert shown == command("dp-publish", "ledger", "d").stdout
    assert shown.splitlines()[2].endswith("published")
    assert command("dp-publish", "ledger", "restore", "nowhere.tar").returncode == 2


def test_sealed_release_whose_bundle_turns_up_is_published(release: Publish) -> None:
    """A release that was interrupted while its file got its name is known to be out once the file is found."""
    made = release()
    (entry,) = Ledger().entries()
    ledger = Ledger()
    ledger.path.unlink()
    ledger.copy.unlink()  # type: ignore[union-attr]
    sealed = Entry(**{**vars(entry), "state": "sealed"})
    assert ledger.put_back([sealed]) == [sealed]
    restore(ledger, [made.path])
    assert [each.state for each in ledger.entries()] == ["published"]
