"""Columns that may say whose a row is, and the question that stops the first command where their values repeat."""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from tests.unit.publisher.conftest import Call

from dp_publish.data.table import open_table
from dp_publish.forecast.whose_rows import find_repeated
from dp_publish.ledger.ledger import Ledger
from dp_publish.policy.column_survey import named_like_a_person

N = 400
RNG = np.random.default_rng(2)
X = RNG.normal(size=N).round(2)


@pytest.mark.parametrize(
    ("name", "is_person"),
    [
        *((name, True) for name in ("person", "Patient-Nr.", "customerID", "id_cliente", "Kunde", "ménage", "pid")),
        *((name, True) for name in ("num_alumno", "hh_id", "患者番号", "Versichertennummer", "patients", "e-mail")),
        *((name, False) for name in ("household_size", "customer_age", "income", "ward", "n_users", "idea", "x")),
    ],
)
def test_people_are_known_by_name(name: str, is_person: bool) -> None:
    """In several languages, with or without a word for a number; not what is only about them."""
    assert named_like_a_person(name) is is_person


@pytest.mark.parametrize(
    ("columns", "found"),
    [
        pytest.param({"nr": np.arange(N) // 4, "x": X}, ["nr"], id="panel"),
        pytest.param({"who": [f"A{n:03}" for n in RNG.integers(0, 150, N)], "x": X}, ["who"], id="codes"),
        pytest.param({"subject": RNG.integers(0, 8, N), "x": X}, ["subject"], id="repeated measures"),
        pytest.param({"household": np.arange(N) // 3, "patient_id": np.arange(N)}, ["household"], id="households"),
        pytest.param({"patient_id": RNG.permutation(N), "x": X}, [], id="one row each"),
        pytest.param({"ward": RNG.choice(["A7", "B3"], N), "age": np.sort(RNG.integers(20, 90, N))}, [], id="sorted"),
        pytest.param({"is_a": RNG.integers(0, 2, N), "answer": RNG.integers(1, 6, N)}, [], id="survey"),
        pytest.param({"user": RNG.integers(0, 2, N), "note": [f"no {n % 300} of it" for n in range(N)]}, [], id="text"),
    ],
)
def test_values_that_repeat_are_found(columns: dict[str, object], found: list[str]) -> None:
    """By names, codes and equal numbers of rows; not where each row has its own, nor in measurements and levels."""
    table = open_table(pa.Table.from_pandas(pd.DataFrame(columns)))
    assert [*find_repeated(table, table.types)] == found


def test_a_person_with_several_rows_stops_the_first_command_with_a_question(call: Call) -> None:
    """Also where the column is dropped, and never once the policy or an option answers."""
    pd.DataFrame({"person": np.arange(N) // 4, "x": X, "y": X + RNG.normal(size=N)}).to_csv("visits.csv", index=False)
    Path("drop.toml").write_text("[columns.person]\ndrop = true\n")
    for words in ([], ["--policy", "drop.toml"]):
        stopped = call("visits.csv", *words)
        assert stopped.code == 2
        assert "Values of 'person' repeat" in stopped.err
        assert "--unit person --max-rows K" in stopped.err
        assert "at mu = 10 alone, where a guess at one of two is right in 99.999972 % of cases" in stopped.err
    assert Ledger().entries() == []
    assert "publishing asks who a person is" in call("plan", "visits.csv").err
    assert "a release would be refused: who is a person" in call("plan", "visits.csv", "--look").err
    assert "needs --max-rows" in call("visits.csv", "--unit", "person").err
    assert "--max-rows is for --unit COLUMN" in call("visits.csv", "--unit", "row", "--max-rows", 2).err

    assert call("visits.csv", "--unit", "row", "--out", "rows.tar").code == 0
    done = call("visits.csv", "--unit", "person", "--max-rows", 4, "--mu", 3, "--out", "people.tar")
    assert "“person”" in done.out
    assert Ledger().entities("visits") == {"person": 2}


@pytest.mark.data
@pytest.mark.parametrize(("name", "column"), [("person_column_4_rows_each.csv", "person"), ("rechnungen.csv", "Kunde")])
def test_tables_of_reports_ask_who_a_person_is(name: str, column: str, call: Call, data_folder: Path) -> None:
    """They were published row by row without a word."""
    stopped = call(data_folder.parent / "reports" / "default" / name)
    assert (stopped.code, f"Values of '{column}' repeat" in stopped.err) == (2, True)
