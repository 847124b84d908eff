"""The form's fields and the policy's text: what is changed changes its entry, and nothing else changes."""

import tomllib

import pytest
from pydantic import ValidationError

from dp_bundle.base.errors import PolicyError
from dp_publish.cli.desk.document import changed_policy, new_policy, shown_fields
from dp_publish.cli.desk.words import field_at
from dp_publish.policy.file import parse_policy
from dp_publish.policy.mistakes import describe_mistakes

WRITTEN = """\
# mine
[dataset]
name = "wine" # keep
keywords = ["a", "b"]

[columns.alcohol] # the first
bounds = [10.0, 15.0]    # public
weight = 2

[privacy]
# why
unit = { entity = "id", max_rows = 4 } # e
epsilon = 1.0
delta = 1e-6

[columns."*"]
missing = "midpoint"
[columns.day]
kind = "date"
bounds = [2020-01-01, 2021-01-01]
[columns.vote]
kind = "category"
categories = [1, 2, "none"]
"""
COLUMNS = ["id", "alcohol", "day", "vote", "a.b c"]


def changed(text: str, **fields: str) -> str:
    """Return the text with fields changed, all of which can be read."""
    found = changed_policy(text, COLUMNS, {name.replace("__", "-"): said for name, said in fields.items()})
    parse_policy(found, "of a test", "wine")
    return found


def test_what_is_not_changed_stays_to_the_letter() -> None:
    """A form that is sent as it was filled in gives the same text, and so does one without fields."""
    assert changed_policy(WRITTEN, COLUMNS, shown_fields(WRITTEN, COLUMNS)) == WRITTEN
    assert changed_policy(WRITTEN, COLUMNS, {}) == WRITTEN


def test_one_entry_changes_one_entry() -> None:
    """Comments, order, patterns and entries without a field are kept, and a strength takes the place of another."""
    found = changed(WRITTEN, column__1__high="16", privacy__mu="0.5", dataset__title="Wine")
    assert found == (
        WRITTEN.replace("[10.0, 15.0]", "[10.0, 16]")
        .replace("epsilon = 1.0\ndelta = 1e-6\n", "mu = 0.5\n")
        .replace('keywords = ["a", "b"]\n', 'keywords = ["a", "b"]\ntitle = "Wine"\n')
    )


@pytest.mark.parametrize("entry", ["kind", "levels", "low", "missing", "unit", "description", "drop"])
def test_there_and_back_nothing_is_left(entry: str) -> None:
    """A field that is set and emptied again leaves what the policy said before."""
    start = new_policy("wine.csv", "wine")
    there = {
        "kind": {"kind": "ordered", "levels": "low\nhigh"},
        "levels": {"kind": "category", "levels": "a\nb\n\na"},
        "low": {"range": "public", "low": "0", "high": "1000"},
        "missing": {"missing": "drop"},
        "drop": {"drop": "yes"},
    }.get(entry, {entry: 'a "quoted" text'})
    filled = {f"column-4-{name}": said for name, said in there.items()}
    first = changed_policy(start, COLUMNS, filled)
    assert tomllib.loads(first)["columns"]["a.b c"]
    shown = shown_fields(first, COLUMNS)
    assert {name: shown[name] for name in filled if "levels" not in name}.items() <= filled.items()
    again = changed_policy(first, COLUMNS, dict.fromkeys(filled, ""))
    assert tomllib.loads(again) == tomllib.loads(start)


def test_what_is_no_number_is_said_beside_its_field() -> None:
    """It enters the policy as it is written, whose own words say what it may be, all of them at once."""
    sent = {"privacy-mu": "one", "column-1-low": "", "privacy-unit": "entity", "privacy-max_rows": "2.5"}
    sent |= {"privacy-budget_mu": "inf", "privacy-entity": "", "column-1-max_change": "9" * 5000}
    with pytest.raises(PolicyError) as refused:
        parse_policy(changed_policy(WRITTEN, COLUMNS, sent), "of a test", "wine")
    assert isinstance(refused.value.__cause__, ValidationError)
    found = describe_mistakes(refused.value.__cause__)
    assert {field_at(place, COLUMNS) for place in found} == {*sent}


def test_how_a_text_file_is_written_is_in_fields_of_its_own() -> None:
    """What is chosen enters the section of the table, a tab by its name, and what is left open goes."""
    sent = {"table-delimiter": "tab", "table-decimal": ",", "table-encoding": "cp1252", "table-header": "none"}
    sent["table-missing_values"] = "-999\n\n unknown\n-999"
    found = changed_policy(WRITTEN, COLUMNS, sent)
    said = {"delimiter": "\t", "decimal": ",", "encoding": "cp1252", "header": "none"}
    assert tomllib.loads(found)["table"] == {**said, "missing_values": ["-999", "unknown"]}
    shown = shown_fields(found, COLUMNS)
    assert {name: shown[name] for name in sent} == {**sent, "table-missing_values": "-999\nunknown"}
    assert changed_policy(found, COLUMNS, shown) == found
    again = changed_policy(found, COLUMNS, dict.fromkeys(sent, ""))
    assert tomllib.loads(again) == tomllib.loads(WRITTEN)


def test_a_scale_is_one_of_second_moments() -> None:
    """It shows that these are released, and goes where rows are chosen."""
    text = '[privacy]\nmu = 1.0\nscale = ["day", "id"]\n'
    assert shown_fields(text, [])["privacy-release"] == "covariance"
    assert "scale" not in changed(text, privacy__release="rows")


def test_a_budget_by_unit_is_that_of_the_unit_in_the_form() -> None:
    """Its number is shown, and changed where it is; those of other units stay."""
    text = '[privacy]\nmu = 1.0\nbudget_mu = { row = 5, "entity:id" = 9 } # all\n'
    assert shown_fields(text, COLUMNS)["privacy-budget_mu"] == "5"
    assert changed(text, privacy__budget_mu="6") == text.replace("row = 5", "row = 6")
    assert tomllib.loads(changed(text, privacy__budget_mu=""))["privacy"]["budget_mu"] == {"entity:id": 9}
    of_people = text.replace("mu = 1.0", 'unit = { entity = "id", max_rows = 2 }\nmu = 1.0')
    assert shown_fields(of_people, COLUMNS)["privacy-budget_mu"] == "9"
    assert tomllib.loads(changed(text, privacy__unit="cell"))["privacy"]["budget_mu"]["cell"] == 5
