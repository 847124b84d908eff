"""A release: what was promised is in it, and nothing else."""

from __future__ import annotations

import gc
from collections.abc import Callable
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
    MissingValuesError,
    ParameterError,
    PolicyError,
)
from dp_bundle.bundle.reading import open_bundle
from dp_bundle.data import rows as parts
from dp_bundle.trust.judging import UnsafeTrustAnyone
from dp_publish import Policy, Receipt
from dp_publish.ledger.ledger import Ledger
from dp_publish.release import preparing
from dp_publish.release import publishing as release
from dp_publish.sampling.keystream import insecure_keystream

Make = Callable[..., Policy]


def test_bundle_holds_the_clipped_table_plus_the_stated_noise(bundle: Receipt, table: pd.DataFrame) -> None:
    """Rows are in order, noise is centred with the stated variance, text is left out, and the file verifies."""
    frame = rows_of(bundle)

    assert list(frame) == ["height", "weight", "visits"]
    assert bundle.left_out == ("name",)
    assert len(frame) == bundle.release.n_rows == len(table)
    for column in bundle.release.columns:
        noise = frame[column.name] - table[column.name].clip(*column.bounds)
        assert abs(noise.mean()) < 5 * np.sqrt(column.noise.variance / len(table))
        assert noise.var() == pytest.approx(column.noise.variance, rel=0.4)
        steps = frame[column.name] / column.noise.granularity
        assert np.array_equal(steps, np.rint(steps))


def test_every_release_draws_its_own_noise(table: pd.DataFrame, policy: Policy, publish_here: Publish) -> None:
    """The same table published twice has independent noise, and the total cost of both in the second."""
    first = publish_here(table, policy, out="1.tar")
    second = publish_here(table, policy, out="2.tar")
    noise = [rows_of(receipt)["height"] - table["height"] for receipt in (first, second)]

    assert abs(np.corrcoef(noise)[0, 1]) < 0.25
    assert second.release.lineage.number == 2
    assert second.release.lineage.previous == first.manifest_sha256
    assert second.release.cumulative.releases == 2
    assert second.release.cumulative.rho == pytest.approx(2 * first.release.cumulative.rho, rel=1e-9)
    assert [entry.state for entry in Ledger().entries()] == ["published", "published"]


def test_missing_values_are_treated_as_the_policy_says(publish_here: Publish) -> None:
    """Dropped rows and filled cells are counted for the publisher, and only the row count shows outside."""
    frame = pd.DataFrame({"a": [0.5, None, 0.5, 0.5], "b": pd.array([1, 2, None, 4], dtype="Int64")})
    columns = {"a": {"bounds": [0, 1], "missing": "drop"}, "b": {"bounds": [0, 9], "missing": "midpoint"}}
    receipt = publish_here(frame, private(columns, mu=1.0))

    assert receipt.release.n_rows == len(rows_of(receipt)) == 3
    assert (receipt.report.n_dropped, receipt.report.filled) == (1, {"b": 1})
    assert [column.missing for column in receipt.release.columns] == ["drop", "midpoint"]


