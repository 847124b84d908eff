"""The cap on an entity's rows: never more, none too few, in order, and by chance alone."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dp_bundle.base.errors import MissingValuesError
from dp_bundle.manifest.sources import Source as Coded
from dp_publish.data import contribution_cap
from dp_publish.data.contribution_cap import EntityCap, count_entities, draw_quotas, find_kept, unpack_kept
from dp_publish.data.table import Source, coded, open_table


def kept(cap: EntityCap) -> list[Any]:
    """Return the values of the column x that one pass keeps."""
    return [value for batch in cap.read({"x": "integer"}) for value in batch.column(0).to_pylist()]


@settings(max_examples=80, deadline=None)
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


@pytest.mark.parametrize("rows_at_once", [1, 7, 100])
def test_no_content_lets_a_row_pass(rows_at_once: int) -> None:
    """Of 60 rows of an entity two are kept, whether they have gaps, the first level, the last, zeros or infinities."""
    cells: dict[str, list[Any]] = {
        "x": [None, float("nan"), 0.0, -float("inf"), 1.5],
        "sex": [None, "f", "m", "x", "f"],
    }
    for content in range(5):
        table = pa.table(
            {
                "x": pa.array([cells["x"][content]] * 60, pa.float64()),
                "sex": pa.array([cells["sex"][content]] * 60),
                "who": ["one", "other"] * 30,
            }
        )
        levels = Coded(name="sex", kind="category", columns=("sex=f", "sex=m", "sex=x"), levels=("f", "m", "x"))
        cap = EntityCap(coded(open_table(table), [levels]), "who", 2, rows_at_once)
        kinds = {"x": "continuous", "sex=f": "integer", "sex=m": "integer"}
        assert sum(batch.num_rows for batch in cap.read(kinds)) == 4
        if cap.ranges is not None:
            ranges = cap.ranges()
            assert sum(batch.num_rows for start in (0, 31) for batch in ranges.read(kinds, 9, start, start + 29)) <= 4


@pytest.mark.parametrize("at_once", [64, 1])
def test_which_rows_are_kept_is_uniformly_random(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every pair of an entity's five rows is kept equally often, by either way to draw, and the same in every pass."""
    monkeypatch.setattr(contribution_cap, "_MOST_AT_ONCE", at_once)
    who = ["a", "a", "b", "a", "a", "a"]
    table = open_table(pa.table({"x": range(6), "who": who}))
    caps = [EntityCap(table, "who", 2, 3) for _ in range(400)]
    pairs = Counter(tuple(row for row in kept(cap) if row != 2) for cap in caps)
    assert len(pairs) == 10
    assert stats.chisquare(list(pairs.values())).pvalue > 1e-4
    assert stats.chisquare([40 * (1 + 0.4 * (-1) ** index) for index in range(10)]).pvalue < 1e-4  # what it would see
    assert kept(caps[0]) == kept(caps[0])


@pytest.mark.parametrize("at_once", [64, 1])
def test_rows_are_drawn_through_all_splits(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of an entity with 1, 0, 3 and 8 rows in four splits, three rows in all are kept, each as often as any other."""
    monkeypatch.setattr(contribution_cap, "_MOST_AT_ONCE", at_once)
    splits = [pa.array(names) for names in (["a"], ["b", "b"], ["b", "a", "a", "a"], [*"aaaa", "b", *"aaaa"])]
    batches = [pa.record_batch({"who": names}) for names in splits]
    counts = [count_entities([batch], "who") for batch in batches]
    seen: Counter[int] = Counter()
    for _ in range(300):
        bits = [find_kept([batch], quota, "who") for batch, quota in zip(batches, draw_quotas(counts, 3), strict=True)]
        keep = [unpack_kept(each, 0, len(names)) for each, names in zip(bits, splits, strict=True)]
        who, all_kept = np.concatenate(splits), np.concatenate(keep)
        assert all_kept[who == "a"].sum() == 3
        assert all_kept[who == "b"].sum() == 3
        seen.update(np.flatnonzero(all_kept[who == "a"]).tolist())
    assert (
        stats.chisquare([seen[place] for place in range(12)]).pvalue > 1e-4
    )  # rougher than true, as 3 are drawn at once


@pytest.mark.parametrize(
    "who",
    [
        pa.array([1, 1, 2], pa.int64()),
        pa.array(["a", "a", "b"]).dictionary_encode(),
        pa.array([True, True, False]),
        pa.array([1.5, 1.5, 2.0]),
        pa.array([0, 0, 86400], pa.timestamp("s")),
    ],
)
def test_entities_may_be_of_any_type(who: pa.Array) -> None:
    """Numbers, categories, truth values and dates name entities as well as text does."""
    cap = EntityCap(open_table(pa.table({"x": [0, 1, 2], "who": who})), "who", 1, 10)
    assert cap.n_left_out == 1
    assert kept(cap) in ([0, 2], [1, 2])


def missing_sources(tmp_path: Any) -> list[Source]:
    """Return tables whose entity column has a gap, in each way a gap is written."""
    (tmp_path / "gap.csv").write_text("x,who\n1,a\n2,\n")
    floats = pa.table({"x": [1, 2], "who": pa.array([1.0, float("nan")])})
    pq.write_table(floats, tmp_path / "gap.parquet")
    return [
        pa.table({"x": [1, 2], "who": ["a", None]}),
        floats,
        pd.DataFrame({"x": [1, 2], "who": [1.0, np.nan]}),
        pd.DataFrame({"x": [1, 2], "who": ["a", None]}),
        tmp_path / "gap.csv",
        tmp_path / "gap.parquet",
    ]


@pytest.mark.parametrize("index", range(6))
def test_rows_without_an_entity_are_refused(index: int, tmp_path: Any) -> None:
    """A row that belongs to nobody cannot be counted towards anybody's cap, whether its gap is null, empty or NaN."""
    with pytest.raises(
        MissingValuesError, match="'who' says whose rows are protected together, and has rows without a value"
    ):
        EntityCap(open_table(missing_sources(tmp_path)[index]), "who", 1, 10)
