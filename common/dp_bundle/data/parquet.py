"""Parquet members, whose rows, columns and pages are compared with the manifest before anything is decoded.

pyarrow parses the footer, which is as long as a release's can be, within limits for its lists and texts. It does not
show the headers of pages: each states how far its page unpacks (to 2 GiB at most), and a decoder trusts that. So pages
are followed from the first byte to the footer. Their headers are matched with the one form that our writer gives them.
None is larger than its values need, and each chunk holds the values of its row group. Then the decoder is given these
chunks alone, each at once, wherever the footer points to. What the footer says of a chunk is looked at after it was
decoded: before, pyarrow ends the process where it does not make sense.

References
----------
Apache Parquet format 2.10, parquet.thrift (PageHeader). Apache Thrift compact protocol,
doc/specs/thrift-compact-protocol.md.
"""

import contextlib
import io
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from dp_bundle.base.errors import BundleFormatError, DataError

MOST_CELLS_PER_BYTE = 64
GROUP_ROWS = 2**20  # of a labelled table
_MAGIC = b"PAR1"
_MAKER = re.compile(r"parquet-cpp-arrow version [0-9]{1,4}\.[0-9]{1,4}\.[0-9]{1,4}(-SNAPSHOT)?")
_PER_FILE, _PER_COLUMN, _PER_GROUP, _PER_CHUNK = 256, 64, 64, 256  # bytes of a footer, in addition to names
_CODECS = ("UNCOMPRESSED", "SNAPPY", "ZSTD")
_PLAIN, _INDICES, _SPLIT = 0, 8, 9  # encodings
_NUMBER = 8  # bytes of a value
_SLACK = 64  # bytes of a page that hold no value
_LEAST_VALUES = 8192  # of a page, with few exceptions
_LONGEST_HEADER = 128  # bytes
_LEAST_LISTS = 16  # entries of any list; most are of columns or row groups

_INT = rb"\x15([\x80-\xff]{0,4}[\x01-\x7f]|\x00)"  # the next field, a number of 32 bits in its shortest spelling
_PAGE = re.compile(  # its type, size, and stored size; then the number of values and their encoding
    rb"\x15(?:"
    rb"(?P<data>\x00)" + _INT + _INT + rb"\x2c" + _INT + _INT + rb"\x15\x06\x15\x06(?:\x1c\x00)?"  # levels by RLE
    rb"|\x04" + _INT + _INT + rb"\x4c" + _INT + _INT + rb"[\x11\x12]?"  # a dictionary, which may be sorted
    rb")\x00\x00"
)


@dataclass(frozen=True)
class FileShape:
    """The expected content of one of our files.

    Attributes
    ----------
    n_rows : int
        The most rows there may be.
    group_rows : int
        The rows of every row group; the last may have fewer.
    schema : pyarrow.Schema
        Names and types of its columns: numbers of 8 bytes, and text.
    labels : tuple of str
        The texts that may occur.
    """

    n_rows: int
    group_rows: int
    schema: pa.Schema
    labels: tuple[str, ...] = ()


class _Chunk(NamedTuple):
    """One column in one row group: its place, and its size before compression."""

    start: int
    stored: int
    size: int


