"""Parquet members that a bad signer would write: bombs, and files that say two things, each made from an honest one.

Every maker returns a file whose other parts fit, so that nothing but the check that is meant can refuse it.
"""

import io
from collections.abc import Callable
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tests.fuzz.compact import BINARY, I32, I64, LIST, STRUCT, Fields, Values, read, write

from dp_bundle.data.rows import PartWriter, part_schema
from dp_bundle.manifest.columns import Column, Noise

COLUMN = Column.model_validate(
    {
        "name": "x",
        "kind": "continuous",
        "bounds": (0.0, 1e6),
        "bounds_obtained": "declared",
        "noise": Noise.rounded_gaussian(1.0, 2.0**-20),
    }
)
N_ROWS = 1000
FOOTER_GROUPS, GROUP_CHUNKS, CHUNK_ABOUT, FILE_ROWS = 4, 1, 3, 3  # fields of parquet.thrift
CODEC, SIZE, STORED, DATA_START, DICTIONARY_START, SIZES_KEPT = 4, 6, 7, 9, 11, 16
ZSTD = 6


def honest(n_rows: int = N_ROWS, columns: tuple[Column, ...] = (COLUMN,)) -> bytes:
    """Return a part as our writer writes it."""
    rng = np.random.default_rng(7)
    steps = [pa.array(rng.integers(0, 2**30, n_rows) * 2.0**-20) for _ in columns]
    file = io.BytesIO()
    with PartWriter(columns, lambda: file) as writer:
        writer.write(pa.RecordBatch.from_arrays(steps, schema=part_schema(columns)))
    return file.getvalue()


def split(content: bytes) -> tuple[bytes, Fields]:
    """Return what lies before the footer, and the footer."""
    length = int.from_bytes(content[-8:-4], "little")
    return content[: -8 - length], read(content, len(content) - 8 - length)[0]


def join(body: bytes, footer: Fields | bytes) -> bytes:
    """Return a file; the inverse of `split`."""
    written = footer if isinstance(footer, bytes) else write(footer)
    return body + written + len(written).to_bytes(4, "little") + b"PAR1"


def page(kind: int, size: int, content: bytes, own: Fields) -> bytes:
    """Return a page with its header."""
    header = Fields({1: (I32, kind), 2: (I32, size), 3: (I32, len(content))})
    header.put({0: 5, 2: 7}[kind], STRUCT, own)
    return write(header) + content


def values_of(n_values: int) -> Fields:
    """Return the header of a page of values."""
    return Fields({1: (I32, n_values), 2: (I32, 0), 3: (I32, 3), 4: (I32, 3), 5: (STRUCT, Fields())})


def one_column(*pages: bytes, codec: int = 0) -> bytes:
    """Return a file of one column with these pages, whose footer fits them."""
    _, footer = split(honest())
    about: Fields = footer.at(FOOTER_GROUPS, 0, GROUP_CHUNKS, 0, CHUNK_ABOUT)
    stored = sum(map(len, pages))
    about.update({2: (LIST, Values(I32, [3, 0])), CODEC: (I32, codec), SIZE: (I64, stored), STORED: (I64, stored)})
    about.put(DATA_START, I64, 4)
    footer.at(FOOTER_GROUPS, 0).update({2: (I64, stored), 6: (I64, stored)})
    del about[13]
    return join(b"PAR1" + b"".join(pages), footer)


def _plain(n_values: int) -> bytes:
    content = (np.arange(n_values) * 2.0**-20).tobytes()
    return page(0, len(content), content, values_of(n_values))


def _changed(change: Callable[[Fields], object]) -> bytes:
    body, footer = split(honest())
    change(footer)
    return join(body, footer)


def _chunk(footer: Fields) -> Fields:
    found: Fields = footer.at(FOOTER_GROUPS, 0, GROUP_CHUNKS, 0)
    return found


def _about(footer: Fields) -> Fields:
    found: Fields = _chunk(footer).at(CHUNK_ABOUT)
    return found


def _group_twice(footer: Fields) -> None:
    groups: Values = footer.at(FOOTER_GROUPS)
    groups.items.append(groups.items[0])
    footer.put(FILE_ROWS, I64, 2 * N_ROWS)


