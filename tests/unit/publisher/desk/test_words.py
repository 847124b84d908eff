"""Sentences of the library at the form: they name fields and choices, and neither entries of a policy nor options."""

import re
from pathlib import Path

import pytest
from tests.unit.publisher.desk.test_answer import asked, desk_of, survey  # noqa: F401  a fixture

from dp_bundle.base.errors import HeaderError, MissingValuesError
from dp_publish.data.cells import Fault
from dp_publish.desk.words import FIELDS, in_form
from dp_publish.policy.column_survey import _about_identifiers

NOT_OF_A_FORM = re.compile(rf"\b({'|'.join(FIELDS)}|drop) = |\[(table|dataset|columns)|--[a-z]|`|«|»|in the policy\b")


@pytest.mark.parametrize("fault", list(Fault))
def test_a_cell_that_cannot_be_read(fault: Fault) -> None:
    """What to do about it is said of the fields."""
    said = in_form(fault.value)
    assert not NOT_OF_A_FORM.search(said)
    assert (
        fault in (Fault.THOUSANDS, Fault.DECIMAL, Fault.POINT, Fault.ENCODING) or "“" in said or "leave it out" in said
    )


def test_entries_become_fields_with_the_choice_that_is_meant() -> None:
    """Of two values both are told, lists and dots only name the field, and what has no field stays as it is."""
    assert in_form('give its column kind = "date" or "time", or set drop = true') == (
        "choose for its column “It holds: dates” or “It holds: dates with times, or times of the day”, or leave it out"
    )
    assert in_form('kind = "category" needs categories = ["...", "..."], public') == (
        "“It holds: words without an order” needs “The words that can occur”, public"
    )
    assert (
        in_form('set decimal = "," under [table] in the policy if')
        == "set “Decimal mark: a comma, as in 1,5” under “How the file is written” if"
    )
    assert in_form("set encoding under [table] in the policy") == (
        "set “Letters such as ä or é” under “How the file is written”"
    )
    assert in_form('give mechanism = "gaussian"') == 'give mechanism = "gaussian"'
    assert "pass" not in in_form(str(HeaderError("a.csv", "x")))
    assert not NOT_OF_A_FORM.search(in_form(str(HeaderError("a.csv", "x"))))
    assert not NOT_OF_A_FORM.search(in_form(_about_identifiers(["id"], "by name")))
    assert not NOT_OF_A_FORM.search(in_form(str(MissingValuesError("x"))))


def test_what_is_not_printable_is_escaped() -> None:
    """As in every sentence that quotes a table."""
    assert in_form("a\x1b[31mb") == "a\\x1b[31mb"


STATES = [
    {"column__1__range": "public", "column__1__low": "18", "column__1__high": "90"},
    {"column__3__kind": "category"},
    {"column__3__kind": "ordered", "column__3__levels": "north"},
    {
        "column__4__kind": "date",
        "column__4__range": "public",
        "column__4__low": "2020-01-01",
        "column__4__high": "2021",
    },
    {"column__3__kind": "category", "column__3__levels": "north\nsouth", "column__5__missing": "other"},
    {"column__2__kind": "integer", "column__2__range": "public", "column__2__low": "0", "column__2__high": "100"},
    {"column__2__max_change": "1"},
    {"privacy__unit": "change"},
    {"privacy__unit": "cell", "privacy__release": "covariance", "column__5__missing": "midpoint"},
    {"column__3__missing": "indicator"},
    {"privacy__mu": "0.001"},
    {"privacy__mu": "4000", "privacy__release": "rows"},
    {"dataset__license": "\0", "dataset__url": "x"},
]


@pytest.mark.parametrize("state", STATES, ids=lambda state: "-".join(state))
def test_nothing_that_the_desk_says_is_of_a_policy(survey: Path, state: dict[str, str]) -> None:  # noqa: F811
    """Whatever is chosen, all that stands in the way and all that is told is in the form's words."""
    answer = asked(desk_of(survey), **state)
    said = [each for of_field in answer.objections.values() for each in of_field]
    for sentence in map(in_form, [*said, *answer.refusals, *answer.remarks, *answer.shown, answer.choice]):
        assert not NOT_OF_A_FORM.search(sentence), sentence
