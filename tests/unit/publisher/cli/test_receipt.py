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
from dp_bundle.describe.sentences import SEVERAL_CELLS
from dp_bundle.files.places import RemotePath
from dp_publish import Policy, Receipt, publish
from dp_publish.cli.messages.release import describe_receipt, page_path, write_page
from dp_publish.data.missing import RowReport

ENTITY = {"entity": "who", "max_rows": 2}
ROW = "Every row: all values of one row together"
OTHERS = [
    "What follows from everybody’s rows together: that smokers fall ill more often is learned about every smoker, in "
    "the table or not.",
    "What other publications about the same people reveal: this publisher’s ledger adds up one dataset’s releases.",
    "What a publisher does otherwise than she says: the signature proves who promises, not that it is true.",
]
ROWS_PUBLIC, NUMBER_PUBLIC = "The number and the order of the rows.", "The number of the rows."
TOGETHER = "If a person has several rows, each of them is protected as stated, but not all of them together: 10 rows "
TOGETHER += "together are protected at {}."
SEEN = {
    "rows": "Rows, with noise on every value.",
    "covariance": "How the columns vary, and how every two of them go together (second moments), with noise; no row.",
}
PAIR = "{}, and that {}, each as likely as the other"
CASES: dict[str, tuple[dict[str, Any], str, str, float, list[str]]] = {
    "cell": (
        {"unit": "cell", "mu": 2.0},
        "Every single cell: one value of one row, but not a row as a whole.",
        PAIR.format("the whole table but one cell", "this cell holds one of two values"),
        norm.cdf(1.0),
        [ROWS_PUBLIC, "Each cell of a row is protected as stated, but not the whole row.", *OTHERS],
    ),
    "row": (
        {"unit": "row", "mu": 2.0},
        f"{ROW}.",
        PAIR.format("all rows but one", "this one is one of two"),
        norm.cdf(1.0),
        [ROWS_PUBLIC, TOGETHER.format(f"mu = {math.sqrt(40):.6g}"), *OTHERS],
    ),
    "entity": (
        {"unit": ENTITY, "mu": 2.0},
        "Every “who”: all values of its rows together, at most 2 rows.",
        PAIR.format("all rows but those of one “who”", "these are one of two sets of rows"),
        norm.cdf(1.0),
        [
            ROWS_PUBLIC,
            "Which rows belong together.",
            'Rows of one "who" beyond 2 are left out of the release.',
            *OTHERS,
        ],
    ),
    "change": (
        {"unit": "change", "mu": 2.0},
        "Every change of one cell by as much as its column states, such as one case, and any where it states none.",
        PAIR.format("the whole table but for one person’s part of one cell", "it was counted there or not"),
        norm.cdf(1.0),
        [ROWS_PUBLIC, SEVERAL_CELLS, *OTHERS],
    ),
    "moments": (
        {"release": "covariance", "mechanism": "gaussian", "unit": "row", "mu": 2.0},
        f"{ROW}.",
        PAIR.format("all rows but one", "this one is one of two"),
        norm.cdf(1.0),
        [NUMBER_PUBLIC, TOGETHER.format("mu = 20"), *OTHERS],
    ),
    "moments of cells": (
        {"release": "covariance", "mechanism": "gaussian", "unit": "cell", "mu": 2.0},
        "Every single cell, and every row as well: all values of one row together.",
        PAIR.format("the whole table but one cell", "this cell holds one of two values"),
        norm.cdf(1.0),
        [NUMBER_PUBLIC, TOGETHER.format("mu = 20"), *OTHERS],
    ),
    "there or not": (
        {"release": "covariance", "mechanism": "gaussian", "unit": ENTITY, "mu": 2.0, "neighbours": "add-remove"},
        "Every “who”: all values of its rows together, at most 2 rows, and whether there is one at all.",
        PAIR.format("all other rows", "the rows of one “who” may be there or not"),
        norm.cdf(1.0),
        ['Rows of one "who" beyond 2 are left out of the release.', *OTHERS],
    ),
    "epsilon": (
        {"release": "covariance", "mechanism": "wishart", "unit": "row", "epsilon": 1.0, "delta": 1e-3},
        f"{ROW}.",
        PAIR.format("all rows but one", "this one is one of two"),
        math.e / (1 + math.e) + 1e-3,
        [NUMBER_PUBLIC, f"{TOGETHER.partition(' protected at {}')[0]} promised nothing.", *OTHERS],
    ),
}


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
def test_the_receipt_says_in_plain_words_what_holds(case: str, make: Any) -> None:
    """Whom a release protects, from whom, how strongly and what not is said first, before any word of the field."""
    privacy, who, known, chance, unprotected = CASES[case]
    receipt, policy = make(privacy)
    said = describe_receipt(receipt, policy)
    found = sections(said)

    heads = [
        "who is protected",
        "from whom",
        "how strongly",
        "not protected",
        "what researchers will see",
        "in numbers",
    ]
    assert list(found)[1 : len(heads) + 1] == heads
    assert "mu = " not in said.partition("how strongly:")[0]
    assert found["who is protected"] == [who]
    assert found["not protected"] == unprotected
    assert found["what researchers will see"][0] == SEEN[privacy.get("release", "rows")]
    assert found["from whom"][0].startswith("Anybody, with any other knowledge and any computer")
    assert found["not protected"] == worded_label(receipt.release)["unprotected"]
    narrow = describe_receipt(receipt, policy, width=60)
    assert narrow.split() == said.split()
    assert max(map(len, narrow.partition("what was chosen")[0].splitlines()[1:])) <= 60
    percent = math.ceil(1000 * chance - 1e-9) / 10
    assert found["how strongly"] == [
        f"Somebody who knows {known}, guesses right in at most {percent:.1f} % of cases after seeing this release, in "
        "place of 50 %.",
        f"Of 100 such guesses, at most {math.ceil(100 * chance)} are right on average; by chance alone it would be 50.",
    ]


