"""The page headers of a Parquet file, read before anything is decoded, which bounds the work of the decoder.

A page states how many values it holds and how large it is uncompressed, and a decoder trusts it; the footer states
neither. So every header is checked: the pages of a chunk lie end to end, hold the values of its row group, and none is
larger than its values need. No library gives access to these headers.

References
----------
Apache Parquet format 2.10, parquet.thrift (PageHeader).
"""

from __future__ import annotations

from collections import Counter
from typing import Any, BinaryIO, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from dp_bundle.base.errors import BundleFormatError, DataError
from dp_bundle.data.parquet_footer import BOOL, EMPTY, I32, Chunk, FileShape, Struct, read_footer, read_struct

_DATA, _DICTIONARY = 0, 2  # types of pages
_PLAIN, _LEVELS, _INDICES, _SPLIT = 0, 3, 8, 9  # encodings
_LONGEST_HEADER = 128  # bytes, in addition to labels
_NUMBER = 8  # bytes of a value
_SLACK = 64  # bytes of a page that hold no value
_LEAST_VALUES = 8192  # of a page, with few exceptions


class _Page(NamedTuple):
    kind: int
    encoding: int
    n_values: int
    size: int
    stored: int


def open_parquet(name: str, file: BinaryIO, shape: FileShape, **options: Any) -> pq.ParquetFile:
    """Return a Parquet file whose footer and page headers keep to a shape.

    Parameters
    ----------
    name : str
        The member, for messages.
    file : binary file
        Seekable.
    shape : Shape
        What it holds.
    **options
        Of `pyarrow.parquet.ParquetFile`.

    Raises
    ------
    BundleFormatError
        It is no Parquet, not of that shape, or could make a decoder do more than the shape allows.
    ArrowException, OSError, ValueError
        It is no Parquet for pyarrow.
    """
    try:
        check_headers(file, shape)
    except BundleFormatError as error:
        raise BundleFormatError(f"{name} {error}") from error
    file.seek(0)
    return pq.ParquetFile(file, **options)


def check_written(file: BinaryIO, shape: FileShape) -> None:
    """Check that a file which was just written is one that readers accept.

    Raises
    ------
    DataError
        It is not: the installed pyarrow writes something that bundles do not have.
    """
    try:
        check_headers(file, shape)
    except BundleFormatError as error:
        raise DataError(
            f"pyarrow {pa.__version__} wrote a file that no reader accepts (it {error}): install another version"
        ) from error


def check_headers(file: BinaryIO, shape: FileShape) -> None:
    """Check a file's footer and all page headers.

    Raises
    ------
    BundleFormatError
        They do not keep to the shape; the sentence lacks its subject, the file.
    """
    groups, form = read_footer(file, shape), _FORM
    for chunks in groups:
        for kind, chunk in zip(shape.schema.types, chunks, strict=True):
            _check_chunk(file, chunk, shape, form, is_text=kind == pa.string())


def _page(found: dict[int, Any]) -> _Page:
    """Return the content of a header, which must be of one page: of data, or of a dictionary."""
    place = {_DATA: 5, _DICTIONARY: 7}.get(found[1])
    if place is None or len(found) != 4 or place not in found:
        raise BundleFormatError("has a page of a kind that no release has")
    own = found[place]
    if place == 5 and not own[3] == own[4] == _LEVELS:
        raise BundleFormatError("has a page of a kind that no release has")
    return _Page(found[1], own[2], own[1], found[2], found[3])


_DATA_PAGE = Struct({1: I32, 2: I32, 3: I32, 4: I32, 5: EMPTY}, frozenset({1, 2, 3, 4}))
_DICTIONARY_PAGE = Struct({1: I32, 2: I32, 3: BOOL}, frozenset({1, 2}))
_FORM = Struct({1: I32, 2: I32, 3: I32, 5: _DATA_PAGE, 7: _DICTIONARY_PAGE}, frozenset({1, 2, 3}), _page)


def _check_chunk(file: BinaryIO, chunk: Chunk, shape: FileShape, form: Struct, *, is_text: bool) -> None:
    """Check the pages of one column in one row group."""
    position, end = chunk.start, chunk.start + chunk.stored
    most_pages, longest = chunk.n_values // _LEAST_VALUES + 3, _LONGEST_HEADER
    found: Counter[tuple[int, int]] = Counter()
    n_values = size = 0
    while position < end and found.total() < most_pages:
        file.seek(position)
        page, length = read_struct(file.read(longest), 0, form)
        following = position + length + page.stored
        if page.kind == _DICTIONARY:
            sound = position == chunk.start and following == chunk.data_start
            sound = sound and _is_dictionary(page, chunk, shape, is_text=is_text)
        else:
            sound = position >= chunk.data_start and _is_data(page, chunk, is_text=is_text)
            n_values += page.n_values
        largest = page.size + page.size // 6 + _SLACK if chunk.codec else page.size
        if not sound or not 0 < page.stored <= largest or n_values > chunk.n_values:
            raise BundleFormatError("has a page larger than its values need")
        found[page.kind, page.encoding] += 1
        size += length + page.size
        position = following

    used = frozenset({_LEVELS, *(encoding for _, encoding in found)})
    if (position, n_values, size, used) != (end, chunk.n_values, chunk.size, chunk.encodings):
        raise BundleFormatError("has a column whose pages do not hold the values of its rows")
    if chunk.pages is not None and chunk.pages != found:
        raise BundleFormatError("has a column with other pages than its footer says")


def _is_dictionary(page: _Page, chunk: Chunk, shape: FileShape, *, is_text: bool) -> bool:
    """Return True if a dictionary has no more entries than it can, and exactly their size."""
    if is_text:
        most_bytes = sum(4 + len(label.encode()) for label in shape.labels)
        return page.encoding == _PLAIN and page.n_values <= len(shape.labels) and page.size <= most_bytes
    return page.encoding == _PLAIN and page.n_values <= chunk.n_values and page.size == page.n_values * _NUMBER


def _is_data(page: _Page, chunk: Chunk, *, is_text: bool) -> bool:
    """Return True if values, or indices into a dictionary, take the space that they need."""
    if page.encoding == _INDICES:
        return chunk.start != chunk.data_start and 0 < page.size <= page.n_values * _NUMBER + _SLACK
    known = page.encoding in (_PLAIN, _SPLIT) and not is_text
    return known and 0 < page.size == page.n_values * _NUMBER
