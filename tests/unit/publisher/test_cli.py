"""dp-publish as options in, answers and exit codes out."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import pytest

from dp_bundle.bundle import open_bundle
from dp_bundle.console import run
from dp_bundle.trust.keys import key_names, new_key_pair
from dp_publish.cli import cli
from dp_publish.ledger.ledger import Ledger

POLICY = """
[dataset]
name = "people"
[privacy]
mu = 20
[columns.height]
bounds = [120, 220]
[columns.weight]
bounds = [20, 140]
[columns.visits]
bounds = [0, 30]
"""


class Ended(NamedTuple):
    """How a command ended."""

    code: object
    out: str
    err: str


Call = Callable[..., Ended]


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Return a function that runs dp-publish in the test's folder."""
    monkeypatch.chdir(tmp_path)

    def call_cli(*words: object) -> Ended:
        with pytest.raises(SystemExit) as leaving:
            run(cli, [str(word) for word in words])
        captured = capsys.readouterr()
        return Ended(leaving.value.code, captured.out, captured.err)

    return call_cli


@pytest.fixture
def people(tmp_path: Path, table: pd.DataFrame) -> Path:
    """Put the small table and its policy into the test's folder."""
    table.to_parquet(tmp_path / "people.parquet")
    (tmp_path / "people.policy.toml").write_text(POLICY)
    return tmp_path / "people.parquet"


def test_publishing_needs_one_word(people: Path, call: Call, tmp_path: Path) -> None:
    """The policy beside the file is used, the result is on stdout, the new key on stderr, and the bundle verifies."""
    ended = call("people.parquet")

    assert ended.code == 0
    assert "wrote people.bundle.tar: release 1 of people, 400 rows, 3 columns" in ended.out
    assert "left out: name (not numeric)" in ended.out
    assert "fingerprint" in ended.err
    with open_bundle(tmp_path / "people.bundle.tar") as bundle:
        assert bundle.release.dataset.name == "people"


def test_a_weak_guarantee_is_called_weak(people: Path, call: Call) -> None:
    """Whoever publishes at a mu that protects next to nothing is told what it means; at mu = 3 nothing is said."""
    said = {mu: call(people.name, "--anyway", "--mu", mu, "--out", f"{mu}.tar").out for mu in (3, 5, 20)}
    assert "This is weak" not in said[3]
    assert "of one row that it is one of two, finds out which in up to 99.38 % of cases" in said[5]
    assert "in more than 99.99 % of cases" in said[20]


def test_without_a_policy_bounds_are_found_and_that_is_said(people: Path, call: Call, tmp_path: Path) -> None:
    """With no policy at all one row is protected at mu = 1, and the answer lists the bounds that were assumed."""
    (tmp_path / "people.policy.toml").unlink()
    ended = call("people.parquet", "--anyway")
    document = json.loads(call("people.parquet", "--anyway", "--json", "--out", "b.tar").out)["release"]

    assert ended.code == 0
    assert "rho = 0.5 (zero-concentrated" in ended.out
    mark = ended.out.index("assumed: these bounds, found privately with 10% of rho")
    assert [line.split(":")[0].strip() for line in ended.out[mark:].splitlines()[1:4]] == ["height", "weight", "visits"]
    assert document["guarantee"]["bounds_mu"] == pytest.approx(math.sqrt(0.1), rel=1e-9)
    assert {column["bounds_obtained"] for column in document["columns"]} == {"private-histogram"}


