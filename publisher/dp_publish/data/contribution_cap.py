"""A cap on the rows of every entity: those beyond it are left out at random.

One pass counts the rows of each entity. Of those that have too many, the places of the rows to be kept are drawn, a
simple random sample without replacement. A second pass notes which rows these are, a bit for each row of the table, and
all others read by these bits. Where a table is read in splits, an entity's rows are numbered through all of them, so
that each split is told which of its own rows to keep, and needs no other. Which rows are kept depends on nothing but
the entities' names and chance.

An id is read without blanks around it, composed letters as one, and, if it is a whole number, without zeros before it
or behind its point, a plus sign or an exponent: "0100", "100 ", "100.0" and 1e2 are one person, in text as in numbers.
Two ids that are taken for one can only leave out more rows; one person who passed for two could have twice the rows
that the guarantee allows.
"""

import re
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dp_bundle.base.arrays import Integers
from dp_bundle.base.errors import MissingValuesError
from dp_publish.data.cells import is_gap, trim
from dp_publish.data.table import Lines, Table

NAME, N_ROWS, KEPT = "entity", "n_rows", "kept"  # the columns of counts and quotas
SEED_BYTES = 16
_ZERO = r"^[+-]?0+(?:\.0*|,00?)?$"
_WHOLE = r"^\+?(-?)0*(\d+)(?:\.0*|,00?)?$"  # three zeros behind a comma are thousands
_SHORT = r"^[+-]?(?:\.\d+|(?:\d+\.?\d*|\.\d+)[eE][+-]?\d+|\d{20,}0)$"  # with an exponent, or better with one
_PARTS = re.compile(r"([+-]?)(\d*)\.?(\d*)(?:[eE]([+-]?\d+))?", re.ASCII)
_LONGEST_EXPONENT = 1000  # in digits
_MOST_ZEROS = 20  # that are spelled at the end of an id; more are an exponent
_SUMMED = 64  # batches of counts that are added up at a time
_MOST_AT_ONCE = 64  # rows that are drawn for all entities at once; more take less time one by one


