"""Workers read levels and ids as this process does."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.unit.publisher.release.conftest import Publish
from tests.unit.publisher.release.workers.conftest import N_ROWS, NUMBERED, owners, policy_for, published

from dp_bundle.base.errors import MissingValuesError
from dp_bundle.bundle.reading import open_bundle

FORMS = ["{}", "{} ", "0{}", "{}.0", " 00{}"]


def respell(source: Path, names: list[str]) -> None:
    """Write the table again with other ids."""
    table = pq.read_table(source)
    place = table.column_names.index("who")
    pq.write_table(table.set_column(place, "who", pa.array(names)), source, row_group_size=777)


def test_a_person_has_one_id_in_all_splits(source: Path, by_workers: Publish) -> None:
    """However it is spelled in each, and whatever bucket the spelling would be in."""
    spelled = [FORMS[place % 5].format(who) for place, who in enumerate(owners().tolist())]
    respell(source, spelled)
    policy = policy_for(NUMBERED, sigma=0.05, unit={"entity": "who", "max_rows": 7})
    receipt = by_workers(policy)
    rows, _ = published(receipt.path)
    there = Counter(owners().tolist())
    assert Counter(owners()[rows].tolist()) == {who: min(number, 7) for who, number in there.items()}
    assert receipt.report.n_entities == len(there)


def test_workers_read_folders_named_by_keys(source: Path, by_workers: Publish) -> None:
    """A column of the folders' names is there, and the files' own are found by name and in one type."""
    table, folder = pq.read_table(source), source.parent / "raw"
    for key in range(-(-N_ROWS // 64)):
        some = table.slice(64 * key, 64).drop_columns("n")
        if key % 2:
            some = some.set_column(0, "m", some["m"].cast(pa.int16())).select(some.column_names[::-1])
        (folder / f"n={key:02}").mkdir(parents=True)
        pq.write_table(some, folder / f"n={key:02}" / "0.parquet")
    receipt = by_workers(policy_for(NUMBERED, sigma=0.05), folder)
    rows, _ = published(receipt.path)
    assert rows.tolist() == [*range(N_ROWS)]


def test_a_row_of_nobody_is_refused(source: Path, by_workers: Publish) -> None:
    """A blank id in one split."""
    respell(source, [*owners().astype(str)[:-1].tolist(), " "])
    policy = policy_for(NUMBERED, sigma=0.05, unit={"entity": "who", "max_rows": 7})
    with pytest.raises(MissingValuesError):
        by_workers(policy)


def test_listed_words_for_gaps_are_levels(source: Path, by_workers: Publish) -> None:
    """Blanks around them or not."""
    table = pq.read_table(source)
    words = np.where(table["level"].to_numpy(zero_copy_only=False) == "a", "NA ", "None")
    pq.write_table(table.set_column(table.column_names.index("level"), "level", pa.array(words)), source)
    levels = {"level": {"kind": "ordered", "levels": ["NA", "None"], "missing": "drop"}}
    receipt = by_workers(policy_for(levels, sigma=0.05))
    with open_bundle(receipt.path) as bundle:
        found = np.concatenate([batch.column("level").to_numpy() for batch in bundle.batches()])
    assert len(found) == N_ROWS
    assert np.array_equal(np.rint(found) == 0, words == "NA ")