def test_where_no_bounds_can_be_found_the_way_to_them_is_told(people: Path, call: Call, tmp_path: Path) -> None:
    """A plain sigma and an audit need declared bounds: exit code 2, the template is named, no key or file is made."""
    (tmp_path / "people.policy.toml").unlink()
    for words in (["people.parquet", "--sigma", "3"], ["audit", "people.parquet", "--mu", "1"]):
        ended = call(*words)
        assert ended.code == 2
        assert ended.out == ""
        assert "dp-publish policy" in ended.err
        assert ended.err.startswith("error: ")
        assert ended.err.count("\n") == 1
    assert key_names() == []
    assert [path.name for path in tmp_path.iterdir()] == ["people.parquet"]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["nowhere.parquet", "--mu", "1"], 1),
        (["people.parquet", "--mu", "-1"], 2),
        (["people.parquet", "--mu", "nan"], 2),
        (["people.parquet", "--mu", "much"], 2),
        (["people.parquet", "--mu", "1", "--sigma", "1"], 2),
        (["people.parquet", "--delta", "1e-6"], 2),
        (["people.parquet", "--epsilon", "1", "--delta", "2"], 2),
        (["people.parquet", "--snr-db", "1e9"], 2),
        (["people.parquet", "--mu", "1e300"], 1),
        (["people.parquet", "--partition", ""], 2),
        (["people.parquet", "--partition", "a\nb"], 2),
        (["people.parquet", "--unit", "person"], 2),
        (["people.parquet", "--policy", "nowhere.toml"], 2),
        (["people.parquet", "--out", "no/folder.tar"], 2),
        (["people.parquet", "--out", "people.parquet"], 1),
        (["people.parquet", "--key", "nobody"], 1),
        (["people.parquet", "--key", "../nobody"], 1),
        (["people.parquet", "--key", "a b"], 2),
        (["people.policy.toml", "--mu", "1"], 1),
        (["people.parquet", "extra"], 2),
        (["--wrong"], 2),
        (["policy"], 2),
        (["policy", "nowhere.csv"], 1),
        (["policy", "people.parquet"], 1),
        (["policy", "people.parquet", "--out", "no/file/here/../../../people.parquet/x"], 1),
    ],
)
def test_mistakes_have_their_exit_code_and_one_sentence(words: list[str], code: int, people: Path, call: Call) -> None:
    """Every mistake ends with the documented code, says one thing on stderr, prints no traceback and spends nothing."""
    ended = call(*words)

    assert (ended.code, ended.out) == (code, "")
    assert "Traceback" not in ended.err
    assert "fault" not in ended.err
    said = [line for line in ended.err.splitlines() if line.lower().startswith("error: ")]
    assert len(said) == 1
    assert Ledger().entries() == []
    assert not Path("people.bundle.tar").exists()


def test_json_is_one_document(people: Path, call: Call) -> None:
    """With --json stdout parses, holds the release, and keeps the private counts apart."""
    ended = call("people.parquet", "--json", "--mu", "3", "--unit", "cell", "--anyway")
    document = json.loads(ended.out)

    assert ended.code == 0
    assert document["path"] == "people.bundle.tar"
    assert document["left_out"] == ["name"]
    assert document["release"]["guarantee"]["unit"] == "cell"
    assert document["release"]["guarantee"]["rho"] == pytest.approx(4.5)
    assert set(document["for_the_publisher_only"]) == {
        "clipped",
        "filled",
        "rows_at_center",
        "rows_clipped",
        "rows_dropped",
        "rows_over_cap",
    }


def test_quiet_says_nothing(people: Path, call: Call) -> None:
    """With --quiet a success is silent on both channels, also while a key is made; an error is not."""
    assert call("people.parquet", "--quiet") == (0, "", "")
    ended = call("people.parquet", "--quiet")
    assert (ended.code, ended.out) == (1, "")
    assert "never replaced" in ended.err
    assert call("policy", "people.parquet", "--out", "new.toml", "--quiet") == (0, "", "")


@pytest.mark.parametrize(
    ("words", "strength"),
    [
        (["--mu", "3"], 4.5),
        (["--rho", "0.7"], 0.7),
        (["--epsilon", "4", "--delta", "1e-6"], None),
        (["--sigma", "100"], 0.5 * (1 + 1.2**2 + 0.3**2)),
    ],
)
def test_strength_on_the_command_line_wins(words: list[str], strength: float | None, people: Path, call: Call) -> None:
    """Each way to say the strength replaces the policy's and is what the guarantee states."""
    guarantee = json.loads(call("people.parquet", *words, "--json", "--anyway").out)["release"]["guarantee"]
    if strength is not None:
        assert guarantee["rho"] == pytest.approx(strength, rel=1e-9)
    else:
        (epsilon,) = [point["epsilon"] for point in guarantee["epsilon_delta"] if point["delta"] == 1e-6]
        assert epsilon == pytest.approx(4, rel=1e-3)
        assert epsilon <= 4 * (1 + 2e-9)


