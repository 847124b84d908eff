"""What the first rows of a table show: what a release would regret, and columns of which nothing is declared.

Regretted are codes, strays, and rows that are none of the data. All of it is told to the publisher alone, on her
terminal or at her desk, before anything is paid for. It refuses nothing, so that no release tells by being there what
the rows hold.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dp_bundle.base.quoting import and_more, counted, listed
from dp_bundle.base.wording import A_POLICY, IN_POLICY, LEAVE_OUT, MISSING_VALUES
from dp_publish.data.cells import Written, is_gap, read_numbers, read_words, trim
from dp_publish.data.dates import days, read_moments
from dp_publish.data.table import Table
from dp_publish.data.typed import is_text
from dp_publish.discovery.finding import HARDLY_ANY, HELD, LEAST_LEVEL, NAMES, ONE_LEVEL, TOO_RARE, Counted, Steps
from dp_publish.discovery.levels import count_values
from dp_publish.discovery.looks import (
    FORMATS,
    LOOKS,
    NUMBERS,
    TIMES,
    Look,
    best_look,
    count_looks,
    decimal_mark,
    read_answers,
    written_as,
)
from dp_publish.forecast.advice import least_mu
from dp_publish.forecast.assumptions import MOSTLY, least_level, sought_of
from dp_publish.forecast.outlook import forecast
from dp_publish.forecast.plan import Plan
from dp_publish.forecast.strengths import describe_weaker
from dp_publish.policy.column_survey import COSTLY, ENDS, LEAST_ROWS, find_codes, first_cells, without_gaps
from dp_publish.policy.columns import Prepared
from dp_publish.policy.model import Policy
from dp_publish.policy.open_columns import reasons

_NEARLY_ALL = 0.95
_SHOWN = 5  # columns, or lines
_TOTAL = r"(?i)^(?:(?:grand|sub)?[ -]?totals?|sum|summe|gesamt|insgesamt|all|overall|average|mean)$"
_CODES = "numbers that may stand for missing values, {where}: {cells}; they count as numbers unless {unless}"
_DATES = "dates that may stand for missing values, {where}: {cells}; they count as dates unless {unless}"
_EMPTIED = "they are emptied in the data"
_NUMBERED = (
    "whole numbers that are all different, as those of persons are, {where}: {cells}; they are published unless you "
    "{leave_out}"
)
_PACKED = (
    "whole numbers that resemble dates, {where}: {cells}; they count as numbers unless you give kind = "
    '"date" and format = "%Y%m%d"'
)
_LIMITS = (
    "cells with < or >, as below a limit of detection, {where}: {cells}; they count as gaps where a column is found to "
    "be one of numbers or dates"
)
_WORDS = "words among numbers or dates, {where}: {cells}; they count as gaps where a column is found to be one of those"
_MOST_PACKED = 10**8
_FARTHEST = 36_525  # days between usual dates and one that stands for none
_YYYYMMDD = r"^(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])$"


class _Seen(NamedTuple):
    """The first cells of a column: their values as what most of them are, and which have one, and which do not fit."""

    cells: pa.Array
    values: pa.Array
    measures: bool
    odd: NDArray[np.bool_]


def point_out_oddities(table: Table, names: Collection[str], *, declared: bool = False) -> list[str]:
    """Return what the publisher should know of the first rows of some columns, each as a sentence.

    Where it is `declared` what they hold, cells are not told of that do not fit, or are outside of bounds: they are
    refused.
    """
    first = first_cells(table, names)
    if not first:
        return []
    seen = {name: _see(cells, table.cells.written) for name, cells in first.items()}
    folded = [name.casefold() for name in names]
    alike = listed([name for name in names if folded.count(name.casefold()) > 1])
    said = [f"columns whose names differ in capitals alone, so that some programs rename one: {alike}"] if alike else []
    said += _about_rows(table, seen.values())
    same = [] if declared else [name for name, cells in first.items() if _is_constant(without_gaps(cells))]
    where = f"in the first {len(next(iter(first.values()))):,} rows"
    if same:
        said.append(f"columns without two different values {where}: {listed(same)}. {COSTLY}")
    told: dict[str, list[str]] = {}
    for name, each in {}.items() if declared else seen.items():
        for about, what in _about_cells(each):
            told.setdefault(about, []).append(f"{what} of {name!r}")
    unless = _EMPTIED + f", or listed in {MISSING_VALUES}{IN_POLICY}" * (table.layout is not None)
    return said + [
        about.format(where=where, cells=and_more(what, _SHOWN, "; "), unless=unless, leave_out=LEAVE_OUT)
        for about, what in told.items()
    ]


def _see(cells: pa.Array, written: Written) -> _Seen:
    if not is_text(cells.type):
        return _Seen(cells, cells, not pa.types.is_nested(cells.type), np.zeros(len(cells), dtype=bool))
    cells = pc.fill_null(pc.cast(cells, pa.string()), "")
    look, values = as_they_look(cells, written)
    is_gap_there = is_gap(trim(cells), written.missing)
    odd = pc.and_not(pc.is_null(values), is_gap_there).to_numpy(zero_copy_only=False)
    return _Seen(cells, values, look not in (Look.WORD, Look.TRUTH), odd)


def as_they_look(cells: pa.Array, written: Written) -> tuple[Look, pa.Array]:
    """Return what most cells of text look like, and their values as such; for the publisher's eyes alone."""
    counts = dict(zip(LOOKS, count_looks(cells, written.missing).tolist(), strict=True))
    look = best_look(counts)
    if look is Look.WORD:
        return look, read_answers(cells, written.missing)
    if look in NUMBERS or look is Look.TRUTH:
        decimal = written.decimal or decimal_mark([counts], grouped=written.has_points)
        return look, read_numbers(cells, written_as(look, decimal, written.missing)).values
    moments = read_moments(read_words(cells, (), written.missing), FORMATS.get(look, ""), local=look not in TIMES)
    return look, moments.values if look in TIMES else moments.values.cast(pa.date32(), safe=False)


