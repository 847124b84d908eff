"""A release: what was promised is in it, and nothing else."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.unit.publisher.release.conftest import Publish, nothing_happened, private, rows_of

from dp_bundle.base.errors import (
    BudgetExceededError,
    DataError,
    DpGraphError,
    ParameterError,
    PolicyError,
)
from dp_bundle.bundle.reading import open_bundle
from dp_bundle.data import rows as parts
from dp_publish import Policy, Receipt
from dp_publish.ledger.ledger import Ledger
from dp_publish.release import preparing


def test_bundle_holds_the_clipped_table_plus_the_stated_noise(bundle: Receipt, table: pd.DataFrame) -> None:
    """Rows are in order, noise is centred with the stated variance, text is left out, and the file verifies."""
    frame = rows_of(bundle)

    assert (list(frame), [*bundle.left_out]) == (["height", "weight", "visits"], ["name"])
    assert len(frame) == bundle.release.n_rows == len(table)
    for column in bundle.release.columns:
        noise = frame[column.name] - table[column.name].clip(*column.bounds)
        assert abs(noise.mean()) < 5 * np.sqrt(column.noise.variance / len(table))
        assert noise.var() == pytest.approx(column.noise.variance, rel=0.4)
        steps = frame[column.name] / column.noise.granularity
        assert np.array_equal(steps, np.rint(steps))


def test_layout_of_the_source_does_not_show(
    tmp_path: Path, publish_here: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Row groups, schema and metadata are the same whatever the source's chunks, files, text lengths and metadata."""
    frame = pd.DataFrame({"x": np.linspace(0, 1, 3000), "secret": ["s" * (index // 10) for index in range(3000)]})
    (tmp_path / "folder").mkdir()
    for index, cut in enumerate(np.array_split(np.arange(3000), [17, 1001])):
        frame.iloc[cut].to_parquet(tmp_path / "folder" / f"{index}.parquet", index=False)
    frame.to_csv(tmp_path / "long.csv", index=False)
    frame.assign(secret="").to_csv(tmp_path / "short.csv", index=False)
    marked = pa.Table.from_pandas(frame).replace_schema_metadata({"secret": "s3cr3t"})
    chunks = pa.concat_tables([marked.slice(0, 5), marked.slice(5)])

    monkeypatch.setattr(parts, "batch_rows", lambda _: 700)
    monkeypatch.setattr(preparing, "batch_rows", lambda _: 700)
    monkeypatch.setattr("dp_publish.data.text_file._BLOCK", 4096)
    policy, layouts = private({"x": {"bounds": [0, 1]}, "secret": {"drop": True}}, mu=1.0), set()
    sources = [frame, chunks, *(tmp_path / name for name in ("folder", "long.csv", "short.csv"))]
    for index, source in enumerate(sources):
        with open_bundle(publish_here(source, policy, out=f"{index}.tar").path, allow_older=True) as opened:
            file = pq.ParquetFile(opened.open("data/part-00000.parquet"))
            groups = tuple(file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups))
            layouts.add((groups, file.schema_arrow.to_string(), file.metadata.metadata is None))
    assert layouts == {((700, 700, 700, 700, 200), "x: double not null", True)}


def test_impossible_releases_cost_nothing(tmp_path: Path, publish_here: Publish) -> None:
    """A missing folder, a table without rows, or with none left, a column without bounds and a budget are refused."""
    bounds = {"bounds": [0, 1]}
    policy, dropping = private({"x": bounds}, mu=1.0), private({"x": {**bounds, "missing": "drop"}}, mu=1.0)
    cases: list[tuple[list[Any], Policy, type[DpGraphError]]] = [
        ([], policy, DataError),
        ([np.nan, np.nan], dropping, DataError),
        (["0.5"], policy, PolicyError),
        ([0.5], private({"x": bounds}, mu=1.0, budget_mu=0.99), BudgetExceededError),
    ]
    for values, given, error in cases:
        with pytest.raises(error):
            publish_here(pd.DataFrame({"x": pd.Series(values, dtype=None if values else float)}), given)
    with pytest.raises(ParameterError):
        publish_here(out=tmp_path / "no" / "a.tar")
    assert nothing_happened(tmp_path, set())


def test_entities_are_capped_in_a_release(publish_here: Publish) -> None:
    """Only so many rows of an entity are published, its column is not, and every account is charged for."""
    frame = pd.DataFrame({"who": ["a"] * 50 + ["b"] * 2 + ["c"] * 9, "x": np.arange(61) / 61})
    policy = private({"x": {"bounds": [0, 1]}}, mu=1.0, unit={"entity": "who", "max_rows": 4}, budget_mu=1.4)
    receipt = publish_here(frame, policy)
    assert receipt.release.n_rows == len(rows_of(receipt)) == 10
    assert (receipt.report.n_over_cap, receipt.left_out) == (51, {"who": "the unit of privacy"})
    assert receipt.release.columns[0].noise.sigma == pytest.approx(2.0)
    assert Ledger().entries()[0].cost.mu == pytest.approx({"cell": 0.5, "row": 0.5, "entity:who": 1.0})
    with pytest.raises(BudgetExceededError):
        publish_here(frame, policy, out="b.tar", partition="later")
