"""Sentences of the library at the form: they name fields and choices, and neither entries of a policy nor options."""

import re
from pathlib import Path

import pytest
from tests.unit.publisher.desk.test_answer import asked, desk_of, survey  # noqa: F401  a fixture

from dp_publish.desk.words import FIELDS, in_form

NOT_OF_A_FORM = re.compile(rf"\b({'|'.join(FIELDS)}|drop) = |\[(table|dataset|columns)|--[a-z]|`|«|»|in the policy\b")


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
