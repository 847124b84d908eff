"""dp-publish ledger and budgets, as options in, answers and exit codes out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.unit.publisher.conftest import POLICY, Call

from dp_publish.ledger.ledger import Ledger
from dp_publish.release.job import Job


def test_ledger_lists_what_was_spent(people: Path, call: Call) -> None:
    """The ledger shows every release with its cost, for people and for machines, and asking costs nothing."""
    assert "nothing has been published yet" in call("ledger").out
    call("people.parquet", "--mu", "3", "--anyway")
    call("people.parquet", "--mu", "4", "--anyway", "--out", "b.tar")
    ended = call("ledger")
    document = json.loads(call("ledger", "people", "--json").out)

    assert [line.split()[:2] for line in ended.out.splitlines()[1:3]] == [["people", "1"], ["people", "2"]]
    assert ended.out.splitlines()[3].startswith("people, per row: mu = 5 over 2 releases")
    assert [entry["state"] for entry in document["releases"]] == ["published", "published"]
    assert [entry["cost"]["mu"].get("row") for entry in document["releases"]] == [pytest.approx(3), pytest.approx(4)]
    (total,) = document["totals"]
    assert (total["dataset"], total["unit"], total["releases"]) == ("people", "row", 2)
    assert total["mu"] == pytest.approx(5)
    for words in ([], ["--json"]):
        misspelt = call("ledger", "beer", *words)
        assert (misspelt.code, misspelt.out) == (2, "")
        assert misspelt.err == ("error: DATASET must be the name of a dataset that has releases (people), not 'beer'\n")


def test_the_price_of_add_remove_neighbours_is_explained(people: Path, call: Call) -> None:
    """At mu = 3 such a release is booked as mu = 4.24, and both the receipt and a refusal say why."""
    privacy = 'mu = 3\nbudget_mu = 5\nrelease = "covariance"\nneighbours = "add-remove"'
    Path("people.policy.toml").write_text(POLICY.replace("mu = 20", privacy))
    published, refused = (call("people.parquet", "--out", name) for name in ("a.tar", "b.tar"))
    why = "The books count a replacement, which is one removal and one addition: it costs sqrt(2) times the mu"

    assert published.code == 0, published.err
    assert "costs mu = 4.24" in published.out
    assert why in published.out
    assert refused.code == 5
    assert "4.24" in refused.err
    assert why in refused.err


def test_changing_the_unit_does_not_pass_the_budget(people: Path, call: Call) -> None:
    """After two row-level releases under a budget a cell-level one is refused, which says whose budget it is."""
    Path("people.policy.toml").write_text(POLICY.replace("mu = 20", "mu = 1\nbudget_mu = 1.5"))
    for name in ("a.tar", "b.tar"):
        assert call("people.parquet", "--anyway", "--out", name).code == 0
    ended = call("people.parquet", "--anyway", "--unit", "cell", "--out", "c.tar")
    assert (ended.code, ended.out) == (5, "")
    assert "has spent mu = 1.41422 of its budget of 1.5 per row" in ended.err
    assert not Path("c.tar").exists()
    assert "people, per row: mu = 1.41422 over 2 releases, of a budget of 1.5" in call("ledger").out

    both = '{ row = 4, cell = 1.5, "entity:who" = 9 }'
    Path("people.policy.toml").write_text(POLICY.replace("mu = 20", f"mu = 1\nbudget_mu = {both}"))
    assert "does not protect" in call("people.parquet", "--anyway", "--unit", "cell", "--out", "c.tar").err
    both = "{ row = 4, cell = 1.5 }"
    Path("people.policy.toml").write_text(POLICY.replace("mu = 20", f"mu = 1\nbudget_mu = {both}"))
    allowed = call("people.parquet", "--anyway", "--unit", "cell", "--out", "c.tar")
    budgets = "The budget is mu = 4 per row (mu = 2.23607 so far), mu = 1.5 per cell (mu = 1.291 so far)."
    assert budgets in allowed.out, allowed.err
    document = json.loads(call("ledger", "--json").out)
    assert {total["unit"]: total["budget_mu"] for total in document["totals"]} == {"row": 4.0, "cell": 1.5}


def test_ledger_tells_of_exceptions(people: Path, call: Call) -> None:
    """A total that does not hold with some probability says with which."""
    words = ("--release", "covariance", "--mechanism", "wishart", "--epsilon", "1", "--delta", "1e-6")
    assert call("people.parquet", *words, "--anyway").code == 0
    assert "over 1 release, except with a probability of 1e-06" in call("ledger").out


def test_every_command_takes_a_shared_ledger(people: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """Releases are booked on the ledger that an option or a variable names, on no other, and it is restored there."""
    Path("people.policy.toml").write_text(POLICY.replace("mu = 20", "mu = 20\nbudget_mu = 25"))
    shared = ["--ledger", "share/ledger/"]
    assert f"according to {Path('share/ledger').absolute()}" in call("ledger", *shared).out
    assert call("people.parquet", *shared).code == 0
    assert call("people.parquet", "--out", "b.tar", *shared).code == 5
    assert "nothing has been published yet" in call("ledger").out
    monkeypatch.setenv("DPGRAPH_LEDGER", "share/ledger/")
    assert "people, per row: mu = 20 over 1 release, of a budget of 25" in call("ledger", "people").out

    assert call("ledger", "backup", "backup.sqlite").code == 0
    assert len(Ledger(Path("backup.sqlite")).entries()) == 1
    Path("share/ledger/00000002.txt").unlink()
    refused = call("ledger")
    assert (refused.code, refused.err.count("\n")) == (1, 1)
    assert "lacks event 2" in refused.err
    assert "put back 1 lines of the log" in call("ledger", "restore", "people.bundle.tar").out
    assert call("ledger").code == 0


def test_an_interrupted_release_is_resumed(people: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """With --job, the command says how to go on, before and after an interrupt, and `resume` finishes the release."""
    with monkeypatch.context() as patch:
        patch.setattr(Job, "record_contents", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        ended = call("people.parquet", "--job", "people.job")
    assert ended.code == 1
    assert "if this ends early, go on with: dp-publish resume people.job\n" in ended.err
    assert "stays on the books as spent: `dp-publish resume" in ended.err
    assert [entry.state for entry in Ledger().entries()] == ["reserved"]
    again = call("people.parquet", "--job", "people.job", "--out", "b.tar")
    assert "`dp-publish resume people.job` finishes its release" in again.err
    assert "if this ends early" not in again.err
    nowhere = call("people.parquet", "--job", "nowhere/people.job", "--out", "b.tar")
    assert nowhere.err == "error: the job nowhere/people.job cannot be made: make the folder for it first\n"

    done = call("resume", "people.job")
    assert done.code == 0, done.err
    assert "wrote" in done.out
    assert Path("people.bundle.tar.minisig").exists()
    assert [(entry.number, entry.state) for entry in Ledger().entries()] == [(1, "published")]
    assert "is no job of this version" in call("resume", "people.job").err