def test_after_several_releases_the_total_is_what_is_said(make: Any) -> None:
    """The guess is that of somebody with all of them, in the receipt and on the page alike, also of whole numbers."""
    for number in range(1, 3):
        receipt, policy = make({"unit": "row", "mu": 2.0}, f"{number}.tar")
    strongly = sections(describe_receipt(receipt, policy))["how strongly"]
    both = f"{math.ceil(1000 * norm.cdf(math.sqrt(2))) / 10} %"
    assert strongly[1].endswith(f"in at most {both} of cases after seeing all 2 releases so far, in place of 50 %.")
    assert strongly[2:] == [
        "Of 100 such guesses with all releases, at most 93 are right on average; by chance alone it would be 50.",
        "This is weak: at mu = 1 it would be 69.2 %.",
    ]


@pytest.mark.parametrize("case", CASES)
def test_the_page_tells_what_the_file_tells(case: str, make: Any, key: Ed25519PrivateKey) -> None:
    """It has the label's dots and the receipt's words, and loads nothing.

    Neither the private report nor a spread, which the publisher may have read off her table, makes a difference to it.
    """
    receipt, policy = make(CASES[case][0])
    path, why_not = write_page(receipt, policy, key)
    assert (path, why_not) == (page_path(receipt.path), "")
    page = path.read_text()
    _, who, _, chance, unprotected = CASES[case]
    n_dots = page.count('class="chance" cx="') + page.count('class="gained" cx="')
    assert n_dots == math.ceil(100 * chance) + 2  # two in the legend
    record = page.partition('<p class="record" dir="auto">')[2].partition("</p>")[0]
    for words in (who, *unprotected, str(receipt.release.lineage.created[:10]), "2 columns: a, b.", "dpgraph "):
        assert words.replace('"', "&#34;") in record
    assert "default-src &#39;none&#39;" in page
    assert not re.search(r"(?:src|href)=\"(?!#|data:)", page)

    path.unlink()
    counts = {"a": 98765}
    told = RowReport(clipped=counts, filled=counts, n_clipped_rows=98765, n_over_cap=98765, n_entities=98765)
    spread = {name: entry.model_copy(update={"spread": 0.05}) for name, entry in policy.columns.items()}
    other = policy.model_copy(update={"columns": spread})
    write_page(dataclasses.replace(receipt, report=told, left_out=("secret name",)), other, key)
    if case in ("cell", "row", "moments"):
        assert describe_receipt(receipt, other) != describe_receipt(receipt, policy)
    assert path.read_text() == page


def test_the_page_is_beside_the_bundle_and_replaces_nothing(people: Path, call: Call) -> None:
    """A tar and a folder get NAME.html, --json names it, and a file of that name stays: the release is complete."""
    assert json.loads(call(people.name, "--json").out)["page"] == "people.bundle.html"
    assert call(people.name, "--out", "of folders/", "--quiet") == (0, "", "")
    assert Path("of folders.html").stat().st_size > 10_000
    Path("b.html").write_text("mine")
    ended = call(people.name, "--out", "b.tar", "--json")
    assert ended.code == 0
    assert "note: the release is complete, but has no page beside it: there is another file at b.html\n" in ended.err
    assert (json.loads(ended.out)["page"], Path("b.html").read_text()) == (None, "mine")


def test_no_page_is_written_elsewhere(make: Any, key: Ed25519PrivateKey) -> None:
    """A bundle in a bucket has no page beside it, without a word."""
    receipt, policy = make({"unit": "row", "mu": 2.0})
    assert write_page(dataclasses.replace(receipt, path=RemotePath("s3://b/x.tar")), policy, key) == (None, "")
