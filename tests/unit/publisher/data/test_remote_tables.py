"""Tables at a URI: read as the same files here would be, and one table or none."""

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.s3 import FaultyProxy
from tests.web import WebServer

from dp_bundle.base.errors import SchemaError, StoreError
from dp_bundle.files.opening import open_store
from dp_bundle.files.places import RemotePath, Store
from dp_publish.data.table import open_table

KINDS = {"b": "integer", "a": "continuous"}


@pytest.fixture(autouse=True)
def quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in the test's folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    """Write a table in three Parquet files of four row groups each, and as text."""
    rng = np.random.default_rng(4)
    folder = tmp_path / "raw"
    folder.mkdir()
    for index in range(3):
        table = pa.table({"a": rng.uniform(0, 1, 1000), "b": rng.integers(0, 9, 1000), "c": rng.uniform(0, 1, 1000)})
        pq.write_table(table, folder / f"{index}.parquet", row_group_size=250)
    text = "a,b\n" + "".join(f"{value},{index % 7}\n" for index, value in enumerate(rng.uniform(0, 1, 500)))
    (tmp_path / "t.csv").write_text(text)
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(text.encode()))
    return folder


@pytest.fixture
def bucket(raw: Path, s3: FaultyProxy) -> Store:
    """Put the same files into a bucket."""
    store = open_store(f"s3://{s3.bucket}")
    for path in [*raw.iterdir(), *raw.parent.glob("t.csv*")]:
        store.create(path.relative_to(raw.parent).as_posix(), path.read_bytes())
    return store


@pytest.fixture
def web(raw: Path) -> Iterator[WebServer]:
    """Serve the same files."""
    server = WebServer()
    server.serve_folder(raw.parent, "")
    yield server
    server.close()


def rows_of(source: Any) -> pa.Table:
    """Read a table, whole."""
    return pa.Table.from_batches(list(open_table(source).read(KINDS, 300)))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["raw", "raw/1.parquet", "t.csv", "t.csv.gz"])
def test_a_table_in_a_bucket_is_the_table_here(name: str, bucket: Store, s3: FaultyProxy, tmp_path: Path) -> None:
    """Folder, file, text and packed text are read alike, also by number, and also where requests fail."""
    expected = rows_of(tmp_path / name)
    s3.unavailable = s3.reset = s3.cut = 0.1
    assert rows_of(f"{bucket.uri}/{name}").equals(expected)
    assert open_table(RemotePath(f"{bucket.uri}/{name}")).count_rows() == open_table(tmp_path / name).count_rows()
    tables = [open_table(f"{bucket.uri}/{name}"), open_table(tmp_path / name)]
    assert (tables[0].stored is None) == (tables[1].stored is None)
    if tables[0].stored is not None:
        found = [pa.Table.from_batches(each.read(KINDS, 100, 120, 900)) for each in tables]
        assert found[0].equals(found[1])


def test_a_table_behind_a_web_server_is_read_with_its_query(web: WebServer, tmp_path: Path) -> None:
    """A signed link is followed, whatever it has behind its question mark."""
    assert rows_of(f"{web.url}/raw/1.parquet?key=secret").equals(rows_of(tmp_path / "raw" / "1.parquet"))
    with pytest.raises(StoreError, match="listed"):
        open_table(f"{web.url}/raw?key=secret")


def test_what_is_no_table_is_refused(bucket: Store) -> None:
    """A place without a table, one of two tables, and a file that is damaged or of a kind that is not read there."""
    for name in ("damaged.parquet", "raw/3.parquet"):
        bucket.create(name, b"PAR1 and nothing else")
    for name in ("nowhere", "nowhere/t.parquet", "t.arrow", "damaged.parquet", "raw"):
        with pytest.raises(SchemaError):
            open_table(f"{bucket.uri}/{name}")