def test_snr_says_that_it_guarantees_nothing(people: Path, call: Call) -> None:
    """The answer to --snr-db begins its account with the missing guarantee and shows the conditional figure as such."""
    ended = call("people.parquet", "--snr-db", "20")
    assert ended.code == 0
    assert "No privacy guarantee" in ended.out
    assert "Had the same noise been fixed beforehand" in ended.out
    document = json.loads(call("people.parquet", "--snr-db", "20", "--out", "b.tar", "--json").out)
    assert document["release"]["sigma_derived_from_data"] is True
    assert document["release"]["guarantee"] is None


def test_private_counts_are_marked_as_such(people: Path, call: Call) -> None:
    """Clipped cells are told to the publisher below a warning, and are nowhere in the bundle."""
    Path("people.policy.toml").write_text(POLICY.replace("[20, 140]", "[60, 140]"))
    ended = call("people.parquet")
    mark = ended.out.index("for your eyes only")
    assert "cells of weight outside its bounds, and clipped to them" in ended.out[mark:]
    assert b"clipped" not in Path("people.bundle.tar").read_bytes().replace(b"values were clipped", b"")


def test_one_cell_is_a_cell_and_moments_name_the_columns(call: Call) -> None:
    """A single clipped cell is no plural, and a covariance release tells by column what was clipped, as rows do."""
    values = pd.DataFrame({"x": [0.5, 0.25] * 200, "y": [0.125, 0.75] * 200})
    values.loc[3, "x"], values.loc[4:5, "y"] = 2.0, -0.5
    values.to_parquet("a.parquet")
    Path("a.policy.toml").write_text('[privacy]\nmu = 20\n[columns."*"]\nbounds = [0, 1]\n')
    for release in ("rows", "covariance"):
        ended = call("a.parquet", "--anyway", "--release", release, "--out", f"{release}.tar")
        told = ended.out[ended.out.index("for your eyes only") :].splitlines()
        assert told[1:3] == [
            "  2 cells of y outside its bounds, and clipped to them",
            "  1 cell of x outside its bounds, and clipped to them",
        ]
        assert told[3].startswith("to learn from it")
    out = call("a.parquet", "--anyway", "--release", "covariance", "--out", "c.tar", "--json").out
    assert json.loads(out)["for_the_publisher_only"]["clipped"] == {"x": 1, "y": 2}


def test_values_that_the_noise_leaves_are_told_with_their_share_and_the_remedy(call: Call) -> None:
    """Truth values of which two thirds come out as they went in are no riddle: how many, which, and what changes it."""
    pd.DataFrame({"b": [True, False] * 200, "x": [0.5, 0.25] * 200}).to_parquet("a.parquet")
    Path("a.policy.toml").write_text('[privacy]\nunit = "cell"\n[columns.x]\nbounds = [0, 1]\n')
    said = call("a.parquet", "--anyway", "--mu", "2").out
    assert "the noise leaves 78.7 % of the values of 'b' as they are: a stronger guarantee (a smaller mu" in said
    assert "the noise leaves" not in call("a.parquet", "--anyway", "--mu", "1", "--out", "b.tar").out


def test_template_can_be_filled_in_and_published(people: Path, call: Call) -> None:
    """`policy` writes beside the data, never over a policy, and bounds are all that is missing."""
    Path("people.policy.toml").unlink()
    assert call("policy", "people.parquet").out.startswith("wrote people.policy.toml")
    assert call("people.parquet", "--sigma", "1").code == 2
    path = Path("people.policy.toml")
    before = path.read_text()
    assert call("policy", "people.parquet").code == 1
    assert path.read_text() == before
    path.write_text(before.replace("# bounds = [low, high]", "bounds = [0, 300]"))
    assert call("people.parquet", "--mu", "100").code == 0


