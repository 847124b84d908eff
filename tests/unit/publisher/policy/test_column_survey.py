"""What is pointed out before anything is spent."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from tests.conftest import Run, policy_with

from dp_publish.data.kinds import ColumnType
from dp_publish.data.table import Table, open_table
from dp_publish.ledger.ledger import Ledger
from dp_publish.policy.column_survey import (
    find_codes,
    glance,
    named_like_an_identifier,
    point_out_names,
    survey_columns,
)

RNG = np.random.default_rng(4)


def notes_on(table: Table, kinds: dict[str, str]) -> list[str]:
    """Return what is said of a table of which the policy says nothing."""
    return survey_columns(glance(table, kinds), policy_with({}, mu=1.0), kinds)


@pytest.mark.parametrize(
    "name",
    [
        "ID",
        "PATIENT_ID",
        "customer.id",
        "order id",
        "customerId",
        "customerID",
        "user_uuid",
        "Case Nr.",
        "PatientenNr",
        "id_cliente",
        "ssn",
        "",
        "Unnamed: 0",
    ],
)
def test_names_of_identifiers_are_known(name: str) -> None:
    """Spellings of identifiers in use are recognised, and so are those of an index as pandas writes and reads it."""
    assert named_like_an_identifier(name)


def test_other_names_are_not() -> None:
    """Words that merely end or begin with the letters are left alone."""
    names = "grid PAID COVID idle identity id_card x visits_no num_child"
    assert point_out_names(names.split()) == []


def test_identifiers_and_constants_are_pointed_out_once_each() -> None:
    """Distinct whole numbers, names of identifiers and columns that hardly vary get one sentence each, and a remedy."""
    n_rows = 500
    frame = pd.DataFrame(
        {
            "patient_id": RNG.permutation(n_rows) // 3,
            "serial": RNG.permutation(n_rows),
            "written": RNG.permutation(n_rows).astype(float),
            "constant": 1,
            "rare": np.arange(n_rows) == 7,
            "count": RNG.poisson(5, n_rows),
            "score": RNG.normal(size=n_rows),
            "gaps": np.where(np.arange(n_rows) % 3 == 0, 2.0, np.nan),
        }
    )
    kinds = {name: "integer" if frame[name].dtype.kind in "ib" else "continuous" for name in frame}
    notes = notes_on(open_table(frame), kinds)
    for names, note in zip(("'patient_id'", "'serial', 'written'", "'constant', 'rare', 'gaps'"), notes, strict=True):
        assert f": {names}." in note


def test_only_the_first_rows_are_read() -> None:
    """One batch is all that is asked of a table of any length, so that the look costs little."""

    def read(_kinds: dict[str, str], rows: int) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"a": np.arange(rows)})
        raise AssertionError("more was read")

    (note,) = notes_on(Table({"a": ColumnType.INTEGER}, read), {"a": "integer"})
    assert "all different in the first" in note


@pytest.mark.parametrize(
    ("values", "bounds", "codes"),
    [
        ([*range(20, 90), -999, -999], (0.0, 120.0), {-999.0: 2}),
        ([*range(0, 90_000, 100), -999], None, {-999.0: 1}),
        ([-700, *range(0, 90_000, 100), -999], None, {}),
        ([1, 2, 3, 4, 5, 77, 88, 99, 99], None, {77.0: 1, 88.0: 1, 99.0: 2}),
        ([*np.linspace(-20, 35, 50), -99.9, 999.9], None, {-99.9: 1, 999.9: 1}),
        ([1, 2, 3, 4, 5, 9, 9], (1.0, 5.0), {9.0: 2}),
        ([1, 2, 3, 4, 5, 9, 9], None, {}),
        ([1, 2, 3, 4, 5, 6, 9, 9], (1.0, 5.0), {}),
        ([*range(100), 99], None, {}),
        ([99.0, 99.0], None, {}),
        ([], None, {}),
    ],
)
def test_codes_for_missing_values_are_recognised(
    values: list[float], bounds: tuple[float, float] | None, codes: dict[float, int]
) -> None:
    """Nines, eights and sevens far from all else, and single digits alone outside of the bounds; values are not."""
    assert find_codes(np.sort(np.array(values, dtype=float)), bounds) == codes


def test_suspicious_columns_that_nobody_declared_are_refused(tmp_path: Path, command: Run) -> None:
    """Identifiers and constants are refused beside declared bounds, and named where nothing is declared."""
    n_rows = 30_000
    frame = pd.DataFrame({"patient_id": RNG.permutation(n_rows), "serial": RNG.permutation(n_rows), "same": 1.5})
    frame.assign(x=RNG.normal(size=n_rows)).to_parquet(tmp_path / "a.parquet")
    named = command("dp-publish", "a.parquet", "--mu", "20")
    assert named.returncode == 0
    assert "columns without two different values in the first 10,000 rows: 'same'." in named.stderr
    assert "patient_id" not in named.stdout.split("left out")[0]

    (tmp_path / "a.policy.toml").write_text("[privacy]\nmu = 20\n[columns.x]\nbounds = [-4, 4]\n")
    refused = command("dp-publish", "a.parquet")
    assert refused.returncode == 2
    assert "'patient_id', 'serial', 'same'; set drop = true" in refused.stderr
    assert len(Ledger().entries()) == 1


def test_a_plan_that_looks_tells_codes(tmp_path: Path, command: Run) -> None:
    """Zeros before whole numbers would be lost, unless the column is left out."""
    rows = [f"{RNG.integers(100, 99_999):05},{RNG.normal():.2f}\n" for _ in range(300)]
    (tmp_path / "a.csv").write_text("".join(["plz,x\n01067,0\n", *rows]))
    for section, said in (("bounds = [0, 100000]", True), ("drop = true", False)):
        (tmp_path / "a.policy.toml").write_text(f"[columns.x]\nbounds = [-5, 5]\n[columns.plz]\n{section}\n")
        looked = command("dp-publish", "plan", "a.csv", "--look").stderr
        assert ("begin with zeros, as codes of places do, in the first rows: 'plz'." in looked) == said
