"""The data members: any tool reads what was written, and their layout tells nothing of the source."""

import io
from collections.abc import Iterable
from functools import partial

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dp_bundle.base.errors import BundleFormatError, DataError
from dp_bundle.data import rows as parts
from dp_bundle.data.rows import PartWriter, find_groups, group_rows, part_rows, part_schema
from dp_bundle.manifest.columns import Column, Noise

FINE = Noise.rounded_gaussian(1.0, 2**-8)


def column(name: str, kind: str = "continuous", high: float = 10.0, noise: Noise | None = None) -> Column:
    """Return a column from 0 to `high`."""
    noise = noise or (Noise.discrete_gaussian(2.0) if kind == "integer" else FINE)
    return Column.model_validate(
        {"name": name, "kind": kind, "bounds": (0.0, high), "bounds_obtained": "declared", "noise": noise}
    )


# the first is dictionary-encoded, the second too wide for that, the third has no bounds at all
COLUMNS = (
    column("narrow"),
    column("wide", high=1e6),
    Column(name="free.form", kind="continuous", bounds=None, bounds_obtained="none", noise=FINE),
    column("counts", "integer"),
    column("large", "integer", high=2.0**50),
)


def values(rows: int, seed: int = 1) -> pa.RecordBatch:
    """Return noisy values for those columns."""
    rng = np.random.default_rng(seed)
    arrays = [
        rng.integers(-500, 3000, rows) * 2.0**-8,
        rng.integers(0, 2**30, rows) * 2.0**-8,
        rng.normal(0, 1e12, rows),
        rng.integers(-9, 20, rows),
        rng.integers(-(2**50), 2**50, rows),
    ]
    return pa.RecordBatch.from_arrays([pa.array(array) for array in arrays], schema=part_schema(COLUMNS))


def write(batches: Iterable[pa.RecordBatch], columns: tuple[Column, ...] = COLUMNS) -> list[io.BytesIO]:
    """Write batches into parts in memory."""
    writer = PartWriter(columns, io.BytesIO)
    for batch in batches:
        writer.write(batch)
    writer.close()
    return writer.parts  # type: ignore[return-value]


def load(files: list[io.BytesIO], n_rows: int, columns: tuple[Column, ...] = COLUMNS) -> list[pa.RecordBatch]:
    """Read parts back."""
    parts = [(f"part {index}", partial(io.BytesIO, file.getvalue())) for index, file in enumerate(files)]
    return [group.read() for group in find_groups(parts, columns, n_rows)]


@pytest.fixture
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make row groups of 100 rows."""
    monkeypatch.setattr(parts, "batch_rows", lambda _: 100)


def test_plain_tools_read_what_was_written() -> None:
    """Pandas, pyarrow and our reader see the very values, bit by bit, with their types."""
    batch = values(5000)
    (file,) = write([batch])

    assert pa.Table.from_batches(load([file], 5000)).equals(pa.Table.from_batches([batch]))
    assert pq.read_table(file).equals(pa.Table.from_batches([batch]))
    pd.testing.assert_frame_equal(pd.read_parquet(file), batch.to_pandas())


@pytest.mark.usefixtures("_small")
def test_reading_and_writing_stay_within_one_group() -> None:
    """Batches come back no larger than a row group, and no more than one group waits to be written."""
    file = io.BytesIO()
    writer = PartWriter(COLUMNS, lambda: file)
    sizes = []
    for seed in range(40):
        writer.write(values(50, seed))
        sizes.append(file.tell())
    writer.close()

    assert sizes[-1] > 10 * sizes[1] > 0
    assert {batch.num_rows for batch in load([file], 2000)} == {100}


def test_parts_are_of_equal_size_and_few() -> None:
    """A part has whole row groups and about eight million cells; far on it is larger, but holds less than a GiB."""
    for n_columns in (1, 3, 10, 1000, 20_000):
        rows = [part_rows(n_columns, index) for index in (0, 1023, 1024, 10**6)]
        assert rows[0] == rows[1] <= rows[2] < rows[3]
        assert all(number % group_rows(n_columns) == 0 for number in rows)
        assert 8 * rows[3] * n_columns <= 2**30
        assert 2**22 < rows[0] * n_columns <= max(2**23, group_rows(n_columns) * n_columns)


@pytest.mark.usefixtures("_small")
def test_the_cuts_of_parts_do_not_depend_on_the_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same rows in one batch or in fifty make the same parts, byte by byte, which are read one after the other."""
    monkeypatch.setattr(parts, "_PART_CELLS", 300 * len(COLUMNS))
    whole = values(1000)
    files = write([whole])
    assert pa.Table.from_batches(load(files, 1000)).equals(pa.Table.from_batches([whole]))
    expected = [file.getvalue() for file in files]
    pieces = [file.getvalue() for file in write(whole.slice(start, 20) for start in range(0, 1000, 20))]

    assert [pq.read_metadata(io.BytesIO(content)).num_rows for content in expected] == [300, 300, 300, 100]
    assert pieces == expected


def test_empty_batches_write_nothing() -> None:
    """Batches without rows, such as those of which all were dropped, make no part."""
    assert write([values(0), values(0)]) == []
    with pytest.raises(BundleFormatError, match="0 rows"):
        load([], 1)


def test_noise_too_weak_to_tell_values_apart_is_refused_where_it_would_make_a_bomb() -> None:
    """Narrow columns with hardly any noise are written out, and what is all the same in spite of that is refused."""
    weak = Noise.discrete_gaussian(0.1)
    narrow, wide = (column("x", "integer", high, weak) for high in (1.0, 1000.0))
    zeros = pa.RecordBatch.from_arrays([pa.array(np.zeros(2**18, int))], schema=parts.part_schema([narrow]))
    files = write([zeros], (narrow,))
    assert sum(batch.num_rows for batch in load(files, 2**18, (narrow,))) == 2**18
    with pytest.raises(DataError, match="nearly"):
        write([zeros], (wide,))


@pytest.mark.usefixtures("_small")
def test_row_groups_are_the_batches_in_any_order() -> None:
    """Each group holds the rows of its place, whichever is read first, and the last is followed by a count of all."""
    whole = values(730)
    (file,) = write([whole])
    content = file.getvalue()
    groups = list(find_groups([("part", lambda: io.BytesIO(content))], COLUMNS, 730))

    assert [(group.start, group.n_rows) for group in groups] == [(at, min(100, 730 - at)) for at in range(0, 730, 100)]
    for group in reversed(groups):
        assert group.read().equals(whole.slice(group.start, group.n_rows))
    with pytest.raises(BundleFormatError, match="manifest"):
        list(find_groups([("part", lambda: io.BytesIO(content))], COLUMNS, 731))


def test_bad_row_groups_are_refused_when_they_are_read() -> None:
    """Bytes that do not decode are an error of the bundle."""
    content = bytearray(write([values(3000)])[0].getvalue())
    (group,) = find_groups([("part", lambda: io.BytesIO(content))], COLUMNS, 3000)
    content[60:400] = bytes(340)
    with pytest.raises(BundleFormatError, match="readable"):
        group.read()
