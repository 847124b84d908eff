"""Text files as people have them: what the form asks of how they are written, and columns that follow from that."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.unit.publisher.cli.desk.test_answer import asked, desk_of

from dp_publish.cli.desk.session import Asked, Session


@pytest.fixture
def visits() -> pd.DataFrame:
    """Return visits of people who come several times, in towns with an umlaut."""
    rng, n = np.random.default_rng(5), 1500
    weight = rng.normal(70, 10, n).round(1)
    frame = pd.DataFrame({"patient": [f"P{number}" for number in rng.integers(0, 500, n)], "weight": weight})
    frame["height"] = (weight + rng.normal(100, 5, n)).round(1)
    frame["town"] = rng.choice(["Basel", "Lörrach"], n)
    return frame


def test_letters_of_another_encoding_are_objected_to_before_anything_is_paid(
    tmp_path: Path, visits: pd.DataFrame
) -> None:
    """The names alone do not tell it, the first rows do, and the field mends it; semicolons and commas are found."""
    data = tmp_path / "visits.csv"
    visits.to_csv(data, index=False, sep=";", decimal=",", encoding="latin-1")
    desk = desk_of(data)
    answer = asked(desk)
    assert [*answer.objections] == ["table-encoding"]
    assert "'town'" in answer.objections["table-encoding"][0]
    assert not answer.can_publish
    assert asked(desk, column__3__drop="yes", privacy__unit="row").can_publish  # where nobody reads it

    answer = asked(desk, table__encoding="cp1252")
    assert [*answer.objections] == ["privacy-unit"]  # who a person is
    assert asked(desk, table__encoding="cp1252", privacy__unit="row").can_publish
    assert 'encoding = "cp1252"' in answer.text
    assert desk.opened.seems["town"] == "words, 2 different: Basel, Lörrach"
    assert desk.opened.seems["weight"].startswith("numbers, from ")


def test_a_file_without_names_is_opened_and_the_first_line_is_asked_for(tmp_path: Path, visits: pd.DataFrame) -> None:
    """The desk opens without a column; once the first line is said to be a row, there are columns and a row more."""
    data = tmp_path / "visits.csv"
    visits.to_csv(data, index=False, header=False)
    session = Session(
        Asked(data, "visits", tmp_path / "visits.policy.toml", "publisher", str(tmp_path / "ledger.sqlite"))
    )
    answer = session.answer({})
    assert [*answer.objections] == ["table-header"]
    assert (answer.can_publish, session.desk.columns) == (False, [])
    answer = session.answer({"table-header": "none", "privacy-unit": "row"})
    assert answer.can_publish
    assert (session.desk.columns[3], session.desk.opened.n_rows) == ("column_4", 1500)
    session.close()


def test_what_was_said_of_columns_goes_with_a_reading_that_has_others(tmp_path: Path, visits: pd.DataFrame) -> None:
    """Fields go by a column's number, so that those of another reading would mean other columns."""
    data = tmp_path / "visits.csv"
    visits.to_csv(data, index=False)
    desk = desk_of(data)
    said = {"column-3-description": "where", "dataset-title": "Visits", "privacy-entity": "patient"}
    before = {**said, "reading": desk.reading, "table-delimiter": ""}
    assert desk.fit(before) == before
    kept = desk.fit({**before, "table-delimiter": ";"})
    assert {*kept} == {"dataset-title", "table-delimiter", "reading"}
    assert len(desk.columns) == 1
    assert desk.fit(kept) == kept
    late = desk.fit({**kept, "table-delimiter": "", "column-0-drop": "yes"})  # of a page that was not loaded again
    assert "column-0-drop" not in late