def test_ledger_lists_what_was_spent(people: Path, call: Call) -> None:
    """The ledger shows every release with its cost, for people and for machines, and asking costs nothing."""
    assert "nothing has been published yet" in call("ledger").out
    call("people.parquet", "--mu", "3", "--anyway")
    call("people.parquet", "--snr-db", "20", "--out", "b.tar")
    ended = call("ledger")
    document = json.loads(call("ledger", "people", "--json").out)

    assert [line.split()[:2] for line in ended.out.splitlines()[1:3]] == [["people", "1"], ["people", "2"]]
    assert ended.out.splitlines()[3:] == ["people, per row: no guarantee holds in all over 2 releases"]
    assert "no guarantee" in ended.out
    assert [entry["state"] for entry in document["releases"]] == ["published", "published"]
    assert [entry["cost"]["mu"].get("row") for entry in document["releases"]] == [pytest.approx(3), None]
    assert document["totals"] == [
        {
            "dataset": "people",
            "unit": "row",
            "releases": 2,
            "mu": None,
            "rho": None,
            "other_units_rho": {},
            "excepted_delta": 0.0,
        }
    ]
    for words in ([], ["--json"]):
        misspelt = call("ledger", "beer", *words)
        assert (misspelt.code, misspelt.out) == (2, "")
        assert misspelt.err == (
            "error: DATASET must be one of which something has been published (people), not 'beer'\n"
        )


def test_budget_ends_with_its_own_exit_code(people: Path, call: Call) -> None:
    """A release past budget_mu is refused with exit code 5, leaves no file, and one that fits is published."""
    Path("people.policy.toml").write_text(POLICY.replace("mu = 20", "mu = 20\nbudget_mu = 25"))
    assert call("people.parquet").code == 0
    ended = call("people.parquet", "--out", "b.tar")
    assert (ended.code, ended.out) == (5, "")
    assert "raise budget_mu knowingly" in ended.err
    assert not Path("b.tar").exists()
    assert call("people.parquet", "--out", "b.tar", "--mu", "15").code == 0
    assert len(Ledger().entries()) == 2


def test_the_price_of_add_remove_neighbours_is_explained(people: Path, call: Call) -> None:
    """At mu = 3 such a release is booked as mu = 4.24, and both the receipt and a refusal say why."""
    privacy = 'mu = 3\nbudget_mu = 5\nrelease = "covariance"\nneighbours = "add-remove"'
    Path("people.policy.toml").write_text(POLICY.replace("mu = 20", privacy))
    published, refused = (call("people.parquet", "--out", name) for name in ("a.tar", "b.tar"))
    why = "The books count a replacement, which is one removal and one addition: it costs sqrt(2) times the mu"

    assert published.code == 0, published.err
    assert "cost mu = 4.24" in published.out
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
    assert "has spent mu = 1.41421 of its budget of 1.5 per row" in ended.err
    assert not Path("c.tar").exists()
    assert "people, per row: mu = 1.41422 over 2 releases, of a budget of 1.5" in call("ledger").out

    both = '{ row = 4, cell = 1.5, "entity:who" = 9 }'
    Path("people.policy.toml").write_text(POLICY.replace("mu = 20", f"mu = 1\nbudget_mu = {both}"))
    assert "does not protect" in call("people.parquet", "--anyway", "--unit", "cell", "--out", "c.tar").err
    both = "{ row = 4, cell = 1.5 }"
    Path("people.policy.toml").write_text(POLICY.replace("mu = 20", f"mu = 1\nbudget_mu = {both}"))
    allowed = call("people.parquet", "--anyway", "--unit", "cell", "--out", "c.tar")
    assert "The budget is mu = 4 per row, mu = 1.5 per cell." in allowed.out, allowed.err
    document = json.loads(call("ledger", "--json").out)
    assert {total["unit"]: total["budget_mu"] for total in document["totals"]} == {"row": 4.0, "cell": 1.5}


