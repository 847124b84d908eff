"""Sentences of the library at the form: they name fields and choices, and neither entries of a policy nor options."""

import re
from pathlib import Path

import pytest
from tests.unit.publisher.desk.test_answer import asked, desk_of, survey  # noqa: F401  a fixture

from dp_bundle.base.errors import HeaderError, MissingValuesError
from dp_publish.data.cells import Fault
from dp_publish.desk.words import FIELDS, in_form

NOT_OF_A_FORM = re.compile(rf"\b({'|'.join(FIELDS)}|drop) = |\[(table|dataset|columns)|--[a-z]|`|«|»|in the policy\b")


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
    assert in_form('give mechanism = "gaussian"') == 'give mechanism = "gaussian"'
    for said in (HeaderError("a.csv", "x"), MissingValuesError("x"), *(fault.value for fault in Fault)):
        assert not NOT_OF_A_FORM.search(in_form(str(said)))
    assert in_form("a\x1b[31mb") == "a\\x1b[31mb"


STATES = [
    {"column__1__range": "public", "column__1__low": "18", "column__1__high": "90"},
    {"column__3__kind": "ordered", "column__3__levels": "north"},
    {"column__3__kind": "category", "column__3__levels": "north\nsouth", "column__5__missing": "other"},
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
