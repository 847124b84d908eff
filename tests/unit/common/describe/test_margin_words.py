"""A release by normal scores is described as what it is: histograms, and how columns go together."""

from pathlib import Path

import pandas as pd

from dp_bundle import Bundle
from dp_bundle.portals.portal_json import schema_org_document
from dp_bundle.portals.staging import export_csv


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
    described = {each["name"]: each for each in schema_org_document(of_scores.release, [])["variableMeasured"]}
    assert described["alcohol"] == {
        "@type": "PropertyValue",
        "name": "alcohol",
        "description": "Published as normal scores.",
    }
