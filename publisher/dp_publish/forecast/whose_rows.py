"""Who a person is: columns that may say whose a row is, and the question that is asked where their values repeat.

The first rows show whether they do, which decides what the publisher is asked, and nothing that is published: the
answer is hers, and so is the unit of privacy that follows from it. Columns that are left out count, too.
"""

import shlex
from collections.abc import Collection, Iterable

import pyarrow as pa
import pyarrow.compute as pc

from dp_bundle.base.quoting import listed
from dp_bundle.base.wording import Phrase, typed
from dp_publish.data.kinds import ColumnType
from dp_publish.data.table import Table
from dp_publish.data.typed import is_text
from dp_publish.discovery.looks import Look, as_they_look
from dp_publish.forecast.strengths import describe_worth
from dp_publish.policy.column_survey import (
    LEAST_ROWS,
    first_cells,
    named_like_a_person,
    named_like_an_identifier,
    without_gaps,
)
from dp_publish.policy.model import Policy

_NEVER = (ColumnType.NESTED, ColumnType.OTHER)
_LEAST_NAMED, _LEAST_ALIKE = 3, 50  # different values of a column that is told by its name, or by its values
_MANY, _SAME = 0.1, 0.99  # different words, of all: more than categories have, and fewer than one in every row
_CODE, _LONG_NUMBER = r"^\S*\d\S*$", r"^\s*\d{9,}\s*$"
_TOGETHER = 10  # rows of one person, for which it is said what remains of the protection
_BY_COLUMN = Phrase("--unit {} --max-rows K", "“Several rows may be one person’s”")
_ANSWER = typed("--unit")
_BY_ROW = Phrase("--unit row", "“One row is one person”")


def find_repeated(table: Table, names: Collection[str]) -> dict[str, int]:
    """Return the columns that may say whose a row is and repeat in the first rows, with how many values they have.

    They are told by their names, or by codes or numbers that recur as those of persons do: codes and long numbers,
    different in more than a tenth of the rows, or numbers each in equally many rows.

    Parameters
    ----------
    table : Table
        It may be one whose columns are published as others already.
    names : collection of str
        Of its columns, as they are stored.
    """
    found = {}
    for name, cells in first_cells(table, [name for name in names if table.types.get(name) not in _NEVER]).items():
        kept = without_gaps(cells)
        different = len(pc.unique(kept))
        is_named = named_like_a_person(name) or named_like_an_identifier(name)
        if len(kept) < LEAST_ROWS or different == len(kept):
            continue
        if different >= _LEAST_NAMED if is_named else _recur(kept, table):
            found[name] = different
    return found


def _recur(kept: pa.Array, table: Table) -> bool:
    """Return whether values recur as identifiers of persons do, whatever their column is called."""
    counts = pc.value_counts(kept).field("counts").to_pylist()
    if len(counts) < _LEAST_ALIKE or not (is_text(kept.type) or pa.types.is_integer(kept.type)):
        return False
    n_runs = 1 + pc.sum(pc.not_equal(kept[1:], kept[:-1])).as_py()
    whole = counts[:-1] if n_runs == len(counts) else counts  # the last of those in order may go on
    words = kept.cast(pa.string())
    look = as_they_look(words, table.cells.written)[0]
    is_number = look in (Look.WHOLE, Look.CODE)
    if is_number and min(whole) == max(counts) > 1:
        return True
    pattern = _LONG_NUMBER if is_number else _CODE
    codes: float = pc.mean(pc.match_substring_regex(words, pattern)).as_py()
    return (is_number or look is Look.WORD) and codes > _SAME and _MANY < len(counts) / len(kept) < _SAME


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
        f"person's. {by_column} protects all rows of one together, and leaves out those beyond that number. Choose it "
        f"by how the table came about, such as 3 for three yearly visits. {_BY_ROW} protects each row by itself, and "
        f"{_TOGETHER} rows of one person less{left}"
    )


def point_out_people(policy: Policy, names: Iterable[str]) -> list[str]:
    """Return a sentence on the names of people among those of columns, unless the policy says who a person is."""
    people = [name for name in names if named_like_a_person(name)]
    if not people or "unit" in policy.privacy.model_fields_set:
        return []
    return [f"{listed(people)} may say whose a row is: if values repeat, publishing asks who a person is{_ANSWER}"]
