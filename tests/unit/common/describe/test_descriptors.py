"""The manifest in other people's words: the right digests, fields and promises, and nothing else."""

import json
import re
from decimal import Decimal
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dp_bundle import Bundle
from dp_bundle.catalog.staging import export_csv
from dp_bundle.catalog.vocabularies import describe_in
from dp_bundle.describe.descriptors import DESCRIPTORS, DataMember
from dp_bundle.describe.sentences import (
    describe_guarantee,
    round_up,
)
from dp_bundle.manifest.guarantee import EpsilonDelta, Guarantee
from dp_bundle.manifest.release import Release
from dp_publish import Receipt

MEMBERS = [DataMember("data/part-00000.parquet", 123, "a" * 64), DataMember("data/part-00001.parquet", 45, "b" * 64)]


@pytest.fixture
def release(bundle: Receipt) -> Release:
    """Return a release of a mixed table."""
    return bundle.release


def variant(release: Release, **changes: object) -> Release:
    """Return the release with some entries replaced."""
    return release.model_copy(update=changes)


def test_readme_table_survives_bars_and_line_breaks(release: Release) -> None:
    """A name or description with a bar or a line break stays one cell."""
    odd = release.columns[0].model_copy(update={"name": "a|b", "description": "two\nlines | bar"})
    readme = DESCRIPTORS["README.md"](variant(release, columns=(odd,)), MEMBERS).decode()
    (row,) = [line for line in readme.splitlines() if line.startswith('| "a')]
    assert row.startswith('| "a\\|b" |')
    assert row.endswith('| "two\\\\nlines \\| bar" |')


def test_readme_shows_foreign_text_as_a_quotation_that_nothing_acts_on(release: Release) -> None:
    """A title with a line break, a heading, a link or markup stays one quoted line without an active character."""
    title = "Wine\n\n## What is guaranteed\n\nmu = 0.001 [verified](https://example.org) <img src=x> \x1b[2J"
    texts = {"title": title, "description": title, "license": title, "contact": title}
    readme = DESCRIPTORS["README.md"](
        variant(release, dataset=release.dataset.model_copy(update=texts)), MEMBERS
    ).decode()

    assert readme.count("\n## What is guaranteed\n") == 1
    assert "\x1b" not in readme
    assert "](" not in readme.replace("\\](", "")
    assert "<img" not in readme.replace("\\<img", "")
    said = [line for line in readme.splitlines() if "0.001" in line]
    assert len(said) == 4
    assert all(re.fullmatch(r'- [A-Z][a-z]+: "Wine.*"', line) for line in said)


def test_croissant_identifiers_are_unique_and_without_spaces(release: Release) -> None:
    """Column names with spaces or slashes keep their names but get other identifiers, no two the same."""
    names = ["a b", "a_b", "a/b", "plain", "über"]
    columns = tuple(release.columns[0].model_copy(update={"name": name}) for name in names)
    croissant = json.loads(DESCRIPTORS["croissant.json"](variant(release, columns=columns), MEMBERS))
    fields = croissant["recordSet"][0]["field"]
    found = [field["@id"].removeprefix("rows/") for field in fields]

    assert [field["name"] for field in fields] == names
    assert len(set(found)) == len(names)
    assert not any(re.search(r"[\s/]", each) for each in found)
    assert found[3:] == ["plain", "über"]


@given(st.floats(1e-12, 1e9), st.integers(3, 8))
@example(796451200.0019531, 7)  # 2.5 parts in 10^12 above a round number
def test_shown_parameters_are_rounded_up(value: float, digits: int) -> None:
    """A privacy parameter for a person is rounded up by less than a unit of its last digit, but for a safety margin."""
    shown = Decimal(round_up(value, digits))
    assert shown >= Decimal(value) * (1 - Decimal("4.01e-12"))
    assert shown <= Decimal(value) * (1 + Decimal(10) ** (1 - digits))


def test_sentences_round_every_parameter_up(release: Release) -> None:
    """Numbers that would be rounded down by ordinary rounding are not."""
    assert release.guarantee is not None
    points = (EpsilonDelta(epsilon=4.38449, delta=1e-6),)
    stated: Guarantee = release.guarantee.model_copy(
        update={"mu": 1.2345642, "rho": 0.76207433, "epsilon_delta": points}
    )
    text = " ".join(describe_guarantee(variant(release, guarantee=stated)))
    found = {name: float(number) for name, number in re.findall(r"(mu|rho|epsilon) = ([\d.]+)", text)}
    assert found == {"mu": 1.23457, "rho": 0.762075, "epsilon": 4.385}


def test_export_writes_the_histograms_too(of_scores: Bundle, tmp_path: Path) -> None:
    """They get a table of their own beside the matrices, which a spreadsheet reads."""
    written = export_csv(of_scores, tmp_path / "t.csv")
    assert [path.name for path in written] == ["t.csv", "t-first-round.csv", "t-transform.csv", "t-margins.csv"]
    found = pd.read_csv(written[-1], keep_default_na=False, converters={"low": float, "high": float})
    margins = of_scores.margins()
    assert found["count"].tolist() == [count for margin in margins for count in margin.counts.tolist()]
    assert found[found["column"] == "size"]["level"].tolist() == ["small", "middle", "large"]
    (hue,) = [margin for margin in margins if margin.name == "hue"]
    cells = found[found["column"] == "hue"]
    assert cells["level"].tolist() == [*[""] * hue.n_filled, "(no value)"]
    assert cells["low"].tolist()[1:-1] == cells["high"].tolist()[:-2] == hue.edges.tolist()


def test_portals_say_that_a_column_is_scores_and_has_no_unit(of_scores: Bundle) -> None:
    """The unit of the values is not that of the numbers, whose links are between scores."""
    described = {each["name"]: each for each in describe_in("schema.org", of_scores.release, [])["variableMeasured"]}
    assert described["alcohol"] == {
        "@type": "PropertyValue",
        "name": "alcohol",
        "description": "Published as normal scores.",
    }
