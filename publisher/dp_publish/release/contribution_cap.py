"""A cap on the rows of every entity: those beyond it are left out at random.

One pass counts the rows of each entity. A second one draws, of those that have too many, the rows that are kept: a
simple random sample without replacement. They are noted as a bit for each row of the table, and all other passes read
by these bits. Which rows are kept depends on nothing but the entities' names and chance.

An id is read without blanks around it, and with composed letters as one. If it is a whole number, it is read without
zeros before it or behind its point, a plus sign or an exponent: "0100", "100 ", "100.0" and 1e2 are one person, in text
as in numbers. Two ids that are taken for one can only leave out more rows. One person who passed for two could have
twice the rows that the guarantee allows.
"""

import decimal
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dp_bundle.base.errors import MissingValuesError
from dp_publish.data.cells import is_gap, trim
from dp_publish.data.row_ranges import BLOCK, RawBatches, spread
from dp_publish.data.table import Lines, Table

NAME, N_ROWS = "entity", "n_rows"  # the columns of counts
_ZERO = r"^[+-]?(?:0+,00?|(?:0+\.?0*|\.0+)(?:[eE][+-]?\d+)?)$"
_WHOLE = r"^\+?(-?)0*(\d+)(?:\.0*|,00?)?$"  # three zeros behind a comma are thousands
_SHORT = r"^[+-]?(?:\.\d+|(?:\d+\.?\d*|\.\d+)[eE][+-]?\d+|\d{20,}0)$"  # with an exponent, or better with one
_EXACT = decimal.Context(decimal.MAX_PREC, Emin=decimal.MIN_EMIN, Emax=decimal.MAX_EMAX)
_MOST_ZEROS = 20  # that are spelled at the end of an id; more are an exponent
_SUMMED = 64  # batches of counts that are added up at a time
_MOST_DRAWN_FROM = 10**9 - 1  # rows of an entity, by numpy


def identify(names: pa.Array) -> pa.Array:
    """Return ids, which are text, each in its one spelling."""
    spelled = names.dictionary_encode()
    return _plain(spelled.dictionary).take(spelled.indices)


def count_entities(
    batches: Iterable[pa.RecordBatch], entity: str, missing: Sequence[str] = (), lines: Lines | None = None
) -> pa.Table:
    """Return the number of rows of every entity, in the columns `NAME` and `N_ROWS`; it is private.

    Parameters
    ----------
    batches : iterable of RecordBatch
        Their first column says whose row it is, as text.
    entity : str
        That column, for messages.
    missing : sequence of str
        Words that name nobody, besides the usual ones for gaps.
    lines : callable, optional
        As of a `Table`.

    Raises
    ------
    MissingValuesError
        A row is nobody's.
    """
    counts, n_before = [pa.table({NAME: pa.array([], pa.string()), N_ROWS: pa.array([], pa.int64())})], 0
    for batch in batches:
        ids = identify(batch.column(0))
        names, n_rows = pc.value_counts(ids).flatten()
        nobody = names.filter(pc.or_kleene(pc.is_null(names), is_gap(names, missing)))
        if len(nobody):
            row = n_before + pc.index(pc.is_in(ids, value_set=nobody), True).as_py()
            raise MissingValuesError(entity, names_entities=True, line=lines and lines([row]).get(row))
        counts.append(pa.table({NAME: names, N_ROWS: n_rows}))
        counts, n_before = [_summed(counts)] if len(counts) > _SUMMED else counts, n_before + batch.num_rows
    return _summed(counts)


def _summed(counts: Sequence[pa.Table]) -> pa.Table:
    summed = pa.concat_tables(counts).group_by(NAME).aggregate([(N_ROWS, "sum")])
    return summed.rename_columns([NAME, N_ROWS]).combine_chunks()


def find_kept(batches: Iterable[pa.RecordBatch], counts: pa.Table, max_rows: int) -> bytes:
    """Return which rows are kept, as bits: all, or `max_rows` at random, of every entity; it is private.

    Of the rows that an entity has in a batch, so many are kept as a hypergeometric draw tells, whichever they are. Rows
    that were not counted are left out, so that no entity ever has more than `max_rows`.

    Parameters
    ----------
    batches : iterable of RecordBatch
        All rows; their first column says whose each is, as text.
    counts : Table
        As `count_entities` gives it.
    max_rows : int
        How many rows are kept of an entity.
    """
    crowded = counts.filter(pc.greater(counts.column(N_ROWS), max_rows))
    names, upcoming = crowded.column(NAME).combine_chunks(), crowded.column(N_ROWS).to_numpy().copy()
    wanted, chance = np.full(len(names), max_rows), np.random.default_rng(secrets.randbits(128))

    packed, rest = [], np.zeros(0, dtype=bool)
    for batch in batches:
        found = pc.index_in(identify(batch.column(0)), names)
        rows = chance.permutation(np.flatnonzero(pc.is_valid(found).to_numpy(zero_copy_only=False)))
        whose = found.take(pa.array(rows)).to_numpy()
        order = np.argsort(whose, kind="stable")
        owners, starts, numbers = np.unique(whose[order], return_index=True, return_counts=True)

        n_wanted, n_others = wanted[owners], np.minimum(upcoming - wanted, _MOST_DRAWN_FROM)[owners]
        counted = np.minimum(numbers, upcoming[owners])
        n_kept = chance.hypergeometric(n_wanted, n_others, counted)
        wanted[owners] -= n_kept
        upcoming[owners] -= counted

        keep = np.ones(batch.num_rows, dtype=bool)
        keep[rows[order]] = np.arange(len(rows)) - np.repeat(starts, numbers) < np.repeat(n_kept, numbers)
        keep = np.concatenate([rest, keep])
        whole = len(keep) // 8 * 8
        packed.append(np.packbits(keep[:whole]).tobytes())
        rest = keep[whole:]
    return b"".join([*packed, np.packbits(rest).tobytes()])


