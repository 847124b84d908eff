"""What the publisher reads at the end, plain words first and true of every unit, and the page beside the file."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from scipy.stats import norm
from tests.unit.publisher.conftest import Call

from dp_bundle.catalog.label import worded_label
from dp_bundle.files.places import RemotePath
from dp_publish import Policy, Receipt, publish
from dp_publish.cli.messages.release import describe_receipt, page_path, write_page
from dp_publish.data.missing import RowReport

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

    path, why_not = write_page(receipt, policy, key)
    assert (path, why_not) == (page_path(receipt.path), "")
    page = path.read_text()
    n_dots = page.count('class="chance" cx="') + page.count('class="gained" cx="')
    assert n_dots == math.ceil(100 * chance) + 2  # two in the legend
    for words in (label["who"], *label["unprotected"], "2 columns: a, b.", "dpgraph "):
        assert words.replace('"', "&#34;") in page
    assert "default-src &#39;none&#39;" in page
    assert not re.search(r"(?:src|href)=\"(?!#|data:)", page)

    path.unlink()
    told = RowReport(clipped={"a": 98765}, filled={"a": 98765}, n_clipped_rows=98765, n_entities=98765)
    spread = {name: entry.model_copy(update={"spread": 0.05}) for name, entry in policy.columns.items()}
    other = policy.model_copy(update={"columns": spread})
    write_page(dataclasses.replace(receipt, report=told, left_out=("secret name",)), other, key)
    assert path.read_text() == page


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
    assert write_page(dataclasses.replace(receipt, path=RemotePath("s3://b/x.tar")), policy, key) == (None, "")
