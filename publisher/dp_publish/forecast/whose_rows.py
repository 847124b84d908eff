"""Who a person is: columns that may say whose a row is, and the question that is asked where their values repeat.

The first rows show whether they do, or later ones whether those return. That decides what the publisher is asked, and
nothing that is published. The answer is hers, and so is the unit of privacy that follows from it. Columns that are left
out count, too.
"""

import re
import shlex
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dp_bundle.base.errors import DataError
from dp_bundle.base.quoting import listed
from dp_bundle.base.wording import Phrase, typed
from dp_bundle.data.rows import batch_rows
from dp_publish.data.kinds import AS_IT_IS, ColumnType
from dp_publish.data.table import Table
from dp_publish.data.typed import decoded, is_text
from dp_publish.discovery.looks import Look
from dp_publish.forecast.first_rows import as_they_look
from dp_publish.forecast.strengths import describe_worth
from dp_publish.policy.column_survey import (
    LEAST_ROWS,
    as_stored,
    first_cells,
    named_like_a_person,
    named_like_an_identifier,
    without_gaps,
)
from dp_publish.policy.model import Policy

_FARTHEST = 10**8
_NEVER = (ColumnType.NESTED, ColumnType.OTHER)
_LEAST_NAMED, _LEAST_ALIKE = 3, 50  # different values of a column that is told by its name, or by its values
_MANY, _SAME = 0.1, 0.99  # different words, of all: more than categories have, and fewer than one in every row
_WHOLE, _ROUND, _FIVE_DIGITS, _LONG_NUMBER = r"^\d+$", "0$", r"^\d{5,}$", r"^\d{9,}$"
_PART = r"[\dA-Z+/.()-]"  # of codes in several parts, as of telephones and plates
_CODE = rf"^(?:\S*\d\S*|(?:{_PART}+ )*{_PART}*\d{_PART}*(?: {_PART}+)*)$"
_MIXED = r"^\S*(?:\pL\S*\d|\d\S*\pL)\S*$"  # letters and digits, which ranges of ages have not
_OF_TIME = (  # months, days, hours
    r"^(?:(?:19|20)\d\d\D?(?:0[1-9]|1[0-2])(?:\D?\d\d)?|\d\d?[./-]\d\d?[./-](?:19|20)?\d\d)?"
    r"(?:[ T]?\d\d?[:h]\d\d(?::\d\d)?)?$"
)
_THING = re.compile(  # names of columns whose codes recur, and are no person's
    r"(?i)(?:^|[\W_])(?:zip|plz|post|icd|diag|atc|prod|sku|item|arti[ck]|model|vers|dat[eu]|time|zone|flight|gene|snp"
    r"|year|jahr|ann[eoé]|año|day|month|week|quarter|trial|wave|occ|isco|naics|nace|sic|fips|school|tax|plot|strip|block|parcel|parz|pair)"
)
_RETURN, _MOST_OF_ONE, _MOST_ROUND = 0.5, 0.1, 0.2  # of numbers of persons: different, of one, ending in a zero
_FEW, _ALIKE = 20, 0.9  # persons, or rows of each, with which kinds of things begin; share of numbers with five digits
_KIND = re.compile(  # names of columns of persons that may be kinds of what people or things are
    r"(?i)pid|case|famil\w+|child\w*|household|hh|animal|owner|citizen|resident|member|account|driver|phone|name|insured"
)
_PLURAL = re.compile(r"(?i).*(?:s|en|elev)")  # names of people that may say how many; pupils or an elevation
_FRACTION, _MOSTLY = r"^-?\d+[.,]\d?[1-9]$", 0.5
_ABOUT_A_MIDDLE = 0.35  # of the range, in which half of the numbers lie; of numbers of persons about half do
_TOGETHER = 10  # rows of one person, for which it is said what remains of the protection
_BY_COLUMN = Phrase("--unit {} --max-rows K", "“Several rows may be one person’s”")
_ANSWER = typed("--unit")
_BY_ROW = Phrase("--unit row", "“One row is one person”")