def _is_constant(kept: pa.Array) -> bool:
    return bool(kept[1:].equals(kept[:-1]))


def _about_rows(table: Table, seen: Collection[_Seen]) -> Iterator[str]:
    """Yield what is said of rows that hold no person's data."""
    measured = [each for each in seen if each.measures]
    if measured:
        nothing = np.logical_and.reduce([pc.is_null(each.values).to_numpy(zero_copy_only=False) for each in measured])
        places = np.flatnonzero(nothing & np.logical_or.reduce([each.odd for each in measured])).tolist()
        if 0 < len(places) <= _SHOWN:
            yield (
                f"{_lines(table, places)} words and no value in columns of numbers and dates, as a line of "
                "units or a second header has: remove it, if it is no row of the data"
            )
    words = [pc.match_substring_regex(trim(each.cells), _TOTAL) for each in seen if is_text(each.cells.type)]
    total = [pc.fill_null(flags, False).to_numpy(zero_copy_only=False) for flags in words]
    places = np.flatnonzero(np.logical_or.reduce(total)).tolist() if total else []
    if 0 < len(places) <= _SHOWN:
        yield f"{_lines(table, places)} a word like Total: remove it, if it is no row of the data"


def _lines(table: Table, places: list[int]) -> str:
    lines = {} if table.lines is None else table.lines(places)
    named = [f"line {lines[place]}" if place in lines else f"row {place + 1}" for place in places]
    return f"{', '.join(named)} {'have' if len(named) > 1 else 'has'}"


def _about_cells(seen: _Seen) -> Iterator[tuple[str, str]]:
    """Yield what is said of cells that look as if they meant something else than they are read as, and which."""
    kept, kind = seen.values.drop_null(), seen.values.type
    if len(kept) < LEAST_ROWS or not seen.measures:
        return
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        found = days(kept).to_numpy()
        others = found[~np.isin(found, [*ENDS.values()])]
        for date, day in ENDS.items():
            number = int((found == day).sum())
            if number and len(others) and (min(abs(others - day)) > _FARTHEST or date == "1900-01-01"):
                yield _DATES, f"{date} in {counted(number, 'cell')}"
    elif pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        values = np.sort(pc.cast(kept, pa.float64(), safe=False).to_numpy())
        values = values[np.isfinite(values)]
        if np.all(values == np.floor(values)) and np.all(np.diff(values)):
            yield _NUMBERED, "all"
        for code, number in find_codes(values, None).items():
            yield _CODES, f"{code:.12g} in {counted(number, 'cell')}"
        whole = values[(np.abs(values) < _MOST_PACKED) & (values == np.floor(values))].astype(int).astype(str)
        packed = pc.match_substring_regex(pa.array(whole, pa.string()), _YYYYMMDD)
        readable = is_text(seen.cells.type) or pa.types.is_integer(kind)
        if readable and pc.sum(packed, min_count=0).as_py() > _NEARLY_ALL * len(kept):
            yield _PACKED, "all"

    odd = seen.cells.filter(pa.array(seen.odd))
    limits = pc.sum(pc.match_substring_regex(trim(odd), r"^[<>≤≥]"), min_count=0).as_py() if len(odd) else 0
    for number, about in ((limits, _LIMITS), (len(odd) - limits, _WORDS)):
        if number:
            yield about, counted(number, "cell")


_ROWS = 10_000
_LEAST = 2  # columns of second moments