@pytest.mark.parametrize("missing", ["refuse", "drop"])
def test_parts_do_not_show_how_the_raw_table_is_cut(
    tmp_path: Path, publish_here: Publish, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    """The same rows in one file or in fifty make parts and row groups of the same numbers of rows."""
    monkeypatch.setattr(parts, "batch_rows", lambda _: 100)
    monkeypatch.setattr(parts, "_PART_CELLS", 300)
    values = np.random.default_rng(5).uniform(size=1000)
    if missing == "drop":
        values[::7] = np.nan
    policy = private({"x": {"bounds": [0, 1], "missing": missing}}, mu=1.0)

    found = []
    for n_files in (1, 50):
        folder = tmp_path / str(n_files)
        folder.mkdir()
        for index, rows in enumerate(np.array_split(values, n_files)):
            pq.write_table(pa.table({"x": rows}), folder / f"{index:02d}.parquet", row_group_size=33 * n_files)
        receipt = publish_here(folder, policy, out=f"{n_files}.tar")
        with open_bundle(receipt.path) as opened:
            members = [pq.read_metadata(opened.open(name)) for name in opened.members if name.startswith("data/")]
        found.append([[each.row_group(group).num_rows for group in range(each.num_row_groups)] for each in members])

    whole, rest = divmod(receipt.release.n_rows, 300)
    assert found[0] == found[1]
    assert [sum(groups) for groups in found[0]] == [300] * whole + [rest]


@pytest.fixture
def sources(tmp_path: Path) -> dict[str, Any]:
    """Return the same rows in sources of very different layout, beside secrets of very different length."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"x": rng.uniform(size=3000), "secret": ["s" * (index // 10) for index in range(3000)]})
    (tmp_path / "folder").mkdir()
    for index, cut in enumerate(np.array_split(np.arange(3000), [17, 1000, 1001])):
        frame.iloc[cut].to_parquet(tmp_path / "folder" / f"{index}.parquet", index=False)
    frame.to_csv(tmp_path / "long.csv", index=False)
    frame.assign(secret="").to_csv(tmp_path / "short.csv", index=False)
    frame.to_parquet(tmp_path / "groups.parquet", row_group_size=333)
    marked = pa.Table.from_pandas(frame).replace_schema_metadata({"secret": "s3cr3t"})
    chunks = pa.concat_tables([marked.slice(0, 5), marked.slice(5, 2000), marked.slice(2005)])
    return {
        "frame": frame,
        "chunks": chunks,
        "folder": tmp_path / "folder",
        "long": tmp_path / "long.csv",
        "short": tmp_path / "short.csv",
        "groups": tmp_path / "groups.parquet",
    }


def test_layout_of_the_source_does_not_show(
    sources: dict[str, Any], one_column: Policy, tmp_path: Path, publish_here: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Row groups, schema and metadata are the same whatever the source's chunks, files, text lengths and metadata."""
    monkeypatch.setattr(parts, "batch_rows", lambda _: 700)
    monkeypatch.setattr(preparing, "batch_rows", lambda _: 700)
    monkeypatch.setattr("dp_publish.data.text_file._BLOCK", 4096)
    secret = one_column.columns["x"].model_copy(update={"bounds": None, "drop": True})
    policy = one_column.model_copy(update={"columns": {**one_column.columns, "secret": secret}})
    layouts = set()
    for name, source in sources.items():
        receipt = publish_here(source, policy, out=f"{name}.tar", ledger=Ledger(tmp_path / name / "l"))
        with open_bundle(receipt.path, UnsafeTrustAnyone()) as opened:
            file = pq.ParquetFile(opened.open("data/part-00000.parquet"))
            groups = tuple(file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups))
            layouts.add((groups, file.schema_arrow.to_string(), file.metadata.metadata is None))
            assert receipt.release.cumulative.releases == 1
    assert layouts == {((700, 700, 700, 700, 200), "x: double not null", True)}


def test_manifest_does_not_depend_on_private_values(tmp_path: Path, publish_here: Publish) -> None:
    """Two tables with the same columns and row count, otherwise as different as can be, get equal manifests."""
    low, high = pd.DataFrame({"x": np.zeros(500)}), pd.DataFrame({"x": np.full(500, np.inf)})
    found = []
    for index, frame in enumerate((low, high)):
        ledger = Ledger(tmp_path / f"{index}.sqlite")
        receipt = publish_here(frame, out=f"{index}.tar", ledger=ledger)
        document = receipt.release.model_dump(exclude={"lineage": {"created", "ledger_head"}})
        found.append(document)
        assert receipt.report.clipped == ({} if index == 0 else {"x": 500})
    assert found[0] == found[1]