def find_repeated(table: Table, names: Collection[str]) -> dict[str, int]:
    """Return the columns that may say whose a row is and repeat in the first rows, with how many values they have.

    They are told by their names, or by codes or numbers that recur as those of persons do. Such are codes and long
    numbers, and numbers that are far apart without a rule, or each in equally many rows. Codes that are different in a
    tenth of the rows or less may be of things, if that is their column's name. Few values of some names may be kinds of
    people.

    Parameters
    ----------
    table : Table
        It may be one whose columns are published as others already.
    names : collection of str
        Of its columns, as they are stored.
    """
    first = first_cells(table, [name for name in names if table.types.get(name) not in _NEVER])
    found, open_yet, n_first = dict[str, int](), dict[str, pa.Array](), max(map(len, first.values()), default=0)
    for name, cells in first.items():
        kept = without_gaps(cells)
        if len(kept) < LEAST_ROWS:
            continue
        different = len(pc.unique(kept))
        is_named = (named_like_a_person(name) or named_like_an_identifier(name)) and not _are_amounts(name, kept)
        if different == len(kept):
            open_yet |= {name: kept} if is_named or _may_return(kept, table) else {}
        elif is_named and different < _LEAST_NAMED:
            open_yet[name] = pc.unique(kept)
        elif not _are_kinds(name, kept) if is_named else _recur(name, kept, table):
            found[name] = different
    if open_yet and table.count_rows() > n_first:
        found |= _find_later(as_stored(table), open_yet, n_first)
    return {name: found[name] for name in first if name in found}


def _find_later(stored: Table, first: Mapping[str, pa.Array], n_first: int) -> dict[str, int]:
    """Return the columns that repeat in all rows, up to 10^8, by their different values in the first ones.

    These return, as in waves of a panel; or they were too few for persons, and more follow, as where rows are sorted.
    """
    found, known = dict[str, int](), dict(first)
    n_read = 0
    with suppress(DataError):  # which whoever reads the rest of these rows will tell
        for batch in stored.read(dict.fromkeys(known, AS_IT_IS), batch_rows(len(known))):
            later, n_read = batch.slice(max(n_first - n_read, 0)), n_read + batch.num_rows
            for name in known.keys() - found.keys():
                cells, is_few = without_gaps(decoded(later.column(name))), len(known[name]) < _LEAST_NAMED
                known[name] = pc.unique(pa.concat_arrays([known[name], cells])) if is_few else known[name]
                if len(known[name]) >= _LEAST_NAMED and (is_few or pc.any(pc.is_in(cells, known[name])).as_py()):
                    found[name] = len(known[name])
            if n_read > _FARTHEST or len(found) == len(known):
                break
    return found


def _may_return(kept: pa.Array, table: Table) -> bool:
    """Return whether different values may be those of persons: whole numbers or codes."""
    words = _words_of(kept, table)
    return words is not None and _share_like(_CODE, words) > _SAME


def _recur(name: str, kept: pa.Array, table: Table) -> bool:
    """Return whether values recur as identifiers of persons do, though their column is not named so."""
    (counts, n_runs), words = _count(kept), _words_of(kept, table)
    in_order, share = n_runs == len(counts), len(counts) / len(kept)
    if len(counts) < (_FEW if in_order else _LEAST_ALIKE) or words is None:
        return False
    if _THING.search(name) or _share_like(_OF_TIME, words) > _SAME:
        return False
    if _share_like(_WHOLE, words) <= _SAME:
        return share < _SAME and _share_like(_MIXED if share <= _MANY else _CODE, words) > _SAME
    if min(counts[:-1] if in_order else counts) == max(counts) > 1:  # the last of those in order may go on
        return True
    is_long = _MANY < share < _SAME and _share_like(_LONG_NUMBER, words) > _SAME
    return is_long or (share < _RETURN and max(counts) < _MOST_OF_ONE * len(kept) and _are_scattered(words))


def _count(kept: pa.Array) -> tuple[list[int], int]:
    """Return how many rows each different value has, and how many times rows follow that have another one."""
    return pc.value_counts(kept).field("counts").to_pylist(), 1 + pc.sum(pc.not_equal(kept[1:], kept[:-1])).as_py()


