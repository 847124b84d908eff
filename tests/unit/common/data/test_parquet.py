"""The headers of pages: whatever they say, a file is refused or read as it was promised."""

import io

import numpy as np
import pyarrow.parquet as pq
import pytest
from tests.unit.common.data.test_rows import load, values, write

from dp_bundle.base.errors import BundleFormatError


def _sizes_in_headers(content: bytes) -> list[int]:
    """Return the places of the sizes before compression that take three bytes in the first page header of a chunk."""
    group = pq.read_metadata(io.BytesIO(content)).row_group(0)
    chunks = [group.column(index) for index in range(group.num_columns)]
    places = [3 + (chunk.dictionary_page_offset or chunk.data_page_offset) for chunk in chunks]
    return [place for place in places if content[place] >= 128 and content[place + 1] >= 128]


def test_pages_that_lie_about_their_size_are_refused() -> None:
    """A page that says that it grows beyond what its values need is refused before it does."""
    content = write([values(20_000)])[0].getvalue()
    places = _sizes_in_headers(content)
    assert len(places) >= 3
    for place in places:
        lying = bytearray(content)
        lying[place + 2] = 0x7F
        with pytest.raises(BundleFormatError, match="larger"):
            load([io.BytesIO(bytes(lying))], 20_000)


def test_every_byte_of_page_headers_may_be_wrong() -> None:
    """Whatever a header says, the file is refused or read as it was promised, and no other error comes up."""
    content = write([values(3000)])[0].getvalue()
    rng = np.random.default_rng(11)
    refused = 0
    for _ in range(300):
        changed = bytearray(content)
        for place in rng.integers(len(content), size=2):
            changed[place] = rng.integers(256)
        try:
            assert sum(batch.num_rows for batch in load([io.BytesIO(bytes(changed))], 3000)) == 3000
        except BundleFormatError:
            refused += 1
    assert refused > 30
