"""A ledger that was rolled back, lost or damaged: it is refused, and can be put right without forgetting a cost."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.conftest import make_policy
from tests.unit.publisher.ledger.conftest import ROW, execute

from dp_bundle.base.errors import DpGraphError, UntrustedKeyError
from dp_bundle.trust.signing import public_key_of
from dp_publish import Policy, Receipt, publish
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
        with pytest.raises(DpGraphError, match="dp-publish ledger restore"):
            use()
    done = restore(Ledger(), [])
    assert (done.put_back, done.damaged is not None) == ([], loss in ("damaged", "altered"))
    assert (Ledger().entries("d"), Ledger().books().budgets["d"]) == (before.of("d"), {"row": 5.0})
    if loss == "of another":
        assert [entry.dataset for entry in Ledger().entries()].count("other") == 1
    else:
        assert Ledger().books() == before
    assert release(mu=0.1).release.lineage.number == 3


ENTITY = {"entity": "who", "max_rows": 3}
STRENGTHS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"unit": ENTITY}, {"x": {"bounds": [0, 1]}, "n": {"bounds": [0, 7]}}),
    ({"unit": ENTITY}, {"x": {"kind": "continuous"}, "n": {"kind": "continuous"}}),
    ({"unit": "change"}, {"x": {"bounds": [0, 1]}, "n": {"bounds": [0, 7], "max_change": 1}}),
    ({"rho": 2.0}, {}),  # found, also of whole numbers
    *(
        ({"release": "covariance", **privacy}, {"x": {"bounds": [0, 1]}, "n": {"bounds": [0, 7]}})
        for privacy in (
            {"mechanism": "gaussian", "unit": ENTITY},
            {"mechanism": "wishart", "epsilon": 1.0, "delta": 1e-4, "neighbours": "add-remove"},
            {"mechanism": "wishart-difference", "epsilon": 30.0},
        )
    ),
]


@pytest.mark.parametrize(("privacy", "columns"), STRENGTHS, ids=str)
def test_bundle_tells_what_it_cost(privacy: dict[str, Any], columns: dict[str, Any], release: Publish) -> None:
    """What bounds and noise of a bundle say of its cost, in every unit, is what the ledger had booked."""
    strength = {} if {"rho", "epsilon"} & {*privacy} else {"mu": 1.0}
    document = {"dataset": {"name": "d"}, "privacy": {**privacy, **strength}, "columns": columns}
    made = release(Policy.model_validate(document)).release
    (booked,) = (entry.cost for entry in Ledger().entries())
    found = cost_of_release(made)
    assert found.mu == pytest.approx(booked.mu, rel=1e-9)
    assert all(found.mu[unit] >= mu * (1 - 1e-11) for unit, mu in booked.mu.items())
    assert (found.unit, found.continuous, found.changes) == (booked.unit, booked.continuous, booked.changes)
    assert found.excepted_delta == pytest.approx(booked.excepted_delta, abs=0)
    assert found.rho == pytest.approx(booked.rho, rel=1e-9)
    assert made.lineage.ledger_head == Ledger().books().heads[0]


def test_bundles_restore_what_no_copy_holds(home: Path, release: Publish, tmp_path: Path) -> None:
    """They put releases of numbers and whole numbers back, twice adds nothing, and what none tells of is found lost.

    Of budgets no bundle tells, which the publisher is told.
    """
    found = make_policy({}, name="d", rho=4.5, budget_mu={"row": 9, "cell": 9})
    for policy in (None, found, found):
        release(policy)
    before = {entry.number: entry for entry in Ledger().entries()}
    Ledger().cancel(Ledger().reserve("d", ROW))
    last = release(unit="cell", mu=1.0)
    before |= {entry.number: entry for entry in Ledger().entries()}
    forget(home)

    done = restore(Ledger(), [tmp_path / "out"])
    assert ([entry.number for entry in done.put_back], done.without_budget) == ([1, 2, 3, 5], ["d"])
    after = {entry.number: entry for entry in Ledger().entries()}
    for number, entry in after.items():
        assert entry.cost.mu == pytest.approx(before[number].cost.mu, rel=1e-9)
        assert entry.cost.rho == pytest.approx(before[number].cost.rho, rel=1e-9)
        assert (entry.state, entry.manifest_sha256) == ("published", before[number].manifest_sha256)
    assert last.release.cumulative.rho == pytest.approx(Ledger().books().account("d").rho("cell"))
    again = restore(Ledger(), [tmp_path / "out"])
    assert (again.put_back, again.doubled, again.damaged) == ([], [], None)


def test_totals_of_bundles_count_what_is_lost(home: Path, release: Publish) -> None:
    """What the newest bundle's total holds beyond all bundles that turn up is booked as lost, in every unit."""
    release()
    roll_back = keep(home, "ledger.sqlite", "keys/ledger.log")
    columns = {"n": {"bounds": [0, 7]}, "x": {"drop": True}}
    document = {"dataset": {"name": "d"}, "privacy": {"rho": 2.0}, "columns": columns}
    release(Policy.model_validate(document))  # of whole numbers
    last = release(mu=1.0)
    stated, booked = last.release.cumulative, Ledger().entries()[1].cost
    roll_back()

    done = restore(Ledger(), [last.path])
    assert [(entry.number, entry.state) for entry in done.put_back] == [(3, "published"), (2, "lost")]
    assert all(mu >= booked.mu[unit] * (1 - 1e-6) for unit, mu in done.put_back[1].cost.mu.items())
    for unit, rho in {stated.unit: stated.rho, **stated.other_units_rho}.items():
        assert Ledger().books().account("d").rho(unit) == pytest.approx(rho)
    assert restore(Ledger(), [last.path]).put_back == []
    assert release(mu=0.1).release.lineage.number == 4


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
    assert Ledger().books().account("d").rho("row") == pytest.approx(2.0 + 0.5, rel=1e-9)
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
