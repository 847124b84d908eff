"""What the first rows of a table show that a release would regret: codes, strays, and rows that are none of the data.

All of it is told to the publisher alone, on her terminal or at her desk, before anything is paid for. It refuses
nothing, so that no release tells by being there what the rows hold.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dp_bundle.base.quoting import and_more, counted, listed
from dp_publish.data.cells import SIGNS, Written, is_gap, read_numbers, trim
from dp_publish.data.dates import days, read_moments
from dp_publish.data.kinds import AS_IT_IS
from dp_publish.data.table import Table
from dp_publish.data.typed import Cells, decoded, is_text
from dp_publish.policy.column_survey import ENDS, find_codes

_ROWS, _CELLS, _LEAST_ROWS = 10_000, 2**20, 20
_MOSTLY = 0.5  # of the cells with a value: then a column is one of numbers, or of dates
_NEARLY_ALL = 0.95
_SHOWN = 5  # columns, or lines
_TOTAL = r"(?i)^(?:(?:grand|sub)?[ -]?totals?|sum|summe|gesamt|insgesamt|all|overall|average|mean)$"
_CODES = (
    "numbers that may stand for missing values, {where}: {cells}; they are published as numbers, unless they are "
    "emptied in the data, or listed in missing_values under [table] in a policy"
)
_DATES = (
    "dates that may stand for missing values, {where}: {cells}; they are published as dates, unless they are emptied "
    "in the data, or listed in missing_values under [table] in a policy"
)
_PACKED = (
    "whole numbers that look like dates, {where}: {cells}; they are published as numbers, unless a policy gives kind = "
    '"date" and format = "%Y%m%d"'
)
_LIMITS = "cells with < or >, as below a limit of detection, which count as gaps, {where}: {cells}"
_WORDS = "words among numbers or dates, which count as gaps, {where}: {cells}"
_FARTHEST = 36_525  # days between usual dates and one that stands for none
_YYYYMMDD = r"^(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])$"


class _Seen(NamedTuple):
    """The first cells of a column: as words, if they are some, numbers and days, null where they are none."""

    words: pa.Array | None
    numbers: pa.Array
    days: pa.Array

    @property
    def has_value(self) -> NDArray[np.bool_]:
        return (
            _mask(pc.invert(is_gap(trim(self.words), ()))) if self.words is not None else _mask(self.numbers.is_valid())
        )

    def is_mostly(self, values: pa.Array, share: float = _MOSTLY) -> bool:
        n_values = int(self.has_value.sum())
        return n_values >= _LEAST_ROWS and len(values) - values.null_count > share * n_values


def _mask(flags: pa.Array) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = pc.fill_null(flags, False).to_numpy(zero_copy_only=False)
    return found


def point_out_oddities(table: Table, names: Collection[str], *, declared: bool = False) -> list[str]:
    """Return what the publisher should know of the first rows of some columns, each as a sentence.

    Where it is `declared` what they hold, cells are not told of that do not fit, or are outside of bounds: they are
    refused.
    """
    asked = [name for name in names if name not in table.partitions]
    rows = min(_ROWS, max(_LEAST_ROWS, _CELLS // max(len(asked), 1)))
    stored = replace(table, cells=Cells(table.cells.written))
    batch = stored.head(dict.fromkeys(asked, AS_IT_IS), rows) if asked else None
    if batch is None or batch.num_rows < _LEAST_ROWS:
        return []
    seen = {name: _see(cells, table.cells.written) for name, cells in zip(asked, batch.columns, strict=True)}
    folded = [name.casefold() for name in names]
    alike = listed([name for name in names if folded.count(name.casefold()) > 1])
    said = [f"columns whose names differ in capitals alone, so that some programs rename one: {alike}"] if alike else []
    said += _about_rows(table, seen)
    told: dict[str, list[str]] = {}
    for name, each in {}.items() if declared else seen.items():
        for about, what in _about_cells(each):
            told.setdefault(about, []).append(f"{what} of {name!r}")
    where = f"in the first {batch.num_rows:,} rows"
    return said + [about.format(where=where, cells=and_more(what, _SHOWN)) for about, what in told.items()]


def _see(cells: pa.Array, written: Written) -> _Seen:
    nothing = pa.nulls(len(cells), pa.float64())
    cells = decoded(cells)
    if pa.types.is_date(cells.type) or pa.types.is_timestamp(cells.type):
        return _Seen(None, nothing, pc.cast(days(cells), pa.float64()))
    if pa.types.is_primitive(cells.type) and not pa.types.is_temporal(cells.type):
        return _Seen(None, pc.cast(cells, pa.float64(), safe=False), nothing)
    if not is_text(cells.type):
        return _Seen(None, nothing, nothing)
    words = pc.fill_null(pc.cast(cells, pa.string()), "")
    dates = pc.cast(days(read_moments(trim(words), local=True).values), pa.float64())
    return _Seen(words, read_numbers(words, Written(written.decimal or "."), SIGNS).values, dates)


def _about_rows(table: Table, seen: dict[str, _Seen]) -> Iterator[str]:
    """Yield what is said of rows that hold no person's data."""
    words = {name: each for name, each in seen.items() if each.words is not None}
    measured = [each for each in words.values() if each.is_mostly(each.numbers) or each.is_mostly(each.days)]
    if measured:
        odd = [each.has_value & _mask(each.numbers.is_null()) & _mask(each.days.is_null()) for each in measured]
        places = np.flatnonzero(np.logical_and.reduce(odd)).tolist()
        if 0 < len(places) <= _SHOWN:
            yield (
                f"{_lines(table, places)} no number in columns of numbers, as a line of units or a second header has: "
                "remove it, as it would count as a row"
            )
    total = [_mask(pc.match_substring_regex(trim(each.words), _TOTAL)) for each in words.values()]
    places = np.flatnonzero(np.logical_or.reduce(total)).tolist() if total else []
    if 0 < len(places) <= _SHOWN:
        yield f"{_lines(table, places)} a word like Total in it: remove it, if it is no row of the data"


