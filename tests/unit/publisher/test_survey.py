"""What is pointed out before anything is spent."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dp_publish.survey import named_like_an_identifier, point_out_names, survey
from dp_publish.table import ColumnType, Table, open_table

RNG = np.random.default_rng(4)


@pytest.mark.parametrize(
    "name",
    ["id", "ID", "patient_id", "PATIENT_ID", "customer.id", "order id", "customerId", "customerID", "uuid"],
)
def test_names_of_identifiers_are_known(name: str) -> None:
    """Spellings of identifiers in use are recognised."""
    assert named_like_an_identifier(name)
    assert named_like_an_identifier("user_uuid")
    assert named_like_an_identifier("Unnamed: 0")  # as pandas reads an index back
    assert named_like_an_identifier("")  # as pandas writes it


@pytest.mark.parametrize("name", ["acid", "grid", "humid", "PAID", "COVID", "idle", "identity", "id_card", "x", "t"])
def test_other_names_are_not(name: str) -> None:
    """Words that merely end or begin with the letters are left alone."""
    assert not named_like_an_identifier(name)
    assert point_out_names([name]) == []


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
    notes = survey(open_table(frame), kinds)
    assert len(notes) == 3
    assert "by name: 'patient_id'. Set drop = true" in notes[0]
    assert "all different in the first 500 rows: 'serial', 'written'. Set drop = true" in notes[1]
    assert "hardly varying in the first 500 rows: 'constant', 'rare', 'gaps'." in notes[2]
    assert all("\n" not in note for note in notes)


def test_few_rows_tell_nothing_by_their_values() -> None:
    """Ten different numbers are no sign of an identifier; a table without rows has nothing to tell."""
    frame = pd.DataFrame({"a": range(10), "b": 1})
    assert survey(open_table(frame), dict.fromkeys(frame, "integer")) == []
    assert survey(open_table(frame.iloc[:0]), dict.fromkeys(frame, "integer")) == []


def test_only_the_first_rows_are_read() -> None:
    """One batch is all that is asked of a table of any length, so that the look costs little."""

    def read(_kinds: dict[str, str], rows: int) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"a": np.arange(rows)})
        raise AssertionError("more was read")

    (note,) = survey(Table({"a": ColumnType.INTEGER}, read), {"a": "integer"})
    assert "all different in the first" in note


def test_bounds_that_clip_most_of_a_column_are_refused_before_anything_is_spent(
    tmp_path: Path, command: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    """Percent under bounds for shares, and 1 and 2 as truth values, are said by column; --anyway means it."""
    rng = np.random.default_rng(8)
    frame = pd.DataFrame({"x": rng.normal(50, 5, 5000), "y": rng.normal(0, 1, 5000), "z": rng.integers(1, 3, 5000)})
    frame.to_parquet(tmp_path / "pc.parquet")
    (tmp_path / "pc.policy.toml").write_text(
        '[privacy]\nunit = "row"\nmu = 3.0\nrelease = "covariance"\n'
        '[columns.x]\nbounds = [0, 1]\n[columns.y]\nbounds = [-4, 4]\n[columns.z]\nkind = "boolean"\n'
    )
    refused = command("dp-publish", "pc.parquet")
    assert refused.returncode == 2
    assert "100% of 'x' outside 0 to 1; " in refused.stderr
    assert "of 'z' outside 0 to 1 would be clipped" in refused.stderr
    assert not (tmp_path / "pc.bundle.tar").exists()
    assert "nothing has been published" in command("dp-publish", "ledger").stdout
    assert command("dp-publish", "pc.parquet", "--anyway").returncode == 0
