"""dp-publish ledger and budgets, as options in, answers and exit codes out."""

import json
from pathlib import Path

import pytest
from tests.unit.publisher.conftest import POLICY, Call

from dp_bundle.describe.sentences import REPLACEMENT
from dp_publish.ledger.ledger import Ledger


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


def test_a_place_without_a_ledger_is_refused(people: Path, call: Call) -> None:
    """None is made by looking at it or by copying it, and bytes that are no text name none."""
    for place in ("none.sqlite", "none/", "empty", f"{Path('empty').absolute().as_uri()}/"):
        Path("empty").mkdir(exist_ok=True)
        for asked in (["ledger"], ["ledger", "backup", "b.sqlite"]):
            refused = call(*asked, "--ledger", place)
            assert (refused.code, refused.err.startswith("error: there is no ledger at ")) == (1, True)
    assert call("ledger", "backup", "b.sqlite").code == 1
    assert not {"none.sqlite", "none", "b.sqlite"} & {path.name for path in Path().iterdir()}
    for option in ("--ledger", "--partition"):
        refused = call("people.parquet", option, "x\udcff")
        assert (refused.code, "no text in UTF-8" in refused.err) == (2, True)


def test_the_price_of_add_remove_neighbours_is_explained(people: Path, call: Call) -> None:
    """At mu = 3 such a release is booked as mu = 4.24, and both the receipt and a refusal say why."""
    privacy = 'mu = 3\nbudget_mu = 5\nrelease = "covariance"\nneighbours = "add-remove"'
    Path("people.policy.toml").write_text(POLICY.replace("mu = 20", privacy))
    published, refused = (call("people.parquet", "--details", "--out", name) for name in ("a.tar", "b.tar"))
    assert (published.code, refused.code) == (0, 5)
    for said in (published.out, refused.err):
        assert "4.24" in said
        assert REPLACEMENT in said


def test_every_command_takes_a_shared_ledger(people: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """Releases are booked on the ledger that an option or a variable names, on no other, and it is restored there."""
    Path("people.policy.toml").write_text(POLICY.replace("mu = 20", "mu = 20\nbudget_mu = 25"))
    shared = ["--ledger", "share/ledger/"]
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
    assert "event 2 is missing" in refused.err
    assert "put back 1 lines of the log" in call("ledger", "restore", "people.bundle.tar").out
    assert call("ledger").code == 0


def test_an_interrupted_release_goes_on_by_the_same_command(
    people: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After an interrupt that came when a search had told something, the same command finishes that release.

    Another table's is another; and `ledger cancel` says that what was told stays paid for.
    """

    def stop(*_given: object) -> None:
        raise KeyboardInterrupt

    words = ["people.parquet", "--mu", "3", "--release", "covariance"]
    with monkeypatch.context() as patch:
        patch.setattr("dp_publish.release.publishing.settle", stop)
        ended = call(*words)
    assert ended.code == 1
    assert "the same command on the same table goes on with it, at no further cost" in ended.err
    assert [entry.state for entry in Ledger().entries()] == ["reserved"]

    assert call(*words).code == 0
    assert Path("people.bundle.tar.minisig").exists()
    assert [(entry.number, entry.state) for entry in Ledger().entries()] == [(1, "published")]

    with monkeypatch.context() as patch:
        patch.setattr("dp_publish.release.publishing.settle", stop)
        call(*words, "--out", "b.tar")
    assert "stays in the ledger as spent, as a private search" in call("ledger", "cancel", "people", "2").out
    assert [entry.state for entry in Ledger().entries()] == ["published", "reserved"]
    for words in (["people", "1"], ["people", "2"], ["people", "3"], ["nobody", "1"]):
        assert call("ledger", "cancel", *words).err.startswith("error: ")
