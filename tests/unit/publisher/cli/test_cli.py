"""dp-publish as options in, answers and exit codes out; what the publisher reads at the end is true of every unit."""

import dataclasses
import json
import math
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from scipy.stats import norm
from tests.unit.publisher.conftest import POLICY, Call

from dp_bundle import open_bundle
from dp_bundle.bundle.inspection import describe_bundle
from dp_bundle.catalog.label import worded_label
from dp_bundle.files.places import RemotePath
from dp_bundle.trust.judging import UnsafeTrustAnyone
from dp_bundle.trust.store import new_key_pair
from dp_publish import Policy, Receipt, publish
from dp_publish.cli.messages.release import describe_odds, describe_receipt, page_path, summarize_receipt, write_page
from dp_publish.ledger.ledger import Ledger
from dp_publish.rows.missing import RowReport

ENTITY = {"entity": "who", "max_rows": 2}
MOMENTS = {"release": "covariance", "mechanism": "gaussian", "mu": 2.0}
CASES: dict[str, dict[str, Any]] = {
    **{unit: {"unit": unit, "mu": 2.0} for unit in ("cell", "row", "change")},
    "entity": {"unit": ENTITY, "mu": 2.0},
    "moments of cells": {**MOMENTS, "unit": "cell"},
    "there or not": {**MOMENTS, "unit": ENTITY, "neighbours": "add-remove"},
    "epsilon": {"release": "covariance", "mechanism": "wishart", "unit": "row", "epsilon": 1.0, "delta": 1e-3},
}
HEADS = ["who is protected", "from whom", "how strongly", "not protected", "what researchers will see", "in numbers"]


def test_without_a_policy_bounds_are_found_and_that_is_said(people: Path, call: Call, tmp_path: Path) -> None:
    """With no policy at all one row is protected at mu = 1; of rows, the answer lists the bounds that were assumed."""
    (tmp_path / "people.policy.toml").unlink()
    ended = call("people.parquet", "--release", "rows", "--anyway", "--details")
    assert ended.code == 0
    assert "rho = 0.5 (zero-concentrated" in ended.out
    mark = ended.out.index("assumed: these bounds, found privately with 10% of rho")
    assert [line.split(":")[0].strip() for line in ended.out[mark:].splitlines()[1:4]] == ["height", "weight", "visits"]


def test_private_counts_are_marked_as_such(people: Path, call: Call) -> None:
    """Clipped cells are told to the publisher below a warning, and are nowhere in the bundle."""
    Path("people.policy.toml").write_text(POLICY.replace("[20, 140]", "[60, 140]"))
    ended = call("people.parquet")
    mark = ended.out.index("for your eyes only")
    assert "cells of weight clipped to its bounds" in ended.out[mark:]
    assert b"clipped" not in Path("people.bundle.tar").read_bytes().replace(b"values were clipped", b"")


def test_lines_to_type_can_be_typed(people: Path, call: Call, tmp_path: Path) -> None:
    """What `policy` and publishing say to run next quotes names, and names a policy that lies elsewhere."""
    people.rename(tmp_path / "our people.parquet")
    assert call("policy", "our people.parquet").out.splitlines()[0].endswith("run dp-publish 'our people.parquet'")
    written = call("policy", "our people.parquet", "--out", "p 2.toml").out.splitlines()[0]
    assert written.endswith("run dp-publish 'our people.parquet' --policy 'p 2.toml'")

    path = tmp_path / "p 2.toml"
    path.write_text(path.read_text().replace("# bounds = [low, high]", "bounds = [0, 300]"))
    told = call("our people.parquet", "--policy", "p 2.toml", "--mu", "100").out
    assert told.splitlines()[-1] == "to use it: dp-learn 'our people.bundle.tar'"