def _are_amounts(name: str, kept: pa.Array) -> bool:
    """Return whether values are fractions, or numbers about a middle whose column may say how many people there are."""
    words = kept.cast(pa.string())
    if _PLURAL.fullmatch(name) is None or _share_like(_WHOLE, words) < 1.0:
        return _share_like(_FRACTION, words) > _MOSTLY
    least, first, third, most = np.quantile(words.cast(pa.float64()), (0.0, 0.25, 0.75, 1.0))
    return bool(third - first < _ABOUT_A_MIDDLE * (most - least))


def _are_kinds(name: str, kept: pa.Array) -> bool:
    """Return whether few values, each in many rows here and there, are kinds rather than persons, by their name too."""
    counts, n_runs = _count(kept)
    is_few = len(counts) < _FEW and len(kept) > _FEW * len(counts)
    return is_few and 2 * n_runs > len(kept) and max(counts) > 2 * min(counts) and _KIND.fullmatch(name) is not None


def _are_scattered(words: pa.Array) -> bool:
    """Return whether whole numbers are far apart without a rule, or have five digits, and end as often in any digit.

    Measures that recur as often are close to one another, or, where they are rounded, at equal distances.
    """
    numbers = words.filter(pc.match_substring_regex(words, _WHOLE)).cast(pa.float64())
    distances = np.diff(np.unique(numbers))
    typical, unlike = np.median(distances), np.median(np.abs(np.diff(distances)))
    is_far = (typical > 2 and unlike > typical / 2) or _share_like(_FIVE_DIGITS, words) > _ALIKE
    return is_far and _share_like(_ROUND, words) < _MOST_ROUND


def _words_of(kept: pa.Array, table: Table) -> pa.Array | None:
    """Return values as words, if they are words or whole numbers, also as programs write those of columns with gaps."""
    if not (is_text(kept.type) or pa.types.is_integer(kept.type) or pa.types.is_floating(kept.type)):
        return None
    if pa.types.is_floating(kept.type) and not pc.all(pc.equal(kept, pc.floor(kept))).as_py():
        return None
    words = pc.replace_substring_regex(kept.cast(pa.string()), r"\.0+$", "")
    if _share_like(_WHOLE, words) > _SAME:
        return words
    is_word = is_text(kept.type) and as_they_look(words, table.cells.written)[0] is Look.WORD
    return words if is_word else None


def _share_like(pattern: str, words: pa.Array) -> float:
    share: float = pc.mean(pc.match_substring_regex(words, pattern)).as_py()
    return share


def ask_whose(policy: Policy, repeated: Collection[str]) -> str:
    """Return the question who a person is, with its answers; none if the policy has one or nothing repeats.

    Parameters
    ----------
    policy : Policy
        As it was written.
    repeated : collection of str
        The columns that `find_repeated` found.
    """
    if not repeated or "unit" in policy.privacy.model_fields_set:
        return ""
    mu = policy.privacy.mu
    left = "" if mu is None else f", at mu = {_TOGETHER * mu:g}. There, {describe_worth(_TOGETHER * mu)}"
    by_column = str(_BY_COLUMN).format(shlex.quote(next(iter(repeated))))
    return (
        f"who is a person in this table? Values of {listed([*repeated])} repeat, so that several rows may be one "
        f"person's. {by_column} protects all rows of one together, up to a number of them, and leaves out more. Choose "
        f"that number by how the table came about, such as 3 for three yearly visits. {_BY_ROW} protects each row by "
        f"itself, and {_TOGETHER} rows of one person less{left}"
    )


def point_out_people(policy: Policy, names: Iterable[str]) -> list[str]:
    """Return a sentence on the names of people among those of columns, unless the policy says who a person is."""
    people = [name for name in names if named_like_a_person(name)]
    if not people or "unit" in policy.privacy.model_fields_set:
        return []
    return [f"{listed(people)} may say whose a row is: if values repeat, publishing asks who a person is{_ANSWER}"]