class CheckedParquet:
    """A file that keeps to a shape, whose row groups are read; several threads may, each by a view of its own.

    Parameters
    ----------
    name : str
        The member, for messages.
    file : binary file
        Seekable.
    shape : FileShape
        What it holds.

    Attributes
    ----------
    n_rows : int
        The number of its rows.
    group_rows : list of int
        That of each row group.

    Raises
    ------
    BundleFormatError
        It is no Parquet, not of that shape, or could make a decoder do more than the shape allows.
    """

    def __init__(self, name: str, file: BinaryIO, shape: FileShape) -> None:
        self._name, self._columns = name, shape.schema.names
        with _in_our_words(name):
            n_bytes = file.seek(0, os.SEEK_END)
            end, most_groups = _footer_place(file, shape, n_bytes)
            most_entries = max(len(shape.schema) + 1, most_groups, _LEAST_LISTS)
            limits = {"thrift_string_size_limit": n_bytes - end, "thrift_container_size_limit": most_entries}
            file.seek(0)
            self._metadata = pq.ParquetFile(file, pre_buffer=False, **limits).metadata
            self.group_rows = _check_footer(self._metadata, shape, n_bytes)
            self._chunks = _follow_pages(file, end, shape, self._metadata)
        self.n_rows: int = self._metadata.num_rows

    def read(
        self, file: BinaryIO, group: int, most_rows: int, texts: list[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield a row group, so many rows at a time; the columns of texts are dictionaries then.

        Raises
        ------
        BundleFormatError
            As the class does.
        """
        with _in_our_words(self._name):
            whole = _WholeChunks(file, {chunk.start: chunk.stored for chunk in self._chunks[group]})
            parquet = pq.ParquetFile(whole, metadata=self._metadata, pre_buffer=False, read_dictionary=texts)
            yield from parquet.iter_batches(most_rows, row_groups=[group], use_threads=False)
            self._check_chunks(group)

    def check_chunks(self) -> None:
        """Check what the footer says of all columns, if it is known to make sense.

        Raises
        ------
        BundleFormatError
            It is not so.
        """
        with _in_our_words(self._name):
            for group in range(len(self.group_rows)):
                self._check_chunks(group)

    def _check_chunks(self, group: int) -> None:
        described, n_rows = self._metadata.row_group(group), self.group_rows[group]
        for index, (name, chunk) in enumerate(zip(self._columns, self._chunks[group], strict=True)):
            found = described.column(index)
            sizes = found.num_values, found.total_compressed_size, found.total_uncompressed_size
            further = found.is_stats_set or found.has_offset_index or found.has_column_index
            further = further or found.file_path or getattr(found, "bloom_filter_offset", None)
            if (
                found.path_in_schema != name
                or found.compression not in _CODECS
                or further
                or sizes != (n_rows, chunk.stored, chunk.size)
            ):
                raise BundleFormatError("has a column that is not stored as dp-publish stores it")


def check_written(file: BinaryIO, shape: FileShape) -> None:
    """Check that a file which was just written is one that readers accept.

    Raises
    ------
    DataError
        It is not: the installed pyarrow writes something that bundles do not have.
    """
    try:
        CheckedParquet("it", file, shape).check_chunks()
    except BundleFormatError as error:
        raise DataError(
            f"pyarrow {pa.__version__} wrote a file that no reader accepts ({error}): install another version"
        ) from error


def write_labelled(table: pa.Table, file: BinaryIO, texts: list[str], **settings: Any) -> None:
    """Write a table of which some columns are texts that occur again and again, and check what was written.

    Parameters
    ----------
    table : pyarrow.Table
        All of it.
    file : binary file
        New and empty.
    texts : list of str
        The columns of texts, which are stored by their place in a dictionary.
    **settings
        Further ones of `pyarrow.parquet.write_table`: how columns are encoded and compressed.
    """
    labels = tuple(dict.fromkeys(label for name in texts for label in table[name].unique().to_pylist()))
    pq.write_table(
        table,
        file,
        row_group_size=GROUP_ROWS,
        use_dictionary=texts,
        dictionary_pagesize_limit=sum(4 + len(label.encode()) for label in labels) + 2**20,
        write_statistics=False,
        store_schema=False,
        version="2.6",
        **settings,
    )
    check_written(file, FileShape(len(table), GROUP_ROWS, table.schema, labels))


@contextlib.contextmanager
def _in_our_words(name: str) -> Iterator[None]:
    """Turn errors of pyarrow into ours, and give those of this module their subject."""
    try:
        yield
    except BundleFormatError as error:
        raise BundleFormatError(f"{name} {error}") from error
    except (pa.ArrowException, OSError, ValueError) as error:  # a name that is no UTF-8 is a ValueError
        raise BundleFormatError(f"{name} is not readable as Parquet: ask the publisher for a sound bundle") from error


def _footer_place(file: BinaryIO, shape: FileShape, n_bytes: int) -> tuple[int, int]:
    """Return where the footer begins, and the most row groups that it may have."""
    start, end = _read_at(file, 0, len(_MAGIC)), _read_at(file, max(0, n_bytes - 8), 8)
    if n_bytes < len(start) + len(end) or start != _MAGIC or end[4:] != _MAGIC:
        raise BundleFormatError("is not readable as Parquet: ask the publisher for a sound bundle")

    n_columns, names = len(shape.schema), sum(len(name.encode()) for name in shape.schema.names)
    most_rows = min(shape.n_rows, MOST_CELLS_PER_BYTE * n_bytes // max(1, n_columns))
    most_groups = max(1, -(-most_rows // shape.group_rows))
    group = _PER_GROUP + n_columns * _PER_CHUNK + names
    longest = _PER_FILE + n_columns * _PER_COLUMN + names + most_groups * group
    length = int.from_bytes(end[:4], "little")
    if length > min(longest, n_bytes - len(start) - len(end)):
        raise BundleFormatError("has a footer larger than that of any release")
    return n_bytes - len(end) - length, most_groups


def _check_footer(metadata: pq.FileMetaData, shape: FileShape, n_bytes: int) -> list[int]:
    """Check all that a footer says but for the columns of row groups, and return the rows of these."""
    if metadata.format_version != "2.6" or metadata.metadata or not _MAKER.fullmatch(metadata.created_by):
        raise BundleFormatError("was not written by dp-publish")
    if not metadata.schema.to_arrow_schema().equals(shape.schema):
        raise BundleFormatError("does not have the columns that its manifest describes")
    if metadata.num_rows > shape.n_rows:
        raise BundleFormatError("has more rows than its manifest promises")
    if metadata.num_rows * len(shape.schema) > MOST_CELLS_PER_BYTE * n_bytes:
        raise BundleFormatError("has more values than noise leaves room for in so few bytes")

    groups = [metadata.row_group(index).num_rows for index in range(metadata.num_row_groups)]
    for rows in groups:
        if not 0 < rows <= shape.group_rows:
            raise BundleFormatError(f"has a row group of {rows} rows, where {shape.group_rows} are a full one")
    if any(rows < shape.group_rows for rows in groups[:-1]) or not groups:
        raise BundleFormatError("has a row group that is not full, before the last one")
    if sum(groups) != metadata.num_rows:
        raise BundleFormatError("has another number of rows than its row groups")
    return groups


def _follow_pages(file: BinaryIO, end: int, shape: FileShape, metadata: pq.FileMetaData) -> list[list[_Chunk]]:
    """Return the chunks of each row group, which lie end to end from the start of the file to the footer."""
    position, found = len(_MAGIC), list[list[_Chunk]]()
    for index in range(metadata.num_row_groups):
        group, chunks = metadata.row_group(index), list[_Chunk]()
        for kind in shape.schema.types:
            labels = shape.labels if kind == pa.string() else None
            chunks.append(_follow_chunk(file, position, end, group.num_rows, labels))
            position += chunks[-1].stored
        if group.total_byte_size != sum(chunk.size for chunk in chunks):
            raise BundleFormatError("has a row group that is not the sum of its columns")
        found.append(chunks)
    if position != end:
        raise BundleFormatError("has bytes that belong to no column")
    return found


class _Page(NamedTuple):
    is_data: bool
    size: int
    stored: int
    n_values: int
    encoding: int


def _follow_chunk(file: BinaryIO, start: int, end: int, n_rows: int, labels: tuple[str, ...] | None) -> _Chunk:
    """Return a chunk that holds a value for each row, of text if there are labels."""
    position, n_values, size, n_pages, has_dictionary = start, 0, 0, 0, False
    while n_values < n_rows:
        matched = _PAGE.match(_read_at(file, position, min(_LONGEST_HEADER, end - position)))
        if matched is None or n_pages > n_rows // _LEAST_VALUES + 2:
            raise BundleFormatError("has a page of a kind that no release has")
        numbers = [_unfold(each) for each in matched.groups()[1:] if each is not None]
        page = _Page(bool(matched["data"]), *numbers)
        position += matched.end() + page.stored
        size += matched.end() + page.size

        if page.is_data:
            sound = _is_data(page, has_dictionary=has_dictionary, is_text=labels is not None)
            n_values += page.n_values
        else:
            sound = n_pages == 0 and _is_dictionary(page, n_rows, labels)
            has_dictionary = True
        sound = sound and 0 < page.stored <= page.size + page.size // 6 + _SLACK
        if not sound or n_values > n_rows or position > end:
            raise BundleFormatError("has a page larger than its values need")
        n_pages += 1
    return _Chunk(start, position - start, size)


def _unfold(spelled: bytes) -> int:
    """Return the number that bytes of seven bits stand for, which is never negative."""
    value = sum((byte & 127) << 7 * index for index, byte in enumerate(spelled))
    if value & 1:
        raise BundleFormatError("has a header with a number out of range")
    return value >> 1


def _is_dictionary(page: _Page, n_rows: int, labels: tuple[str, ...] | None) -> bool:
    """Return True if a dictionary has no more entries than it can, and exactly their size."""
    if labels is not None:
        most_bytes = sum(4 + len(label.encode()) for label in labels)
        return page.encoding == _PLAIN and page.n_values <= len(labels) and page.size <= most_bytes
    return page.encoding == _PLAIN and page.n_values <= n_rows and page.size == page.n_values * _NUMBER


def _is_data(page: _Page, *, has_dictionary: bool, is_text: bool) -> bool:
    """Return True if values, or indices into a dictionary, take the space that they need."""
    if page.encoding == _INDICES:
        return has_dictionary and 0 < page.size <= page.n_values * _NUMBER + _SLACK
    return page.encoding in (_PLAIN, _SPLIT) and not is_text and 0 < page.size == page.n_values * _NUMBER


class _WholeChunks(io.RawIOBase):
    """A file of which nothing is read but whole chunks, each at once."""

    def __init__(self, file: BinaryIO, chunks: Mapping[int, int]) -> None:
        self._file, self._chunks = file, chunks

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the position in the file."""
        return self._file.tell()

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move in the file."""
        return self._file.seek(offset, whence)

    def read(self, size: int = -1) -> bytes:
        """Return a whole chunk.

        Raises
        ------
        BundleFormatError
            Something else is asked for.
        """
        position = self._file.tell()
        if self._chunks.get(position) != size:
            raise BundleFormatError("has a column that does not lie where its pages do")
        return _read_at(self._file, position, size)


def _read_at(file: BinaryIO, position: int, size: int) -> bytes:
    """Return so many bytes of a file, which may give fewer at once."""
    file.seek(position)
    content = b""
    while len(content) < size and (more := file.read(size - len(content))):
        content += more
    return content