def identify(names: pa.Array, missing: Sequence[str] = ()) -> tuple[pa.Array, int]:
    """Return the ids of rows, each in its one spelling, and the first row that is nobody's, or -1; all is private.

    Parameters
    ----------
    names : pyarrow.Array
        Ids as text.
    missing : sequence of str
        Words that name nobody, besides the usual ones for gaps.
    """
    spelled = names.dictionary_encode()
    ids = _plain(spelled.dictionary)
    nobody = pc.or_kleene(pc.is_null(spelled), is_gap(ids, missing).take(spelled.indices))
    return ids.take(spelled.indices), pc.index(nobody, True).as_py()


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
        As of `identify`.
    lines : callable, optional
        As of a `Table`.

    Raises
    ------
    MissingValuesError
        A row is nobody's.
    """
    counts, n_before = [pa.table({NAME: pa.array([], pa.string()), N_ROWS: pa.array([], pa.int64())})], 0
    for batch in batches:
        ids, nobody = identify(batch.column(0), missing)
        if nobody >= 0:
            row = n_before + nobody
            raise MissingValuesError(entity, names_entities=True, line=lines and lines([row]).get(row))
        found = pc.value_counts(ids)
        counts.append(pa.table({NAME: found.field("values"), N_ROWS: found.field("counts")}))
        counts, n_before = [add_counts(counts)] if len(counts) > _SUMMED else counts, n_before + batch.num_rows
    return add_counts(counts)


def add_counts(counts: Sequence[pa.Table]) -> pa.Table:
    """Return the sum of several counts of entities."""
    summed = pa.concat_tables(counts).group_by(NAME).aggregate([(N_ROWS, "sum")])
    return pa.table({NAME: summed.column(NAME), N_ROWS: summed.column(f"{N_ROWS}_sum")}).combine_chunks()


def draw_quotas(counts: Sequence[pa.Table], max_rows: int, seed: bytes) -> list[pa.Table]:
    """Draw which rows of entities that have more than `max_rows` are kept.

    Parameters
    ----------
    counts : sequence of Table
        Those of every split of the table, as `count_entities` gives them.
    max_rows : int
        How many rows are kept of an entity.
    seed : bytes
        All chance that is in it; secret.

    Returns
    -------
    list of Table
        For each split, the entities that have too many rows, the number of rows that they have there, and, in a list in
        the column `KEPT`, which of these are kept, counted from 0. It is private.
    """
    total = add_counts(counts)
    crowded = total.filter(pc.greater(total.column(N_ROWS), max_rows)).column(NAME).combine_chunks()
    n_rows = [_rows_of(crowded, each) for each in counts]
    places, first = _draw_places(np.sum(n_rows, axis=0), max_rows, seed), np.zeros(len(crowded), dtype=np.int64)

    quotas = []
    for own in n_rows:  # an entity's rows are numbered through all splits
        last = first + own
        inside = (places >= first[:, None]) & (places < last[:, None])
        ends = np.cumsum([0, *inside.sum(axis=1)]).astype(np.int32)
        kept = pa.ListArray.from_arrays(pa.array(ends), pa.array((places - first[:, None])[inside]))
        quota = pa.table({NAME: crowded, N_ROWS: own, KEPT: kept})
        quotas.append(quota.filter(pc.greater(quota.column(N_ROWS), 0)))
        first = last
    return quotas


def count_left_out(counts: Sequence[pa.Table], max_rows: int) -> int:
    """Return how many rows of a table, whose splits were counted, are beyond the cap."""
    n_rows = add_counts(counts).column(N_ROWS).to_numpy()
    return int((n_rows - np.minimum(n_rows, max_rows)).sum())


def _draw_places(n_rows: Integers, max_rows: int, seed: bytes) -> Integers:
    """Draw `max_rows` of so many rows for each entity, without replacement; the result has a line for each, sorted.

    Floyd's algorithm draws a number below j + 1 for each of the last numbers j, and takes j if that was drawn before.
    """
    chance = np.random.default_rng([*seed])
    if max_rows > _MOST_AT_ONCE:
        drawn = [chance.choice(number, max_rows, replace=False, shuffle=False) for number in n_rows]
        return np.sort(np.reshape(drawn, (len(n_rows), max_rows)).astype(np.int64), axis=1)
    places = np.empty((len(n_rows), max_rows), dtype=np.int64)
    for index in range(max_rows):
        largest = n_rows - max_rows + index
        number = chance.integers(0, largest, endpoint=True)
        is_drawn = (places[:, :index] == number[:, None]).any(axis=1)
        places[:, index] = np.where(is_drawn, largest, number)
    return np.sort(places, axis=1)


def _rows_of(names: pa.Array, counts: pa.Table) -> Integers:
    """Return the number of rows of each entity, 0 of those that were not counted there."""
    places = pc.index_in(names, counts.column(NAME).combine_chunks())
    found = pc.fill_null(counts.column(N_ROWS).combine_chunks().take(places), 0)
    rows: Integers = found.to_numpy(zero_copy_only=False).astype(np.int64)
    return rows


def find_kept(batches: Iterable[pa.RecordBatch], quota: pa.Table, missing: Sequence[str] = ()) -> bytes:
    """Return which rows of a split are kept, as bits.

    Parameters
    ----------
    batches : iterable of RecordBatch
        All rows of the split; their first column says whose each is, as text.
    quota : Table
        The split's, as `draw_quotas` gives it.
    missing : sequence of str
        As of `identify`.
    """
    crowded, kept = quota.column(NAME).combine_chunks(), quota.column(KEPT).combine_chunks()
    n_rows = quota.column(N_ROWS).to_numpy()
    upcoming = np.cumsum(n_rows) - n_rows  # of all rows of the crowded, entity by entity, that of each which comes next
    places_kept = kept.flatten().to_numpy() + np.repeat(upcoming, pc.list_value_length(kept).to_numpy())
    ended = np.append(places_kept, -1)

    packed, rest = [], np.zeros(0, dtype=bool)
    for batch in batches:
        found = pc.index_in(identify(batch.column(0), missing)[0], crowded)
        rows = np.flatnonzero(pc.is_valid(found).to_numpy(zero_copy_only=False))
        whose = found.drop_null().to_numpy(zero_copy_only=False)
        order = np.argsort(whose, kind="stable")
        owners, starts, numbers = np.unique(whose[order], return_index=True, return_counts=True)
        places = np.arange(len(whose)) + np.repeat(upcoming[owners] - starts, numbers)
        upcoming[owners] += numbers

        keep = np.ones(batch.num_rows, dtype=bool)
        keep[rows[order]] = ended[np.searchsorted(places_kept, places)] == places
        keep = np.concatenate([rest, keep])
        whole = len(keep) // 8 * 8
        packed.append(np.packbits(keep[:whole]).tobytes())
        rest = keep[whole:]
    return b"".join([*packed, np.packbits(rest).tobytes()])


def unpack_kept(bits: bytes, start: int, stop: int) -> NDArray[np.bool_]:
    """Return which rows of a range are kept, by the bits of all rows of a split."""
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
        (quota,) = draw_quotas([counts], max_rows, secrets.token_bytes(SEED_BYTES))
        kept = find_kept(table.read({entity: "text"}, rows_at_once), quota, missing)
        self.table = replace(table, keep=partial(unpack_kept, kept))
        self.n_entities, self.n_left_out = len(counts), count_left_out([counts], max_rows)


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
    parts = _PARTS.fullmatch(word)
    if parts is None or len(parts[4] or "") > _LONGEST_EXPONENT:
        return word
    sign, before, behind, exponent = parts.groups()
    digits = f"{before}{behind}".lstrip("0")
    if not digits:
        return "0"
    bare = digits.rstrip("0")
    zeros = len(digits) - len(bare) + int(exponent or 0) - len(behind)
    if zeros < 0:
        return word
    return f"{sign.strip('+')}{bare}{'0' * zeros if zeros <= _MOST_ZEROS else f'e{zeros}'}"


def _decoded(words: pa.Array) -> pa.Array:
    """Return ids as text, of bytes that are none their digits."""
    try:
        words.validate(full=True)
    except pa.ArrowInvalid:
        return pa.array([_text(word) for word in pc.cast(words, pa.binary()).to_pylist()], pa.string())
    return words


def _text(word: bytes) -> str:
    try:
        return word.decode()
    except UnicodeDecodeError:
        return f"bytes {word.hex()}"