def _lines(table: Table, places: list[int]) -> str:
    named = [str(place + 1 if table.line is None else table.line(place)) for place in places]
    what = "row" if table.line is None else "line"
    return f"{what}{'s' * (len(named) > 1)} {', '.join(named)} {'have' if len(named) > 1 else 'has'}"


def _about_cells(seen: _Seen) -> Iterator[tuple[str, str]]:
    """Yield what is said of cells that look as if they meant something else than they are read as, and which."""
    numbers, dates = seen.numbers.drop_null(), seen.days.drop_null().to_numpy()
    if seen.is_mostly(seen.numbers):
        values = np.sort(numbers.to_numpy())
        for code, number in find_codes(values[np.isfinite(values)], None).items():
            yield _CODES, f"{code:.12g} in {counted(number, 'cell')}"
        whole = numbers.filter(pc.and_(pc.less(pc.abs(numbers), 1e9), pc.equal(pc.floor(numbers), numbers)))
        packed = pc.match_substring_regex(pc.cast(pc.cast(whole, pa.int64()), pa.string()), _YYYYMMDD)
        if pc.sum(packed, min_count=0).as_py() > _NEARLY_ALL * len(numbers):
            yield _PACKED, "all"
    others = dates[~np.isin(dates, [*ENDS.values()])]
    for date, day in ENDS.items():
        number = int((dates == day).sum())
        if number and len(others) and (min(abs(others - day)) > _FARTHEST or date == "1900-01-01"):
            yield _DATES, f"{date} in {counted(number, 'cell')}"

    read = max((seen.numbers, seen.days), key=lambda found: len(found) - found.null_count)
    if seen.words is not None and seen.is_mostly(read):
        odd = seen.words.filter(pa.array(seen.has_value & _mask(read.is_null())))
        limits = pc.sum(pc.match_substring_regex(trim(odd), r"^[<>≤≥]"), min_count=0).as_py()
        for number, about in ((limits, _LIMITS), (len(odd) - limits, _WORDS)):
            if number:
                yield about, counted(number, "cell")
