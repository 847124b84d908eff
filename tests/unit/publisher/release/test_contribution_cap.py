"""The cap on an entity's rows: never more, none too few, in order, and by chance alone."""

import datetime
import math
from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dp_bundle.base.errors import MissingValuesError
from dp_publish.data.dialect import Dialect
from dp_publish.data.table import open_table
from dp_publish.release.contribution_cap import EntityCap


def kept(cap: EntityCap) -> list[Any]:
    """Return the values of the column x that one pass keeps."""
    return [value for batch in cap.table.read({"x": "integer"}, 3) for value in batch.column(0).to_pylist()]


@settings(max_examples=80)
@given(
    names=st.lists(st.sampled_from(["a", "b", "c", "d e", "00", "\u2603"]), max_size=40),
    max_rows=st.integers(1, 8),
    rows_at_once=st.integers(1, 50),
)
def test_every_entity_keeps_as_many_rows_as_it_may(names: list[str], max_rows: int, rows_at_once: int) -> None:
    """The smaller of its number and the cap, in the table's order, whatever the batches, in every pass."""
    table = pa.table({"x": pa.array(range(len(names)), pa.int64()), "who": pa.array(names, pa.string())})
    cap = EntityCap(open_table(table), "who", max_rows, rows_at_once)
    for _ in range(2):
        rows = kept(cap)
        assert rows == sorted(set(rows))
        wanted = {name: min(number, max_rows) for name, number in Counter(names).items()}
        assert Counter(names[row] for row in rows) == wanted
        assert cap.n_left_out == len(names) - len(rows)
    middle = len(names) // 2
    halves = [cap.table.read({"x": "integer"}, rows_at_once, *ends) for ends in ((0, middle), (middle, len(names)))]
    assert [value for half in halves for batch in half for value in batch.column(0).to_pylist()] == rows


@pytest.mark.slow
@pytest.mark.parametrize("rows_at_once", [1, 3, 6])
def test_which_rows_are_kept_is_uniformly_random(rows_at_once: int) -> None:
    """Every pair of an entity's five rows is kept equally often, in whichever batches, and the same in every pass."""
    who = ["a", "a", "b", "a", "a", "a"]
    table = open_table(pa.table({"x": range(6), "who": who}))
    caps = [EntityCap(table, "who", 2, rows_at_once) for _ in range(400)]
    pairs = Counter(tuple(row for row in kept(cap) if row != 2) for cap in caps)
    assert len(pairs) == 10
    assert stats.chisquare(list(pairs.values())).pvalue > 1e-4
    assert stats.chisquare([40 * (1 + 0.4 * (-1) ** index) for index in range(10)]).pvalue < 1e-4  # what it would see
    assert kept(caps[0]) == kept(caps[0])


ONE_PERSON = ["100", "100 ", " 100", "0100", "000100", "+100", "100.0", "100.", "0100.00", "1e2", "1E+02", "100,0"]


ONE_PERSON += ["\u00a0100", "100\t", "\u200b100", "\uff11\uff10\uff10", "1E+002", "+.1e+3", "10000.0e-2", "100.e00"]


OTHERS = ["1000", "10", "-100", "100.5", "A100", "a100", "100 1", "0x100", "1,100", "e100"]


def rows_of(names: Any) -> list[int]:
    """Return the rows that are kept of a table of ids with a cap of one, as many as there are people."""
    table = pd.DataFrame if isinstance(names, pd.Series) else pa.table
    cap = EntityCap(open_table(table({"who": names, "x": range(len(names))})), "who", 1, 3)
    rows = kept(cap)
    assert (cap.n_entities, cap.n_left_out) == (len(rows), len(names) - len(rows))
    return rows


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1e25", "10000000000000000000000000"),
        ("-12.5e30", f"-0125{'0' * 29}.0"),
        *(("100", other) for other in ONE_PERSON),
        ("0", "-0e-7"),
        ("0", "0e99999999999999999999"),
        ("9007199254740993", "9007199254740993e0"),
        ("1e99999999999", "10e99999999998"),
        ("1e99999999999999999999", "10e99999999999999999998"),
    ],
)
def test_spellings_of_an_id_are_one_person(one: str, other: str) -> None:
    """Blanks around it, zeros before a whole number or behind its point, and the exponent, are no part of it."""
    assert len(rows_of(pa.array([one, other]))) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        *(("100", other) for other in OTHERS),
        ("9007199254740992", "9007199254740993e0"),
        ("1e20", "100000000000000000001"),
        ("-1e30", "1e30"),
        ("e20", "1e20"),
    ],
)
def test_other_numbers_are_other_people(one: str, other: str) -> None:
    """Nobody is taken for another person by rounding, or for an id that only looks alike."""
    assert rows_of(pa.array([one, other])) == [0, 1]


@pytest.mark.parametrize(
    ("values", "n_people"),
    [
        (pa.array([7.0, 7.0, 8.0, -0.0, 0.0]), 3),
        (pa.array([2**63, 2**63, 1], pa.uint64()), 2),
        (pa.array(["Jos\u00e9", "Jose\u0301 "]), 1),
        (pd.Series([100, "100", 100.0, "0100 "], dtype=object), 1),
        (pa.array(["07", "7", "7 "], pa.string_view()), 1),
        (pa.array([datetime.date(2026, 1, 1)] * 2), 1),
        (pa.array([b"7", b"\xc8\xff", b"\xc8\xff", b"\xc9\xff", "\u00e9".encode()]), 4),
    ],
    ids=lambda value: str(getattr(value, "type", value)),
)
def test_ids_of_every_type_are_told_apart_by_one_rule(values: pa.Array, n_people: int) -> None:
    """Numbers, dictionaries and text."""
    assert len(rows_of(values)) == n_people


@pytest.mark.parametrize("word", ["", "  ", "NA", "null ", "-", None, math.nan, "-999.0"])
def test_a_row_without_an_id_is_refused(word: str | float | None, tmp_path: Path) -> None:
    """Blanks and words for gaps, of the policy too, name nobody; nor does a line of a text file without cells."""
    gap = word if word is None or isinstance(word, str) else None
    (tmp_path / "t.csv").write_text(f"who,x\n7,1\n\n{gap or ''},2\nNA,3\n")
    with pytest.raises(MissingValuesError, match="line 3"):
        EntityCap(open_table(tmp_path / "t.csv", Dialect(missing_values=("-999",))), "who", 1, 3)
    if word == "-999.0":
        return
    names = pa.array([7.0, word]) if isinstance(word, float) else pa.array(["7", word], pa.string())
    table = pa.table({"who": names, "x": [1, 2]})
    pq.write_table(table, tmp_path / "t.parquet")
    for each in (table, table.to_pandas(), tmp_path / "t.parquet"):
        with pytest.raises(MissingValuesError, match="'who'"):
            EntityCap(open_table(each), "who", 1, 3)