def unpack_kept(bits: bytes, start: int, stop: int) -> NDArray[np.bool_]:
    """Return which rows of a range are kept, by the bits of all."""
    some = np.frombuffer(bits, dtype=np.uint8)[start // 8 : -(-stop // 8)]
    return np.unpackbits(some)[start % 8 :][: stop - start].astype(bool)


class EntityCap:
    """The rows of a table, up to a cap for each entity.

    Parameters
    ----------
    table : Table
        Read twice here.
    entity : str
        The column that tells whose row it is; any type, no missing values. See `identify` for who is one.
    max_rows : int
        How many rows of an entity are kept.
    rows_at_once : int
        The size of the batches.

    Attributes
    ----------
    table : Table
        The kept rows, the same in every pass.
    n_entities : int
        How many entities there are; it is private, as the next number is.
    n_left_out : int
        How many rows will be left out.
    require_unchanged : callable
        Raises `SchemaError` if the table's files have changed since: rows that changed places could pass the cap.
    """

    def __init__(self, table: Table, entity: str, max_rows: int, rows_at_once: int) -> None:
        self.require_unchanged, missing = table.unchanged(), table.cells.written.missing
        counts = count_entities(table.read({entity: "text"}, rows_at_once), entity, missing, table.lines)
        kept = find_kept(table.read({entity: "text"}, rows_at_once), counts, max_rows)
        self.table = replace(table, keep=partial(unpack_kept, kept))
        beyond = counts.column(N_ROWS).to_numpy() - max_rows
        self.n_entities, self.n_left_out = len(counts), int(beyond[beyond > 0].sum())


def _plain(words: pa.Array) -> pa.Array:
    """Return every id in its one spelling."""
    if not pc.all(pc.string_is_ascii(words), min_count=0).as_py():
        words = pc.utf8_normalize(_decoded(words), "NFKC")
    words = trim(words)
    words = pc.replace_substring_regex(words, _ZERO, "0")
    words = pc.replace_substring_regex(words, _WHOLE, r"\1\2")
    short = pc.match_substring_regex(words, _SHORT)
    if not pc.any(short, min_count=0).as_py():
        return words
    spelled = [_digits(word) for word in words.filter(short).to_pylist()]
    return pc.replace_with_mask(words, short, pa.array(spelled, words.type))


def _digits(word: str) -> str:
    """Return a number in digits if it is whole, with an exponent if many of them are zeros at its end; exactly."""
    try:
        number = decimal.Decimal(word).normalize(_EXACT)
    except decimal.InvalidOperation:  # an exponent of 19 digits or more: all of them are taken for one person
        return "e"
    zeros = int(number.as_tuple().exponent)
    if zeros < 0:
        return word
    return f"{number:f}" if zeros <= _MOST_ZEROS else str(number)


def _decoded(words: pa.Array) -> pa.Array:
    """Return ids as text, of bytes that are none their digits."""
    try:
        words.validate(full=True)
    except pa.ArrowInvalid:
        spelled = [word.decode(errors="backslashreplace") for word in pc.cast(words, pa.binary()).to_pylist()]
        return pa.array(spelled, pa.string())
    return words


def thinned(batches: Iterable[pa.RecordBatch], n_rows: int) -> RawBatches:
    """Yield blocks of rows that are evenly spread by their places alone; all of them if these are not too many."""
    every, start = spread(n_rows), 0
    for batch in batches:
        blocks = np.arange(start, start + batch.num_rows) // BLOCK
        yield batch.filter(pa.array(blocks % every == 0))
        start += batch.num_rows


def drawn(batches: Iterable[pa.RecordBatch], n_rows: int) -> RawBatches:
    """Yield a simple random sample of so many rows, whose size is public; all of them if these are not too many."""
    chance, start = np.random.default_rng(secrets.randbits(128)), 0
    places = np.sort(chance.choice(n_rows, n_rows // spread(n_rows), replace=False, shuffle=False))
    for batch in batches:
        first, last = np.searchsorted(places, (start, start + batch.num_rows))
        yield batch.take(pa.array(places[first:last] - start))
        start += batch.num_rows
