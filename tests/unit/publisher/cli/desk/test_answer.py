"""What the desk says of its form: what the commands would, beside the field that it is about, and nothing is booked."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.conftest import Run

from dp_publish.cli.desk.answer import Answer, Desk
from dp_publish.cli.desk.document import new_policy
from dp_publish.cli.desk.words import FIELDS, in_form
from dp_publish.ledger.ledger import Ledger


@pytest.fixture
def survey(tmp_path: Path) -> Path:
    """Return a table of words, dates, gaps, an id, and numbers that go together."""
    rng, n = np.random.default_rng(3), 3000
    score = rng.normal(50, 10, n).round(1)
    frame = pd.DataFrame({"id": np.arange(n), "age": rng.integers(18, 90, n), "score": score})
    frame["region"] = rng.choice(["north", "south", "west"], n)
    frame["visit"] = (pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), "D")).strftime("%d.%m.%Y")
    frame["twice"] = (2 * score + rng.normal(0, 5, n)).round(2)
    frame.loc[rng.random(n) < 0.1, "twice"] = np.nan
    path = tmp_path / "survey.csv"
    frame.to_csv(path, index=False)
    return path


def desk_of(data: Path, text: str = "") -> Desk:
    """Return a desk with a ledger in the test's folder."""
    return Desk(data, data.stem, text or new_policy(data.name, data.stem), Ledger(data.with_name("ledger.sqlite")))


def asked(desk: Desk, **fields: str) -> Answer:
    """Return what is said of fields; a double underscore stands for a dash."""
    return desk.answer({name.replace("__", "-"): said for name, said in fields.items()})


def test_an_open_table_needs_no_decision(survey: Path, command: Run) -> None:
    """The choice is the command's own, with its promise; ids are left out, and looking books nothing.

    While it is not said whose a row is, or how strongly, nothing is promised, and not what was chosen before.
    """
    answer = asked(desk_of(survey))
    assert answer.can_publish
    assert answer.left_out == {"id": "by its name an identifier"}
    planned = command("dp-publish", "plan", survey.name)
    assert answer.choice.rstrip(".").lower() in " ".join(planned.stdout.split()).lower()
    assert answer.promise["right"] == pytest.approx(0.6914624612740131)
    assert not survey.with_name("ledger.sqlite").exists()
    for sent in ({"privacy__unit": "entity"}, {"privacy__mu": ""}, {"privacy__budget_mu": "much"}):
        answer = asked(desk_of(survey), **sent)
        assert (answer.promise, answer.held, answer.can_publish) == (None, "", False)


def test_every_objection_is_beside_its_field(survey: Path) -> None:
    """Once something is declared, words and dates of undeclared columns are named in their own words, all at once."""
    answer = asked(desk_of(survey), column__1__range="public", column__1__low="18", column__1__high="90")
    assert {*answer.objections} == {"column-3-kind", "column-4-kind"}
    assert "'region'" in answer.objections["column-3-kind"][0]
    assert "'visit'" not in answer.objections["column-3-kind"][0]
    assert '"%d.%m.%Y"' in answer.objections["column-4-kind"][0]
    assert "are not looked for" in answer.choice

    declared = asked(desk_of(survey), column__3__kind="category", dataset__license="\0", privacy__budget_mu="-1")
    assert {*declared.objections} == {"column-3-levels", "dataset-license", "privacy-budget_mu"}
    assert not declared.can_publish


def test_words_in_a_column_s_name_lead_to_no_other_field(tmp_path: Path) -> None:
    """A sentence stands beside the field that its error is about, whatever words the names in it have."""
    names = ["information", "mother", "bounds_sales", "max_change", "is a date", "levels missing", "noise"]
    data = tmp_path / "names.parquet"
    pd.DataFrame({**dict.fromkeys(names, ["a", "b"] * 50), "x": np.arange(100.0)}).to_parquet(data)
    desk = desk_of(data)
    answer = asked(desk, **{f"column__{number}__kind": "duration" for number in range(7)})
    assert {*answer.objections} == {f"column-{number}-kind" for number in range(7)}
    sent = {f"column__{number}__kind": "category" for number in range(7)}
    sent |= {f"column__{number}__levels": "a\nb" for number in range(7)} | {"column__0__missing": "indicator"}
    assert {*asked(desk, **sent).objections} == {"column-0-missing"}
    assert {*asked(desk, **{**sent, "column__0__missing": ""}, privacy__unit="change").objections} == {"privacy-unit"}


def test_a_budget_forbids_beside_the_budget(survey: Path, command: Run) -> None:
    """What the ledger would refuse is objected to, with what is spent."""
    Path("survey.policy.toml").write_text("[privacy]\nmu = 1.0\nbudget_mu = 1.2\n")
    assert command("dp-publish", survey.name, "--ledger", "ledger.sqlite").returncode == 0
    desk = desk_of(survey, Path("survey.policy.toml").read_text())
    answer = asked(desk)
    assert [*answer.objections] == ["privacy-budget_mu"]
    assert "more than the budget" in answer.objections["privacy-budget_mu"][0]
    assert asked(desk, privacy__mu="0.6").can_publish


def test_another_table_than_was_opened_is_told(survey: Path) -> None:
    """A file that changes while the desk is open stands in the way."""
    desk = desk_of(survey)
    assert asked(desk).can_publish
    survey.write_text(survey.read_text().replace("north", "south"))
    answer = asked(desk)
    assert "changed" in answer.objections[""][0]


def test_too_few_rows_are_refused_unless_she_insists(tmp_path: Path) -> None:
    """A release that shows nothing is no objection that nothing can mend, but one that she may pass over."""
    data = tmp_path / "few.parquet"
    pd.DataFrame(np.random.default_rng(0).normal(size=(12, 4)), columns=[*"abcd"]).to_parquet(data)
    desk = desk_of(data)
    answer = asked(desk)
    assert answer.refusals
    assert "show" in answer.refusals[0]
    assert not answer.objections
    assert not asked(desk, anyway="yes").refusals


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
def test_nothing_that_the_desk_says_is_of_a_policy(survey: Path, state: dict[str, str]) -> None:
    """Whatever is chosen, all that stands in the way and all that is told is in the form's words."""
    answer = asked(desk_of(survey), **state)
    said = [each for of_field in answer.objections.values() for each in of_field]
    for sentence in map(in_form, [*said, *answer.refusals, *answer.remarks, *answer.shown, answer.choice]):
        assert not NOT_OF_A_FORM.search(sentence), sentence
