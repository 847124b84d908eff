"""A release by normal scores is described as what it is: histograms, and how columns go together."""

import json
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

from dp_bundle import Bundle, open_bundle
from dp_bundle.bundle.inspection import describe_bundle
from dp_bundle.catalog.label import worded_label
from dp_bundle.describe.readme import make_readme
from dp_bundle.describe.sentences import describe_margins, describe_moments, describe_size
from dp_bundle.portals.export import export_csv
from dp_bundle.portals.portal_json import schema_org_document
from dp_bundle.portals.registry import datacite_document
from dp_bundle.trust.judging import UnsafeTrustAnyone

GOLDEN = Path(__file__).parents[3] / "golden"
SIZE = "a histogram of each column, and how 10 columns (for 7 of the table) go together (second moments), over 178 rows"


@pytest.fixture(scope="module")
def bundle() -> Iterator[Bundle]:
    """Return the stored release by normal scores."""
    with open_bundle(GOLDEN / "bundle-copula.tar", UnsafeTrustAnyone()) as opened:
        yield opened


def test_readme_tells_histograms_from_matrices(bundle: Bundle) -> None:
    """Not every file of it is a matrix, and every sentence on noise is there once."""
    found = make_readme(bundle.release, 4)
    assert "One file holds a histogram of each column" in found
    assert "each file holds a symmetric matrix" not in found
    assert "how 10 columns go together" in found
    for sentence in describe_moments(bundle.release.second_moments, bundle.release.columns):
        assert found.count(sentence) == 1


def test_sentences_say_noise_and_gaps_of_histograms(bundle: Bundle) -> None:
    """The standard deviation and the variance of a count are those of the manifest; gaps are in a cell of their own."""
    margins = bundle.release.margins
    assert margins is not None
    (found,) = describe_margins(margins, bundle.release.columns)
    assert f"standard deviation {margins.sigma:.6g}" in found
    assert f"variance {margins.variance:.6g}" in found
    assert "each cell of 7 columns" in found
    assert "Rows without a value are in a cell of their own." in found
    whole = tuple(column for column in bundle.release.columns if column.block != "hue")
    assert "without a value" not in describe_margins(margins, whole)[0]
    assert describe_margins(None, whole) == []


@pytest.mark.parametrize("name", ["datapackage.json", "croissant.json"])
def test_descriptions_say_what_the_file_of_histograms_is(bundle: Bundle, name: str) -> None:
    """Its five columns and the noise are described where it is, and the matrix is described without it."""
    with bundle.open(name) as file:
        found = json.loads(file.read())
    if name == "datapackage.json":
        (margins,) = [each for each in found["resources"] if each["name"] == "margins"]
        fields = margins["schema"]["fields"]
        types = [(each["name"], each["type"]) for each in fields]
        assert types == [("column", "string"), ("level", "string"), *_numbers("number", "integer")]
    else:
        assert "data/margins.parquet" in [each["@id"] for each in found["distribution"]]
        (margins,) = [each for each in found["recordSet"] if each["name"] == "margins"]
        types = [(each["name"], each["dataType"]) for each in margins["field"]]
        assert types == [("column", "sc:Text"), ("level", "sc:Text"), *_numbers("sc:Float", "sc:Integer")]
    assert margins["description"].startswith("Histograms: data/margins.parquet has the number of rows")
    assert json.dumps(found).count("Histograms: ") == 1


def _numbers(continuous: str, integer: str) -> list[tuple[str, str]]:
    return [("low", continuous), ("high", continuous), ("count", integer)]


def test_everybody_is_told_of_histograms(bundle: Bundle) -> None:
    """Inspection, label and portals' records name them, each once."""
    release = bundle.release
    assert describe_size(release) == f"{SIZE}; no rows"
    lines = describe_bundle(bundle, None).splitlines()
    assert sum("Histograms: " in line for line in lines) == 1
    assert any("normal scores from" in line for line in lines)
    assert sum(text.startswith("Histograms: ") for text in worded_label(release)["noise"]) == 1
    assert datacite_document(release, [])["types"]["resourceType"] == (
        "Differentially private histograms and second moments"
    )
    described = {each["name"]: each for each in schema_org_document(release, [])["variableMeasured"]}
    assert described["proline"]["description"].endswith("Published as normal scores.")
    assert "unitText" not in described["proline"]


def test_export_writes_the_histograms_too(bundle: Bundle, tmp_path: Path) -> None:
    """They get a table of their own beside the matrices, which a spreadsheet reads."""
    written = export_csv(bundle, tmp_path / "t.csv")
    assert [path.name for path in written] == ["t.csv", "t-first-round.csv", "t-transform.csv", "t-margins.csv"]
    found = pd.read_csv(written[-1], keep_default_na=False, converters={"low": float, "high": float})
    margins = bundle.margins()
    assert found["count"].tolist() == [count for margin in margins for count in margin.counts.tolist()]
    assert found[found["column"] == "size"]["level"].tolist() == ["small", "middle", "large"]
    (hue,) = [margin for margin in margins if margin.name == "hue"]
    cells = found[found["column"] == "hue"]
    assert cells["level"].tolist() == [*[""] * hue.n_filled, "(no value)"]
    assert cells["low"].tolist()[1:-1] == cells["high"].tolist()[:-2] == hue.edges.tolist()