def test_outputs_of_neighbours_differ_by_the_sensitivity_at_most(
    publish_here: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the same random bits, replacing one row changes one output value, by at most the declared width."""
    monkeypatch.setattr(release, "SecureKeystream", lambda: insecure_keystream(5))
    frames = [pd.DataFrame({"x": [0.3, 0.4, value, 0.6]}) for value in (0.5, 1e300)]
    first, second = (rows_of(publish_here(frame, out=f"{index}.tar"))["x"] for index, frame in enumerate(frames))
    assert (first != second).tolist() == [False, False, True, False]
    assert abs(first - second).max() <= 1


def test_impossible_releases_cost_nothing(tmp_path: Path, publish_here: Publish) -> None:
    """A missing folder, a table without rows, or with none left, a column without bounds and a budget are refused."""
    bounds = {"bounds": [0, 1]}
    policy, dropping = private({"x": bounds}, mu=1.0), private({"x": {**bounds, "missing": "drop"}}, mu=1.0)
    cases: list[tuple[list[Any], Policy, type[DpGraphError], str]] = [
        ([], policy, DataError, "no rows"),
        ([np.nan, np.nan], dropping, DataError, "no rows"),
        (["0.5"], policy, PolicyError, "x"),
        ([0.5], private({"y": bounds}, mu=1.0), PolicyError, "y"),
        ([0.5], private({"x": bounds}, mu=1.0, budget_mu=0.99), BudgetExceededError, "budget"),
    ]
    for values, given, error, said in cases:
        with pytest.raises(error, match=said):
            publish_here(pd.DataFrame({"x": pd.Series(values, dtype=None if values else float)}), given)
    with pytest.raises(ParameterError):
        publish_here(out=tmp_path / "no" / "a.tar")
    assert nothing_happened(tmp_path, set())


def test_no_raw_value_is_in_the_file(publish_here: Publish) -> None:
    """Neither the bytes of a raw number nor those of a text column are in the bundle."""
    raw = 0.123456789123
    frame = pd.DataFrame({"x": np.full(50, raw), "secret_name": pd.array(["s3cr3t-text"] * 50, "string")})
    content = publish_here(frame).path.read_bytes()
    for secret in (np.float64(raw).tobytes(), str(raw).encode(), b"s3cr3t-text", b"secret_name"):
        assert secret not in content


def test_failed_releases_fall_silent(publish_here: Publish, monkeypatch: pytest.MonkeyPatch) -> None:
    """A half-written part that is let go of prints nothing on stderr when it is collected."""
    complaints: list[object] = []
    monkeypatch.setattr("sys.unraisablehook", lambda unraisable: complaints.append(unraisable.exc_value))
    monkeypatch.setattr(parts, "batch_rows", lambda _: 10)
    values = np.full(1000, 0.5)
    values[-1] = np.nan
    monkeypatch.setattr(preparing, "batch_rows", lambda _: 10)
    with pytest.raises(MissingValuesError):
        publish_here(pd.DataFrame({"x": values}))
    gc.collect()
    assert complaints == []


def test_every_batch_gets_noise_of_its_own(publish_here: Publish) -> None:
    """A constant column in four batches comes out with the stated noise in each, and no two batches alike."""
    batches = [pa.table({"x": np.full(500, 0.5)}) for _ in range(4)]
    receipt = publish_here(pa.concat_tables(batches))
    noise = rows_of(receipt)["x"].to_numpy().reshape(4, 500) - 0.5
    sigma = receipt.release.columns[0].cell_noise.sigma
    assert (abs(noise.std(axis=1) / sigma - 1) < 5 / np.sqrt(2 * 500)).all()
    assert (abs(np.corrcoef(noise)[np.triu_indices(4, 1)]) < 5 / np.sqrt(500)).all()


def test_entities_are_capped_in_a_release(publish_here: Publish) -> None:
    """Only so many rows of an entity are published, its column is not, and every account is charged for."""
    frame = pd.DataFrame({"who": ["a"] * 50 + ["b"] * 2 + ["c"] * 9, "x": np.arange(61) / 61})
    policy = private({"x": {"bounds": [0, 1]}}, mu=1.0, unit={"entity": "who", "max_rows": 4}, budget_mu=1.4)
    receipt = publish_here(frame, policy)
    guarantee = receipt.release.guarantee

    assert receipt.release.n_rows == len(rows_of(receipt)) == 10
    assert (receipt.report.n_over_cap, receipt.left_out) == (51, ("who",))
    assert (guarantee.entity, guarantee.max_rows) == ("who", 4)
    assert receipt.release.columns[0].noise.sigma == pytest.approx(2.0)
    (entry,) = Ledger().entries()
    assert entry.cost.mu == {name: pytest.approx(mu) for name, mu in (("cell", 0.5), ("row", 0.5), ("entity:who", 1.0))}
    assert b"who" not in b"".join(receipt.path.read_bytes().split(b"manifest")[:1])
    with pytest.raises(BudgetExceededError):
        publish_here(frame, policy, out="b.tar", partition="later")


def test_column_of_entities_is_never_published(tmp_path: Path, publish_here: Publish) -> None:
    """After a release per entity, the column that names the entities is left out of releases in other units, too."""
    frame = pd.DataFrame({"who": np.arange(60) // 3, "x": np.arange(60) / 60})
    bounds = {"bounds": [0, 1]}
    whole = private({"x": bounds}, mu=1.0, unit={"entity": "who", "max_rows": 3}, budget_mu=1.5)
    publish_here(frame, whole)
    rows = private({"x": bounds}, mu=0.1)
    with pytest.raises(BudgetExceededError, match="budget per entity:who"):
        publish_here(frame, rows, out="b.tar")

    other = Ledger(tmp_path / "other.sqlite")
    free = whole.model_copy(update={"privacy": whole.privacy.model_copy(update={"budget_mu": None})})
    publish_here(frame, free, out="c.tar", ledger=other)
    receipt = publish_here(frame, rows, out="d.tar", ledger=other)
    assert [column.name for column in receipt.release.columns] == ["x"]
    assert (receipt.left_out, receipt.withheld) == (("who",), ("who",))
    named = private({"x": bounds, "who": {"bounds": [0, 20]}}, mu=0.1)
    with pytest.raises(PolicyError, match="not published: 'who'"):
        publish_here(frame, named, out="e.tar", ledger=other)