def words_in_first_rows(table: Table, policy: Policy, n_rows: int) -> dict[str, Counter[str]]:
    """Return the values of every column that the search would take for words, in the first rows, which are private.

    A column with hardly any value is among them, and has none.
    """
    found: dict[str, Counter[str]] = {}
    sought, missing = sought_of(policy), table.cells.written.missing
    asked = dict.fromkeys(sought.looked, "text")
    batch = table.head(asked, _ROWS) if asked else None
    sigma = Steps(policy, sought, n_rows).counts.sigma if asked else 0.0
    for name, cells in zip(asked, [] if batch is None else batch.columns, strict=False):
        counts = count_looks(cells, missing) * (n_rows / max(len(cells), 1))
        column = Counted(Counter(dict(zip(LOOKS, counts.tolist(), strict=True))), sigma, n_rows)
        if all(map(column.hardly_any, ".,")):
            found[name] = Counter()
        elif column.look is Look.WORD:
            found[name] = Counter()
            count_values(read_answers(cells, missing), found[name])
    return found


def columns_of(
    policy: Policy, n_rows: int, words: Mapping[str, Counter[str]], *, surely: bool = False
) -> tuple[Policy, dict[str, int]]:
    """Return the policy with so many columns of words, and as how many each is published, if all rows are as the first.

    A number is published as one; what has an even chance to be told is, or with `surely` what is most of the time.
    """
    sought = sought_of(policy)
    least = max(least_level(policy, n_rows, len(words), MOSTLY * surely), LEAST_LEVEL) if words else 1.0
    parts = dict.fromkeys(sought.names, 1)
    for name, counts in words.items():
        told = [number for number in counts.values() if number >= least * counts.total()]
        others = sum(told) < (1 - least / 2) * counts.total()
        n_levels = len(told) + others if sum(told) > HELD * counts.total() else 0
        parts[name] = n_levels if n_levels > 2 else n_levels // 2
    return policy.changed(sought=sought._replace(n_listed=len(words))), parts


def doubt_words(prepared: Prepared) -> list[str]:
    """Return a sentence if the first rows show that hardly any column would be left.

    It is a warning and no refusal: whether there is a release must not depend on counts without noise.
    """
    policy, n_rows = prepared.policy, prepared.count_rows()
    words, least = words_in_first_rows(prepared.table, policy, n_rows), _LEAST if policy.privacy.is_moments else 1
    if _n_left(policy, n_rows, words) >= least:
        return []
    enough = least_mu(policy, lambda weaker: _n_left(weaker, n_rows, words, surely=True) >= least)
    way = "" if enough is None else f"{describe_weaker(enough)}, or "
    return [
        f"of the words in {n_rows:,} rows, too few stand out from the noise. Fewer than {least} columns may be left, "
        f"and the release be refused after it was paid for: {way}declare what the columns hold{A_POLICY}"
    ]


def _n_left(policy: Policy, n_rows: int, words: Mapping[str, Counter[str]], *, surely: bool = False) -> int:
    """Return of how many columns of the table something would be published."""
    return sum(part > 0 for part in columns_of(policy, n_rows, words, surely=surely)[1].values())


def left_out_by_first_rows(policy: Policy, n_rows: int, words: Mapping[str, Counter[str]]) -> dict[str, str]:
    """Return the columns of words of which nothing would be published if all rows are as the first ones, and why."""
    parts = columns_of(policy, n_rows, words)[1]
    least = least_level(policy, n_rows, len(words), 0.0) if words else 1.0
    gone = {name: max(counts.values(), default=0) / max(counts.total(), 1) for name, counts in words.items()}
    return {
        name: ONE_LEVEL if most > HELD else TOO_RARE if most >= least else NAMES if most else HARDLY_ANY
        for name, most in gone.items()
        if not parts[name]
    }


def point_out_rare(table: Table, policy: Policy, n_rows: int) -> list[str]:
    """Return a sentence on the columns that are searched for and of which nothing would be published, if there are."""
    rare = reasons(left_out_by_first_rows(policy, n_rows, words_in_first_rows(table, policy, n_rows)))
    return [f"probably left out as well, by the first rows, for your eyes only: {rare}"] if rare else []


def forecast_first_rows(plan: Plan) -> str:
    """Return a sentence with the forecast of the columns that the first rows show."""
    policy, parts = columns_of(plan.policy, plan.n_rows, words_in_first_rows(plan.table, plan.policy, plan.n_rows))
    kinds = {str(place): "continuous" for place in range(sum(parts.values()))}
    if len(kinds) < _LEAST:
        return f"as the first rows look, fewer than {_LEAST} columns are left to publish: declare what the columns hold"
    row = forecast(policy, kinds, plan.n_rows)
    return (
        f"as the first rows look, {counted(len(kinds), 'column')} would be published for "
        f"{sum(part > 0 for part in parts.values())} of the table, with a standard error of a correlation of "
        f"{row.shown.error:.2g}"
    )
