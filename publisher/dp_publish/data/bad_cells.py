"""Cells of a file without types that cannot be read: the first of each column, its line, and what to do about it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import TypeAlias

from dp_bundle.base.errors import CellError, SchemaError
from dp_bundle.files.places import Place
from dp_publish.data.cells import Fault, read_cell
from dp_publish.data.dates import describe_dates
from dp_publish.data.dialect import Layout

_SAMPLE_CELLS = 100_000
_LEAST_SAMPLE, _MOST_SAMPLE = 20, 1000  # rows

# Takes cells of a column, and those of the first rows; returns the place of the first cell that cannot be read, and
# what is wrong with it, in words that follow those that name it; None if all can.
Check: TypeAlias = Callable[[Sequence[str], Sequence[str]], tuple[int, str] | None]


def sample_rows(layout: Layout) -> int:
    """Return how many first rows are looked at for a decimal mark, columns of words, and formats of dates."""
    return max(_LEAST_SAMPLE, min(_MOST_SAMPLE, _SAMPLE_CELLS // len(layout.names)))


def locate_fault(
    path: Place,
    layout: Layout,
    rows: Iterator[tuple[int, list[str]]],
    kinds: Mapping[str, str],
    decimal: str,
    checks: Mapping[str, Check],
) -> SchemaError | None:
    """Return what cannot be read in columns, with its lines and without a value; None if nothing is found.

    That is what is wrong in the first rows, or, if nothing is, in the first others in which something is: of each
    column the first fault, or a line with more or fewer cells than there are columns.

    Parameters
    ----------
    path : Path or RemotePath
        The file, for messages.
    layout : Layout
        What it is like.
    rows : iterator of (int, list of str)
        Its rows, each with its line.
    kinds : mapping of str to str
        The columns, each "continuous", "integer" or "text".
    decimal : {".", ","}
        The decimal mark.
    checks : mapping of str to Check
        What is asked of some columns besides.
    """
    n_columns, missing = len(layout.names), layout.missing_values
    places = {name: place for place, name in enumerate(layout.names) if name in kinds}
    asked: dict[str, list[Check]] = {
        name: [partial(_first_fault, kind=kind, decimal=decimal, missing=missing)] for name, kind in kinds.items()
    }
    for name in kinds.keys() & checks.keys():
        asked[name].append(checks[name])

    first: dict[str, list[str]] = {}
    while some := list(islice(rows, sample_rows(layout))):
        uneven = next((place for place, (_, row) in enumerate(some) if len(row) != n_columns), len(some))
        cells = {name: [row[place] for _, row in some[:uneven]] for name, place in places.items()}
        first = first or cells
        faults: list[tuple[int, str, str]] = []
        for name, asked_of_it in asked.items():
            found = filter(None, (check(cells[name], first[name]) for check in asked_of_it))
            faults += ((some[place][0], name, fault) for place, fault in sorted(found)[:1])
        if faults:
            return CellError(faults)
        if uneven < len(some):
            line, row = some[uneven]
            return SchemaError(
                f"line {line} of {path} has more or fewer cells than columns ({len(row)}, not {n_columns}), which the "
                "first line names: correct either, or set delimiter under [table] in the policy"
            )
    return None


def _first_fault(
    cells: Sequence[str], first: Sequence[str], *, kind: str, decimal: str, missing: Sequence[str]
) -> tuple[int, str] | None:
    """Return the first of several cells, of text or numbers, that cannot be read; see `Check`."""
    if kind == "text":
        return next(((place, Fault.ENCODING.value) for place, cell in enumerate(cells) if "\ufffd" in cell), None)
    found = (read_cell(cell, kind, decimal, missing) for cell in cells)
    place, fault = next(((place, each) for place, each in enumerate(found) if isinstance(each, Fault)), (0, None))
    if fault is None:
        return None
    known = [cell.strip() for cell in first if read_cell(cell, kind, decimal, missing) is not None]
    dates = describe_dates(known) if fault in (Fault.DATE, Fault.TIME_OF_DAY, Fault.TEXT) else None
    return place, dates or fault.value