def test_locked_key_needs_its_passphrase(people: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key with a passphrase is opened by DPGRAPH_PASSPHRASE and by nothing else."""
    new_key_pair("office", "secret")
    refused = call("people.parquet", "--key", "office")
    assert (refused.code, refused.out) == (1, "")
    assert "DPGRAPH_PASSPHRASE" in refused.err
    monkeypatch.setenv("DPGRAPH_PASSPHRASE", "secret")
    assert call("people.parquet", "--key", "office").code == 0


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


def test_values_that_two_rounds_clip_are_counted_for_the_publisher(call: Call) -> None:
    """Of every column she is told how many values lie beyond the clip that the release states."""
    values = 5 + 0.3 * np.random.default_rng(6).standard_t(4, (2000, 3))
    values[:3, 1] = 10.0
    frame = pd.DataFrame(values, columns=["one", "other", "known"])
    frame.to_parquet("a.parquet")
    policy = '[privacy]\nmu = 0.3\nrelease = "covariance"\n[columns."*"]\nbounds = [0, 10]\n[columns.known]\n'
    Path("a.policy.toml").write_text(policy + "center = 5.0\nscale = 0.3\n")
    ended = call("a.parquet", "--json")
    assert ended.code == 0, ended.err

    document = json.loads(ended.out)
    told, clip = document["for_the_publisher_only"], document["release"]["second_moments"]["column_clip"]
    for column in document["release"]["columns"]:
        away = np.abs(frame[column["name"]] - column["standards"][0]["center"])
        beyond = int((away > clip * column["standards"][0]["scale"]).sum())
        assert beyond > 0
        assert told["clipped_to_what_was_found"][column["name"]] == pytest.approx(beyond, abs=2)


CLINIC = """
[dataset]
name = "clinic"
[privacy]
unit = "cell"
mu = 3.0
[columns.region]
kind = "category"
categories = ["north", "south", "east, too"]
other = "abroad"
{region}
[columns.triage]
kind = "ordered"
levels = ["green", "yellow", "red"]
[columns.smoker]
kind = "boolean"
levels = ["no", "si"]
[columns.age]
bounds = [0, 110]
[columns.weight]
bounds = [30, 200]
"""


LEVEL = re.compile(r"region=(north|south|east|abroad)")


@pytest.fixture
def clinic(tmp_path: Path) -> Path:
    """Write a text file with a category, ordered levels, truth values and numbers, and its policy."""
    rng = np.random.default_rng(18)
    frame = pd.DataFrame(
        {
            "region": rng.choice(["north", "south", "east, too", "moon"], 3000),
            "triage": rng.choice(["green", "yellow", "red"], 3000),
            "smoker": rng.choice(["no", "si"], 3000),
            "age": rng.uniform(0, 110, 3000),
            "weight": rng.uniform(30, 200, 3000),
        }
    )
    frame.to_csv(tmp_path / "clinic.csv", index=False)
    (tmp_path / "clinic.policy.toml").write_text(CLINIC.format(region=""))
    return tmp_path / "clinic.csv"


def _with_gaps(clinic: Path, region: str) -> None:
    """Take some regions out of the table, and say in the policy what becomes of them."""
    frame = pd.read_csv(clinic)
    frame.loc[::50, "region"] = None
    frame.to_csv(clinic, index=False)
    clinic.with_name("clinic.policy.toml").write_text(CLINIC.format(region=region))


def test_refusals_name_a_category_once(clinic: Path, call: Call) -> None:
    """Noise that changes next to nothing is refused with the names of the table's columns."""
    refused = call("clinic.csv", "--mu", 30)
    assert refused.code == 2
    assert "noise this weak would publish 'region', 'triage', 'smoker' unchanged" in refused.err
    assert not LEVEL.search(refused.err)
    refused = call("clinic.csv", "--mu", 70, "--anyway")
    assert "column 'triage' of whole numbers would get noise" in refused.err
    assert 'or, for a number, kind = "continuous"' in refused.err
    assert Ledger().entries() == []


@pytest.mark.parametrize("release", ["rows", "covariance"])
def test_a_category_is_told_by_the_name_of_its_column(release: str, clinic: Path, call: Call) -> None:
    """The receipt, the inspection and the label name no column of a level."""
    _with_gaps(clinic, 'missing = "drop"')
    planned = call("plan", "clinic.csv", "--release", release)
    assert "8 columns (for 5 of the table). Nothing was spent" in planned.out
    published = call("clinic.csv", "--release", release)
    assert published.code == 0
    assert "8 columns (for 5 of the table)" in published.out
    with open_bundle(Path("clinic.bundle.tar"), UnsafeTrustAnyone()) as bundle:
        label = worded_label(bundle.release)
        inspected = describe_bundle(bundle, None)
    assert "Rows without a value in region were left out" in inspected
    assert "8 columns (for 5 of the table)" in inspected
    assert "which rows have no value in 'region'" in inspected
    if release == "rows":
        assert [column[0] for column in label["columns"]] == ["region (4 columns)", "triage", "smoker", "age", "weight"]
    for text in (published.out, published.err, inspected, str(label)):
        assert not LEVEL.search(text)


def chance_of(case: str) -> float:
    """Return the chance of a right guess between two, by mu, or by epsilon and delta."""
    return math.e / (1 + math.e) + 1e-3 if case == "epsilon" else norm.cdf(1.0)


@pytest.fixture
def make(tmp_path: Path, key: Ed25519PrivateKey) -> Any:
    """Return a function that publishes 400 rows of two columns, and returns the receipt and the policy."""
    rng = np.random.default_rng(5)
    table = pd.DataFrame({"a": rng.integers(0, 9, 400), "b": rng.integers(0, 9, 400), "who": rng.integers(0, 300, 400)})

    def made(privacy: dict[str, Any], name: str = "a.tar") -> tuple[Receipt, Policy]:
        of_change = {"max_change": 1, "kind": "integer"} if privacy["unit"] == "change" else {}
        columns = {each: {"bounds": [0, 10], "kind": "continuous", **of_change} for each in "ab"}
        document = {"dataset": {"name": "t"}, "privacy": privacy, "columns": {**columns, "who": {"drop": True}}}
        if privacy["unit"] == ENTITY:
            del document["columns"]["who"]  # type: ignore[attr-defined]
        policy = Policy.model_validate(document)
        return publish(table, policy, out=tmp_path / name, key=key), policy

    return made


def sections(said: str) -> dict[str, list[str]]:
    """Return the lines under each heading of a receipt."""
    found, head = dict[str, list[str]](), ""
    for line in said.splitlines():
        if line.startswith("  "):
            found[head].append(line.strip())
        else:
            head = line.removesuffix(":")
            found[head] = []
    return found


@pytest.mark.parametrize("case", CASES)
def test_the_receipt_says_in_plain_words_what_holds(case: str, make: Any, key: Ed25519PrivateKey) -> None:
    """Whom a release protects, how strongly and what not is said first, in the label's words, before any of the field.

    The page has the same words and the label's dots, and loads nothing. Neither the private report nor a spread, which
    the publisher may have read off her table, makes a difference to it.
    """
    receipt, policy = make(CASES[case])
    said, label = describe_receipt(receipt, policy), worded_label(receipt.release)
    found, chance = sections(said), chance_of(case)
    assert list(found)[1 : len(HEADS) + 1] == HEADS
    assert "mu = " not in said.partition("how strongly:")[0]
    assert (found["who is protected"], found["not protected"]) == ([label["who"]], label["unprotected"])
    assert f" {math.ceil(1000 * chance - 1e-9) / 10:.1f} % " in found["how strongly"][0]
    assert f" {math.ceil(100 * chance)} " in found["how strongly"][1]
    narrow = describe_receipt(receipt, policy, width=60)
    assert narrow.split() == said.split()
    assert max(map(len, narrow.partition("what was chosen")[0].splitlines()[1:])) <= 60
    brief = summarize_receipt(receipt, policy).splitlines()
    assert (len(brief) <= 10, label["who"] in brief[2]) == (True, True)
    assert f"at most {math.ceil(100 * chance)} " in brief[3]

    path, why_not = write_page(receipt, policy)
    assert (path, why_not) == (page_path(receipt.path), "")
    assert write_page(receipt, policy) == (path, ""), "as a process that was killed left it"
    page = path.read_text()
    shown = page.partition('class="label"')[2]
    n_dots = shown.count('class="chance" cx="') + shown.count('class="gained" cx="')
    assert n_dots == math.ceil(100 * chance) + 2  # two in the legend
    for words in (label["who"], *label["unprotected"], "2 columns: a, b.", "dpgraph "):
        assert words.replace('"', "&#34;") in page
    assert "default-src &#39;none&#39;" in page
    assert not re.search(r"(?:src|href)=\"(?!#|data:)", page)

    path.unlink()
    told = RowReport(clipped={"a": 98765}, filled={"a": 98765}, n_clipped_rows=98765, n_entities=98765)
    spread = {name: entry.model_copy(update={"spread": 0.05}) for name, entry in policy.columns.items()}
    other = policy.model_copy(update={"columns": spread})
    write_page(dataclasses.replace(receipt, report=told, left_out={"secret name": ""}), other)
    assert path.read_text() == page


def test_a_terminal_is_asked_first(people: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer is no unless it is yes, and nothing is spent by then; --yes, like a pipe, is asked nothing."""
    for stream in (sys.stdin, sys.stderr):
        monkeypatch.setattr(stream, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(click, "confirm", lambda _, default, **__: default)
    ended = call(people.name)
    assert (ended.code, Ledger().entries()) == (1, [])
    heads = ["published: 3 columns of 400 rows", "left out: 'name'", "protected: Every row", "account: people"]
    assert [head for head in heads if head not in ended.err] == []
    assert call(people.name, "--yes").code == 0


def test_a_table_under_a_new_name_is_asked_whose_it_is(
    people: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One account pays for the same people, in another folder, too."""
    Path("later").mkdir()
    shutil.copy(people, "later/second.parquet")
    assert call(people.name).code == 0
    monkeypatch.chdir("later")
    assert "are these the same people? --account people" in call("second.parquet", "--mu", 20).err
    Path("second.policy.toml").write_text('[dataset]\nname = "others"\n')
    assert "are these the same people? --account people" in call("second.parquet", "--mu", 20).err
    assert call("second.parquet", "--mu", 20, "--account", "people").code == 0
    assert [(each.dataset, each.number) for each in Ledger().entries()] == [("people", 1), ("people", 2)]


def test_small_probabilities_are_said_in_words() -> None:
    """At most one case in so many."""
    assert [*map(describe_odds, (1e-12, 1.3e-10, 3e-5))] == ["a million million", "a thousand million", "ten thousand"]


def test_after_several_releases_the_total_is_what_is_said(make: Any) -> None:
    """The guess is that of somebody with all of them, in the receipt and on the page alike, also of whole numbers."""
    for number in range(1, 3):
        receipt, policy = make({"unit": "row", "mu": 2.0}, f"{number}.tar")
    strongly = sections(describe_receipt(receipt, policy))["how strongly"]
    both = norm.cdf(math.sqrt(2))
    assert f" {math.ceil(1000 * both) / 10} % " in strongly[1]
    assert f" {math.ceil(100 * both)} " in strongly[2]
    assert "weak" in strongly[3]


def test_the_page_is_beside_the_bundle_and_replaces_nothing(people: Path, call: Call) -> None:
    """A tar and a folder get NAME.html, --json names it, and a file of that name stays: the release is complete."""
    assert json.loads(call(people.name, "--json").out)["page"] == "people.bundle.html"
    assert call(people.name, "--out", "of folders/", "--quiet") == (0, "", "")
    assert Path("of folders.html").stat().st_size > 10_000
    Path("b.html").write_text("mine")
    ended = call(people.name, "--out", "b.tar", "--json")
    assert ended.code == 0
    assert "b.html" in ended.err
    assert (json.loads(ended.out)["page"], Path("b.html").read_text()) == (None, "mine")


def test_no_page_is_written_elsewhere(make: Any, key: Ed25519PrivateKey) -> None:
    """A bundle in a bucket has no page beside it, without a word."""
    receipt, policy = make({"unit": "row", "mu": 2.0})
    assert write_page(dataclasses.replace(receipt, path=RemotePath("s3://b/x.tar")), policy) == (None, "")