def test_entity_with_a_budget_is_not_left_unprotected(people: Path, call: Call) -> None:
    """After a release per person under a budget, one per row or cell is refused with exit code 5, and says why."""
    frame = pd.read_parquet(people).assign(person=lambda table: table.index // 2)
    frame.to_parquet(people)
    unit = 'unit = { entity = "person", max_rows = 2 }'
    Path("people.policy.toml").write_text(POLICY.replace("mu = 20", f"mu = 20\nbudget_mu = 30\n{unit}"))
    allowed = call("people.parquet", "--anyway")
    assert allowed.code == 0, allowed.err
    for other in ("row", "cell"):
        for kind in (["--release", "covariance"], ["--anyway"]):
            ended = call("people.parquet", "--unit", other, *kind, "--out", "b.tar")
            assert (ended.code, ended.out) == (5, "")
            assert (
                "has a budget per entity:person, which a release that does not protect that unit would void"
                in ended.err
            )
    assert not Path("b.tar").exists()


def test_partitions_cost_in_parallel(people: Path, call: Call) -> None:
    """Two partitions cost what one costs, and the bundle and the ledger name them."""
    for month in ("2026-10", "2026-11"):
        assert call("people.parquet", "--partition", month, "--out", f"{month}.tar").code == 0
    document = json.loads(call("ledger", "--json").out)
    assert [entry["partition"] for entry in document["releases"]] == ["2026-10", "2026-11"]
    assert document["totals"][0]["rho"] == pytest.approx(200)
    with open_bundle(Path("2026-11.tar")) as bundle:
        assert bundle.release.lineage.partition == "2026-11"


def test_locked_key_needs_its_passphrase(people: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key with a passphrase is opened by DPGRAPH_PASSPHRASE and by nothing else."""
    new_key_pair("office", "secret")
    refused = call("people.parquet", "--key", "office")
    assert (refused.code, refused.out) == (1, "")
    assert "DPGRAPH_PASSPHRASE" in refused.err
    monkeypatch.setenv("DPGRAPH_PASSPHRASE", "secret")
    assert call("people.parquet", "--key", "office").code == 0


def test_key_file_can_be_given_by_path(people: Path, call: Call, home: Path) -> None:
    """A word with a slash is a key file and not a name."""
    new_key_pair("office")
    assert call("people.parquet", "--key", home / "keys" / "office.key").code == 0


def test_state_folder_that_cannot_be_used_is_one_sentence(
    people: Path, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no key can be kept, the command says so and does not call it a fault."""
    monkeypatch.setenv("DPGRAPH_HOME", str(people / "inside-a-file"))
    ended = call("people.parquet")
    assert (ended.code, ended.out) == (1, "")
    assert "fault" not in ended.err
    assert "DPGRAPH_HOME" in ended.err
    assert not (tmp_path / "people.bundle.tar").exists()


@pytest.mark.parametrize("words", [["--help"], ["publish", "--help"], ["policy", "--help"], ["ledger", "-h"]])
def test_help_has_an_example(words: list[str], call: Call) -> None:
    """Every command's help shows how it is used."""
    ended = call(*words)
    assert ended.code == 0
    assert "Example:" in ended.out
    assert "dp-publish" in ended.out


def test_commands_and_version_are_not_taken_for_data(call: Call) -> None:
    """Only a first word that is no command is published."""
    assert call("--version").code == 0
    assert "nothing has been published" in call("ledger").out
    assert list(Path.cwd().iterdir()) == []


def test_covariance_release_takes_two_words_more(people: Path, call: Call, tmp_path: Path) -> None:
    """With --release covariance the bundle holds second moments; the answer says which mechanism, why, and how good."""
    ended = call("people.parquet", "--release", "covariance")
    document = json.loads(call("people.parquet", "--release", "covariance", "--out", "b.tar", "--json").out)

    assert ended.code == 0, ended.err
    assert "release 1 of people, second moments of 3 columns, over 400 rows; no rows" in ended.out
    assert "has the smallest expected error for 400 rows and 3 columns" in ended.out
    assert "forecast: " in ended.out or "error bars: " in ended.out
    assert document["release"]["kind"] == "covariance"
    assert document["remark"] in ended.out
    with open_bundle(tmp_path / "people.bundle.tar", allow_older=True) as bundle:
        assert bundle.second_moments().shape == (4, 4)


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["--mechanism", "wishart-pure"], 1, "is not private"),
        (["--mechanism", "output-perturbation"], 1, "is not private"),
        (["--mechanism", "wishart"], 2, "epsilon and delta"),
        (["--mechanism", "gaussian", "--epsilon", "1"], 2, "no pure epsilon"),
        (["--sigma", "1"], 2, "not by its noise"),
        (["--snr-db", "1"], 2, "not by its noise"),
        (["--neighbours", "add-remove", "--unit", "cell"], 2, "rows come and go"),
        (["--epsilon", "1e9"], 2, "epsilon must be from"),
    ],
)
def test_covariance_mistakes_are_one_sentence(
    words: list[str], code: int, sentence: str, people: Path, call: Call
) -> None:
    """What a covariance release cannot be ends with its exit code and one sentence, before a key is made."""
    ended = call("people.parquet", "--release", "covariance", *words)
    assert (ended.code, ended.out) == (code, "")
    assert ended.err.count("\n") == 1
    assert sentence in ended.err
    assert key_names() == []
    assert Ledger().entries() == []


