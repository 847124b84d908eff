"""Columns that may say whose a row is, and the question that stops the first command where their values repeat."""

import json
import re
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


def test_people_are_known_by_name() -> None:
    """In several languages, with or without a word for a number; not what is only about them."""
    people = "person Patient-Nr. customerID id_cliente Kunde ménage pid num_alumno hh_id 患者番号 员工编号 e-mail"
    others = "household_size customer_age income ward n_users idea x personal_income"
    assert [*filter(named_like_a_person, f"{people} {others}".split())] == people.split()


def test_values_that_repeat_are_found() -> None:
    """By names, codes, numbers far apart and equal numbers of rows; not in measures, flags, words and few kinds."""
    n = 1000
    repeat = {"nr": np.arange(n) // 4.0, "who": [f"B-AX {k:03}" for k in RNG.integers(0, 150, n)]}  # a panel, and codes
    repeat |= {"subject": RNG.integers(0, 8, n), "household": np.arange(n) // 3}
    repeat |= {"driver's": RNG.integers(40_001, 40_150, n), "diary": [f"{k % 60}MK" for k in RNG.integers(0, 900, n)]}
    repeat |= {"ref": RNG.choice(RNG.choice(9000, 150, replace=False) + 1000, n)}
    others = {"patient_id": RNG.permutation(n), "x": RNG.normal(size=n), "age": np.sort(RNG.integers(20, 90, n))}
    others |= {"user": RNG.integers(0, 2, n), "answer": RNG.integers(1, 6, n), "ward": RNG.choice(["A7", "B3"], n)}
    others |= {"note": [f"no {k % 300} of it" for k in range(n)], "icd10": [f"C{k % 60}" for k in range(n)]}
    others |= {"pay": RNG.integers(100, 300, n) * 100, "came": [f"{k % 24}:{k % 40 + 10}" for k in range(n)]}
    others |= {"Kunden": RNG.poisson(120, n), "elev": (pairs := np.arange(n) // 2) / 4, "pair": pairs}
    others |= {"PID": RNG.binomial(6, 0.3, n), "lb": (RNG.normal(120, 20, n).round() * 28.35).round()}
    others |= {"year": 1950 + np.arange(n) % 50, "month": [f"20{10 + k % 8}{k % 12 + 1:02}" for k in range(n)]}
    table = open_table(pa.Table.from_pandas(pd.DataFrame(repeat | others)))
    assert [*find_repeated(table, table.types)] == [*repeat]


def test_a_panel_is_found_whose_first_wave_fills_the_first_rows() -> None:
    """Whatever its persons are called, or where all those rows are one person's; a number of each row is none."""
    waves = {
        "child": np.arange(24_000) // 11_000,
        "pid": np.arange(24_000) % 12_000,
        "who": np.arange(24_000) % 12_000,
        "row": np.arange(24_000),
    }
    table = open_table(pa.table(waves | {"x": RNG.normal(size=24_000)}))
    assert [*find_repeated(table, table.types)] == ["child", "pid", "who"]


def test_a_person_with_several_rows_stops_the_first_command_with_a_question(call: Call) -> None:
    """Also where the column is dropped, and never once the policy or an option answers."""
    pd.DataFrame({"person": np.arange(N) // 4, "x": X, "y": X + RNG.normal(size=N)}).to_csv("visits.csv", index=False)
    Path("drop.toml").write_text("[columns.person]\ndrop = true\n")
    for said in (
        "Values of 'person' repeat",
        "--unit person --max-rows K",
        "at mu = 10. There, a guess at one of two is right in at most 99.999972 %",
    ):
        assert said in call("visits.csv", "--policy", "drop.toml").err
    assert "publishing asks who a person is" in call("plan", "visits.csv").err
    assert "a release would be refused: who is a person" in call("plan", "visits.csv", "--look").err
    assert "who is a person in this table? Values of 'person' repeat" in call("audit", "visits.csv").err

    assert "If words and gaps" not in call("visits.csv", "--unit", "row", "--out", "rows.tar").out
    done = call("visits.csv", "--unit", "person", "--max-rows", 4, "--mu", 3)
    assert "together with this one, they promise it nothing" in done.err
    assert Ledger().entities("visits") == {"person": 2}


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("person_column_4_rows_each.csv", ["Values of 'person' repeat"]),
        ("rechnungen.csv", ["Values of 'Kunde' repeat"]),
        (
            "clinic60.csv",
            ["at most 4 columns", "give a weaker guarantee, from about mu = 6.8", "at most 99.967 % of cases"],
        ),
    ],
)
def test_tables_of_reports_are_stopped_with_what_is_right(
    name: str, said: list[str], call: Call, data_folder: Path
) -> None:
    """Who a person is, and fewer columns before a weaker guarantee, which is said to be worth little."""
    stopped = call(data_folder.parent / "reports" / "default" / name)
    assert [*map(stopped.err.index, said)] == sorted(map(stopped.err.index, said))


@pytest.mark.data
def test_surveys_of_reports_are_published_as_they_are(call: Call, data_folder: Path) -> None:
    """Ordinal columns of a code book are one each, where levels were 138; of a survey, one frequent level is none."""
    folder = data_folder.parent / "reports" / "default"
    assert re.search(r"moments of (28|29|30) columns", call(folder / "bfi.sav").out)
    assert "'Clap'" in call(folder / "student_survey.csv").out.partition("(only one level has at least 2 %")[0]


def test_the_strength_is_found_at_which_links_are_seen(call: Call) -> None:
    """By the forecast, and not at a weaker strength than that takes."""
    pd.DataFrame(RNG.normal(size=(500, 4)), columns=[*"abcd"]).to_parquet("t.parquet")
    plan = json.loads(call("plan", "t.parquet", "--see", 0.3, "--json").out)
    seen = {row["mu"]: row["seen_in_moments"] for row in plan["forecast"]}
    assert seen[0.1] > 0.3 >= seen[plan["own_mu"]]
