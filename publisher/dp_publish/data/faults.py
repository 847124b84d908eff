"""What is wrong with a cell that does not fit, and what to do; the words follow those that name the cell."""

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from dp_bundle.base.errors import SchemaError
from dp_bundle.base.wording import BY_POLICY, ENCODING, IN_POLICY, IN_TABLE, LEAVE_OUT, MISSING_VALUES, Phrase
from dp_bundle.manifest.columns import Source
from dp_publish.data.cells import FARTHEST, LOST, SIGNS, Written, read_numbers, read_words
from dp_publish.data.dates import advise_format, describe_dates, fit
from dp_publish.data.kinds import KINDS, format_of

KINDS_OF_WORDS = '"category", "ordered" or "boolean"'  # what a policy may say of a column of words
_LEAVE_COLUMN_OUT = Phrase("set drop = true for the column in the policy", "leave the column out")
_IN_SECTION = Phrase("in the column's section of the policy, ", "")
_BY_TEMPLATE = Phrase("in the policy (`dp-publish policy DATA` writes one), ", "")
_SAY_WORDS = Phrase(f"give words a kind ({KINDS_OF_WORDS})", "choose under “«kind»” what words they are")


class UnfitError(SchemaError):
    """Cells that do not fit: of each column the first in a batch, with its place there, its name and what is wrong."""

    def __init__(self, faults: Sequence[tuple[int, str, str]]) -> None:
        self.faults = faults
        super().__init__("; ".join(f"column {name!r} has a value that {said}" for _, name, said in faults))


def fault_of(word: str, others: pa.Array, source: Source | None, written: Written) -> str:
    """Return what is wrong with a cell that is no level, date, time or number, by it and by words of other rows.

    Parameters
    ----------
    word : str
        As it is written.
    others : pyarrow.Array of string
        The first words of its column.
    source : Source or None
        What its column is; None of numbers.
    written : Written
        How it is written.
    """
    bare = word.strip()
    if LOST in bare:
        return fault_of_encoding()
    if source is not None:
        return fault_of_source(source, others)
    if said := _about_number(bare, written):
        return said

    read = read_numbers(others, written)
    values = others.filter(pc.invert(pc.and_(read.fits, pc.is_null(read.values))))
    return describe_dates(bare, [*map(str.strip, values.to_pylist())]) or (
        f"is not a number: {_BY_TEMPLATE}{_SAY_WORDS}, list those for gaps in {MISSING_VALUES}, or {LEAVE_OUT}"
    )


def fault_of_encoding() -> str:
    """Return what is wrong with a cell of which letters were replaced."""
    return f"is not in the file's encoding: set {ENCODING}"


def fault_of_source(source: Source, others: pa.Array) -> str:
    """Return what is wrong with a cell that is no level, date or time, and what to do, by words of other rows."""
    if source.levels:
        return (
            f"is none of its levels: list it{IN_POLICY} if everybody may know that it can occur, or give other = "
            '"..." for all that are not listed'
        )
    first = read_words(others, (), ()).drop_null().to_pylist()
    kind, form = KINDS[source.kind], format_of(source)
    looks = f"does not fit the format {form}" if form else f"is no {kind.looks}"
    advice = advise_format(first, with_date=kind.name == "date")
    remedy = f"correct it in the data, or {_LEAVE_COLUMN_OUT}"
    if form and fit(first):
        remedy = f"leave format out{IN_POLICY}, as the first rows are each a {kind.looks}"
    elif advice and not fit(first):
        remedy = f"{_IN_SECTION}give {advice}, or {LEAVE_OUT}"
    return f"{looks}: {remedy}"


def _about_number(cell: str, written: Written) -> str:
    """Return what is wrong with a number of another kind, or written in another way, or a letter; else nothing."""
    if (number := _number_of(cell, written)) is not None:
        continuous = f'give it kind = "continuous"{IN_POLICY}'
        if abs(number) < FARTHEST:
            return f"is a fraction in an integer column: {continuous}, or round it first"
        return f"is beyond the largest integer: {continuous}"
    by_point, by_comma = (_number_of(cell, replace(written, decimal=mark)) is not None for mark in ".,")
    if by_point and by_comma:
        return f'has a mark that may separate thousands or decimals: set decimal = "." or ","{IN_TABLE}'
    if by_point or by_comma:
        name, mark = ("point", ".") if by_point else ("comma", ",")
        return f'has a decimal {name}: set decimal = "{mark}"{IN_TABLE}, or correct it'
    for sign in SIGNS:
        if any(_number_of(cell, Written(mark, signs=(sign,))) is not None for mark in ".,"):
            unit = Phrase(
                f'in the policy, set unit = "{sign}" for its column', f"give {sign} as its “Unit of measurement”"
            )
            return f"has the sign {sign}: {unit} if its numbers are in that, or remove the sign"
    if cell.lower() in ("t", "f", "y", "n"):
        return (
            f'is a letter, as of a truth value: {BY_POLICY}give its column kind = "boolean" and levels = ["f", "t"], '
            f"say, from no to yes, or {LEAVE_OUT}"
        )
    return ""


def _number_of(cell: str, written: Written) -> float | None:
    number: float | None = read_numbers(pa.array([cell]), written).values[0].as_py()
    return number