def test_mechanism_without_a_covariance_release_is_a_mistake(people: Path, call: Call) -> None:
    """Rows have no mechanism to choose."""
    ended = call("people.parquet", "--mechanism", "laplace")
    assert (ended.code, ended.out) == (2, "")
    assert 'give release = "covariance"' in ended.err


def test_ledger_tells_of_exceptions(people: Path, call: Call) -> None:
    """A total that does not hold with some probability says with which."""
    words = ("--release", "covariance", "--mechanism", "wishart", "--epsilon", "1", "--delta", "1e-6")
    assert call("people.parquet", *words, "--anyway").code == 0
    assert "over 1 release, except with a probability of 1e-06" in call("ledger").out


def test_a_csv_without_a_header_does_not_publish_a_person(call: Call, tmp_path: Path) -> None:
    """The first person's record is not taken for column names: one sentence, nothing made; a word settles it."""
    lines = [f"{20 + index % 50},{60 + index % 30}.5" for index in range(200)]
    Path("people.csv").write_text("\n".join(lines) + "\n")
    for words in (["people.csv", "--mu", "9"], ["policy", "people.csv"], ["plan", "people.csv"]):
        ended = call(*words)
        assert (ended.code, ended.out) == (2, "")
        assert "--header none or --header first" in ended.err
        assert ended.err.count("\n") == 1
    assert key_names() == []
    assert [path.name for path in tmp_path.iterdir()] == ["people.csv"]

    assert call("policy", "people.csv", "--header", "none").code == 0
    path = Path("people.policy.toml")
    path.write_text(path.read_text().replace("# bounds = [low, high]", "bounds = [0, 100]"))
    assert call("people.csv", "--mu", "300").code == 0
    with open_bundle(Path("people.bundle.tar")) as bundle:
        assert [column.name for column in bundle.release.columns] == ["column_1", "column_2"]
        assert bundle.release.n_rows == 200
    assert b"60.5" not in Path("people.bundle.tar").read_bytes()
    assert call("people.csv", "--mu", "300", "--header", "first", "--out", "b.tar").code == 2  # other names now


@pytest.mark.parametrize("content", ["a,b", "a,b\n", "a,b\r\n\r\n"])
@pytest.mark.parametrize("words", [[], ["--release", "covariance"], ["--mu", "2"]])
def test_a_header_alone_is_refused_before_anything_is_booked(content: str, words: list[str], call: Call) -> None:
    """A CSV file without rows ends in one sentence, also without a line break at its end, and leaves no gap."""
    Path("a.csv").write_text(content)
    bounds = "" if words == [] else "bounds = [0, 1]"
    Path("a.policy.toml").write_text(f'[columns."*"]\n{bounds}\n')
    ended = call("a.csv", *words)
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.splitlines()[-1] == "error: the table has no rows to publish"
    assert Ledger().entries() == []