_LIMITS = Fields({number: (BINARY, np.float64(0.25).tobytes()) for number in (5, 6)})
FOOTERS: dict[str, Callable[[Fields], object]] = {
    "encrypted": lambda footer: _chunk(footer).put(8, STRUCT, Fields({1: (STRUCT, Fields())})),
    "histogram": lambda footer: _about(footer).put(SIZES_KEPT, STRUCT, Fields({2: (LIST, Values(I64, [1, 2]))})),
    "no_chunks": lambda footer: footer.at(FOOTER_GROUPS, 0, GROUP_CHUNKS).items.clear(),
    "no_metadata": lambda footer: _chunk(footer).pop(CHUNK_ABOUT),
    "no_groups": lambda footer: footer.at(FOOTER_GROUPS).items.clear(),
    "group_twice": _group_twice,
    "elsewhere": lambda footer: _chunk(footer).put(1, BINARY, b"/etc/passwd"),
    "lying_statistics": lambda footer: _about(footer).put(12, STRUCT, _LIMITS),
    "fewer_rows": lambda footer: footer.put(FILE_ROWS, I64, N_ROWS - 1),
    "page_index": lambda footer: _chunk(footer).update({4: (I64, 4), 5: (I32, 10), 6: (I64, 4), 7: (I32, 10)}),
    "bloom_filter": lambda footer: _about(footer).update({14: (I64, 4), 15: (I32, 10)}),
}


def _huge_footer() -> bytes:
    body, footer = split(honest())
    empty = Fields({2: (I64, 0)})
    group = Fields({1: (LIST, Values(STRUCT, [empty] * 60_000)), 2: (I64, 0), 3: (I64, 0)})
    footer.at(FOOTER_GROUPS).items.extend([group] * 4)
    return join(body, footer)


def _dictionary_behind_the_data() -> bytes:
    bomb = pa.Codec("zstd").compress(bytes(2**25), asbytes=True)
    hidden = page(0, 2**25, bomb, values_of(N_ROWS))
    shown = pa.Codec("zstd").compress(bytes(8 * N_ROWS), asbytes=True)
    seen = page(0, 8 * N_ROWS, shown, values_of(N_ROWS))
    content = one_column(hidden, seen, codec=ZSTD)
    body, footer = split(content)
    _about(footer).put(DICTIONARY_START, I64, 4 + len(hidden))
    _about(footer).put(STORED, I64, len(seen))
    footer.at(FOOTER_GROUPS, 0).put(6, I64, len(seen))
    return join(body, footer)


def _size_twice() -> bytes:
    bomb = pa.Codec("zstd").compress(bytes(2**25), asbytes=True)
    numbers = ((1, I32, 0), (2, I32, 2**25), (3, I32, len(bomb)), (2, I64, 8 * N_ROWS), (5, STRUCT, values_of(N_ROWS)))
    header = b"".join(bytes([kind]) + write(number, I32) + write(value, kind) for number, kind, value in numbers)
    return one_column(header + b"\0" + bomb, codec=ZSTD)


def _empty_pages() -> bytes:
    return one_column(page(0, 0, b"", values_of(0)) * 100_000, _plain(N_ROWS))


def _tiny_pages() -> bytes:
    return one_column(_plain(1) * N_ROWS)


def _page_of_other_kind() -> bytes:
    own = Fields({1: (I32, N_ROWS), 2: (I32, 0), 3: (I32, N_ROWS), 4: (I32, 0), 5: (I32, 0), 6: (I32, 0)})
    content = bytes(8 * N_ROWS)
    header = Fields({1: (I32, 3), 2: (I32, len(content)), 3: (I32, len(content)), 8: (STRUCT, own)})
    return one_column(write(header) + content)


PARTS: dict[str, Callable[[], bytes]] = {
    **{name: partial(_changed, change) for name, change in FOOTERS.items()},
    "huge_footer": _huge_footer,
    "dictionary_behind_the_data": _dictionary_behind_the_data,
    "size_twice": _size_twice,
    "empty_pages": _empty_pages,
    "tiny_pages": _tiny_pages,
    "page_of_other_kind": _page_of_other_kind,
    "stray_bytes": lambda: join(split(honest())[0] + bytes(10), split(honest())[1]),
}


def triangle_of_one_label(labels: list[str]) -> bytes:
    """Return a covariance whose every label is one long text, as large as a dictionary of all labels may be."""
    n_entries = len(labels) * (len(labels) + 1) // 2
    text = pa.array(["x" * (sum(4 + len(label.encode()) for label in labels) - 4)])
    names = pa.DictionaryArray.from_arrays(np.zeros(n_entries, dtype=np.int32), text)
    required = [pa.field(name, names.type, nullable=False) for name in ("row", "column")]
    schema = pa.schema([*required, pa.field("value", pa.float64(), nullable=False)])
    table, file = pa.table([names, names, np.arange(n_entries) * 2.0**-20], schema=schema), io.BytesIO()
    options = {"use_dictionary": ["row", "column"], "dictionary_pagesize_limit": 2**30, "store_schema": False}
    pq.write_table(table, file, write_statistics=False, row_group_size=2**20, version="2.6", **options)
    return file.getvalue()
