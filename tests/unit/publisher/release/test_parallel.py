"""Publication on several cores: the same bundle layout, fresh noise for every range of rows, all or nothing."""

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import stats
from tests.unit.publisher.release.conftest import Publish, nothing_happened, private, rows_of

from dp_bundle.base.errors import MissingValuesError, SchemaError
from dp_bundle.bundle.reading import open_bundle
from dp_bundle.data import rows as parts
from dp_publish import Policy, Receipt
from dp_publish.policy import memory
from dp_publish.release import parts as writing

N_ROWS = 10_050  # 34 parts of 300 rows, the last of 150
VALUES = np.arange(N_ROWS, dtype=float)  # by which every row is known


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make row groups of 100 rows and parts of three of them, and let there be four cores."""
    monkeypatch.setattr(parts, "batch_rows", lambda _: 100)
    monkeypatch.setattr(parts, "_PART_CELLS", 300)
    monkeypatch.setattr(memory, "count_cores", lambda: 4)


def policy_for(missing: str = "refuse") -> Policy:
    """Return a policy with little noise."""
    return private({"*": {"drop": True}, "x": {"bounds": [0, N_ROWS], "missing": missing, "drop": False}}, sigma=0.5)


def layout_of(receipt: Receipt) -> list[list[int]]:
    """Return the numbers of rows of all row groups of all parts."""
    with open_bundle(receipt.path) as opened:
        members = [pq.read_metadata(opened.open(name)) for name in opened.members if name.startswith("data/")]
    return [[each.row_group(group).num_rows for group in range(each.num_row_groups)] for each in members]


def write_table(path: Path, form: str) -> Any:
    """Return a source of the values, in pieces that parts do not follow."""
    table = pa.table({"x": VALUES})
    if form == "memory":
        return pa.concat_tables([table.slice(0, 17), table.slice(17, 5000), table.slice(5017)])
    if form == "arrow":
        with pa.ipc.new_file(path / "raw.arrow", table.schema) as writer:
            writer.write_table(table, max_chunksize=777)
        return path / "raw.arrow"
    if form == "one group":
        pq.write_table(table, path / "raw.parquet")
        return path / "raw.parquet"
    for index, cut in enumerate(np.array_split(np.arange(N_ROWS), 7)):
        file = path / "raw" / (f"k={index}/0.parquet" if form == "folders" else f"{index}.parquet")
        file.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table.take(cut), file, row_group_size=331)
    return path / "raw"


@pytest.mark.parametrize("form", ["memory", "arrow", "one group", "files", "folders"])
def test_every_row_is_published_once_in_its_place(
    form: str, tmp_path: Path, publish_here: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the source's pieces, rows are in their order, in the parts and row groups of one thread."""
    source = write_table(tmp_path, form)
    done: list[int] = []
    receipt = publish_here(source, policy_for(), out="many.tar", progress=done.append)
    monkeypatch.setattr(memory, "count_cores", lambda: 1)
    alone = publish_here(source, policy_for(), out="one.tar")

    assert np.abs(rows_of(receipt)["x"] - VALUES).max() < 5
    assert layout_of(receipt) == layout_of(alone) == [[100, 100, 100]] * 33 + [[100, 50]]
    assert done == sorted(done)
    assert (done[-1], receipt.report.n_rows) == (N_ROWS, N_ROWS)


def test_noise_of_ranges_is_independent(tmp_path: Path, publish_here: Publish) -> None:
    """In a table of their signs, row by row and for every shift of a row, no two parts go together."""
    policy = private({"x": {"bounds": [0, N_ROWS]}}, unit="row", mu=1.0)
    receipt = publish_here(write_table(tmp_path, "one group"), policy)

    signs = np.sign(rows_of(receipt)["x"].to_numpy() - VALUES)[:9900].reshape(33, 300)
    for shift in range(3):
        together = (signs[:, : 300 - shift] @ signs[:, shift:].T) ** 2 / (300 - shift)
        pairs = together[~np.eye(33, dtype=bool)]
        assert stats.chi2.sf(pairs.max(), 1) * len(pairs) > 1e-6
        assert stats.chi2.sf(np.triu(together, 1).sum(), 33 * 16) > 1e-6


def test_one_failing_thread_leaves_nothing_and_costs_nothing(tmp_path: Path, publish_here: Publish) -> None:
    """A gap in any range ends all of them: no file, no cost, no thread left; counts of all are added otherwise."""
    before, values = set(threading.enumerate()), VALUES.copy()
    values[::50], values[7::100] = np.nan, 1e9
    with pytest.raises(MissingValuesError, match="'x'") as caught:
        publish_here(pa.table({"x": values}), policy_for())
    assert "nothing is booked" in caught.value.__notes__[0]
    assert nothing_happened(tmp_path, set())
    assert set(threading.enumerate()) <= before
    report = publish_here(pa.table({"x": values}), policy_for("midpoint")).report
    assert (report.filled, report.clipped) == ({"x": 201}, {"x": 101})


def test_table_that_shrinks_is_refused(tmp_path: Path, publish_here: Publish, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer rows than were counted are an error of the data, not a shorter release."""
    path = tmp_path / "raw.parquet"
    pq.write_table(pa.table({"x": VALUES}), path, row_group_size=1000)
    plan = writing.plan_for_cores

    def shrink(*given: Any) -> list[writing.RowRange]:
        planned = plan(*given)
        pq.write_table(pa.table({"x": VALUES[:9000]}), path, row_group_size=900)
        return planned

    monkeypatch.setattr(writing, "plan_for_cores", shrink)
    with pytest.raises(SchemaError, match="changed"):
        publish_here(path, policy_for())
    assert nothing_happened(tmp_path, {path})