def test_columns_worth_a_word_are_pointed_out_before_anything_is_spent(people: Path, call: Call) -> None:
    """Identifiers and constants are named on stderr, also where the release is then refused, and not in the bundle."""
    frame = pd.read_parquet(people).assign(visit_id=range(400), serial=range(400), constant=3)
    frame.to_parquet(people)
    wide = POLICY + "".join(f"[columns.{name}]\nbounds = [0, 400]\n" for name in ("visit_id", "serial", "constant"))
    Path("people.policy.toml").write_text(wide.replace("mu = 20", 'mu = 20\nrelease = "covariance"'))
    ended = call("people.parquet")
    assert ended.code == 0
    for said in ("by name: 'visit_id'", "all different in the first 400 rows: 'serial'", "hardly varying"):
        assert said in ended.err
        assert said not in ended.out
    assert b"hardly varying" not in Path("people.bundle.tar").read_bytes()
    assert "by name: 'visit_id'" in call("plan", "people.parquet").err
    assert "'serial'" in call("people.parquet", "--out", "no/folder.tar").err
    assert call("people.parquet", "--out", "b.tar", "--quiet").err == ""


def test_truth_values_need_no_bounds(call: Call) -> None:
    """A column of truth values is published within 0 and 1 without a declaration, from Parquet and, if said, CSV."""
    frame = pd.DataFrame({"x": [0.5, 0.25] * 50, "b": [True, False] * 50})
    frame.to_parquet("a.parquet")
    frame.to_csv("b.csv", index=False)
    Path("a.policy.toml").write_text("[columns.x]\nbounds = [0, 1]\n")
    Path("b.policy.toml").write_text('[columns.x]\nbounds = [0, 1]\n[columns.b]\nkind = "boolean"\n')
    for name in ("a.parquet", "b.csv"):
        release = json.loads(call(name, "--mu", "1", "--anyway", "--json").out)["release"]
        assert release["columns"][1]["bounds"] == [0, 1]
        assert release["columns"][1]["kind"] == "integer"
        assert {column["bounds_obtained"] for column in release["columns"]} == {"declared"}


def test_a_european_file_is_published_and_planned(call: Call) -> None:
    """Semicolons, decimal commas and Windows' letters need no word, and patterns bound all columns at once."""
    frame = pd.DataFrame({f"größe_{index}": [0.5, 1.5, 2.25] * 20 for index in range(4)})
    frame.to_csv("a.csv", sep=";", decimal=",", encoding="cp1252", index=False)
    Path("a.policy.toml").write_text('[privacy]\nmu = 100\n[columns."größe_*"]\nbounds = [0, 3]\n', encoding="utf-8")
    assert "60 rows, 4 columns" in call("plan", "a.csv").out
    assert call("a.csv").code == 0
    with open_bundle(Path("a.bundle.tar")) as bundle:
        assert [column.name for column in bundle.release.columns] == list(frame)
        assert bundle.release.n_rows == 60


def test_faults_in_a_csv_are_placed(call: Call) -> None:
    """A text where a number should be is found by line and column, and the release costs nothing."""
    Path("a.csv").write_text("x,y\n" + "1.5,2\n" * 100 + "1.5,s3cr3t\n")
    ended = call("a.csv", "--mu", "5")
    assert (ended.code, ended.out) == (1, "")
    assert "line 102, column 'y': the value is no number" in ended.err
    assert "s3cr3t" not in ended.err
    assert Ledger().entries() == []


@pytest.mark.parametrize("words", [["--delimiter", ";;"], ["--encoding", "klingon"], ["--decimal", "x"]])
def test_wrong_words_about_a_text_file_are_mistakes(words: list[str], call: Call) -> None:
    """What a text file cannot be written in is refused by the option's name."""
    Path("a.csv").write_text("a|b;c\n1|2;3\n")
    ended = call("policy", "a.csv", *words)
    assert (ended.code, ended.out) == (2, "")
    assert words[0] in ended.err
    assert call("policy", "a.csv").code == 1
    assert call("policy", "a.csv", "--delimiter", ";").code == 0
    assert 'delimiter = ";"' in Path("a.policy.toml").read_text()
