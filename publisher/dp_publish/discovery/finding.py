"""What the columns of a table are where nothing is declared of them: looked at privately, and decided.

Two steps look at the table, each with a cost of its own (`shares`), and everything else follows from what they told:

1. **Counts.** The cells of every column of a text file by what they look like (`looks`), those of any other column by
   whether they have a value. A row moves the counts of a text file's column by sqrt(2), and of another by 1.
2. **Levels.** The values of columns of words, those that are frequent (`levels`).

Of a table of more than 2^18 rows, every second, fourth or eighth block of 1,024 and so on is looked at, by their
places, which are public; so that the values of a column fit into memory, whatever they are.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dp_bundle.base.quoting import listed
from dp_bundle.manifest.discovery import Discovery
from dp_bundle.manifest.sources import NO_VALUE
from dp_publish.covariance.two_rounds.steps import NoisyCounts, Play
from dp_publish.data.cells import GAPS
from dp_publish.data.kinds import AS_IT_IS, ColumnType
from dp_publish.data.row_ranges import BLOCK, spread
from dp_publish.data.table import Table
from dp_publish.discovery.levels import Counts, NoisyLevels, count_values
from dp_publish.discovery.looks import (
    FRACTIONS,
    LOOKS,
    NUMBERS,
    WITH_COMMA,
    Look,
    best_look,
    converter,
    count_looks,
    decimal_mark,
    fitting,
)
from dp_publish.policy.model import ColumnPolicy, Policy
from dp_publish.policy.open_columns import Candidates, DiscoveryShares, reasons, share_mu

_CLEAR, _SURE = 4.0, 4.5  # standard deviations of the noise on a count
_LEAST_SHARE = 0.01  # of the rows, of gaps or other values that are worth a column
_LEAST_LEVEL, MOST_LEVELS = 0.02, 12  # of the rows that have a value; and how many levels are kept
HELD = 0.5  # of the rows that have a value: what its levels hold at least of a column that is published
_LONGEST = 200  # characters of a level
_OTHER = "other"
TOO_RARE = "words of which too few are frequent enough to be told apart from the noise"
AMBIGUOUS = (
    "numbers like 1,234 or 1.234, of which the mark may separate thousands or decimals: "
    'in a policy, decimal = "." or "," under [table] says which'
)
NAMES = "words of which none is frequent enough to be told apart from the noise, as of names or free text"


@dataclass(frozen=True)
class Told:
    """What the two steps told, which anybody may know."""

    n_rows: int
    counts: list[int]
    levels: list[dict[str, int]]


@dataclass(frozen=True)
class Decided:
    """What follows from what was told.

    Attributes
    ----------
    table : Table
        With the columns' types, as they were found.
    policy : Policy
        With a section for every column, at what is left of the strength.
    discovery : Discovery
        What the manifest states.
    mu : float
        What it cost the unit of privacy.
    left_out : dict of str to str
        Columns that are not published, and why.
    said : list of str
        Sentences for the publisher.
    """

    table: Table = field(repr=False)
    policy: Policy
    discovery: Discovery
    mu: float
    left_out: dict[str, str]
    said: list[str]


Read = Callable[[dict[str, str]], Iterator[pa.RecordBatch]]


def discover(table: Table, look: Read, policy: Policy, found: Candidates, play: Play) -> Told:
    """Look at the rows of a table, and return what the steps told, each with the outcome that `play` gives it.

    Parameters
    ----------
    table : Table
        As it was opened.
    look : callable
        Yields those of its rows that are looked at, with the columns of some kinds; the same ones again and again.
    policy : Policy
        The strength.
    found : Candidates
        The columns.
    play : callable
        Draws an outcome of a step.
    """
    missing = table.cells.written.missing
    totals, n_counted = _count_cells(look, found, missing)
    step = _counts_step(policy, found, n_counted)
    noisy = play(step, totals)
    counts = [int(number) for number in noisy]

    looks = _decide_looks(counts, found, step.sigma)
    listed_columns = _words_of(looks, found, policy)
    if not listed_columns:
        return Told(n_counted, counts, [])
    values = _count_levels(look, listed_columns, missing)
    return Told(n_counted, counts, play(_levels_step(policy, found, n_counted, len(listed_columns)), values))


def decide(table: Table, policy: Policy, found: Candidates, told: Told) -> Decided:
    """Return what the columns are, from what was told alone."""
    step = _counts_step(policy, found, told.n_rows)
    looks = _decide_looks(told.counts, found, step.sigma)
    words = _words_of(looks, found, policy)
    gaps = _gaps(told.counts, found)
    left_out, sections = dict(found.left_out), dict[str, ColumnPolicy]()
    decimals, of_rows = _decimals(table, told.counts, found, step.sigma), policy.privacy.release == "rows"
    for name, look in looks.items():
        if look is Look.WORD and name not in words:
            left_out[name] = "words, of which noisy rows would show nothing"
    counted = dict(_looks_of(told.counts, found))
    for name in [*(name for name, look in looks.items() if look is not Look.WORD), *found.typed]:
        without = [(gaps[name], step.sigma)]
        if name in looks:
            without += _without_value(counted[name], looks[name], decimals[name], told.n_rows, step.sigma)
        has_gaps = any(number > max(_CLEAR * sigma, _LEAST_SHARE * told.n_rows) for number, sigma in without)
        if all(number > told.n_rows - _CLEAR * sigma for number, sigma in without[-2:]):
            left_out[name] = "hardly any value"
            continue
        if name in looks and not decimals[name]:
            left_out[name] = AMBIGUOUS
            continue
        whole = name in looks and _is_whole(counted[name], step.sigma)
        of_values = _section(looks.get(name), found.typed.get(name), name in table.booleans, whole, has_gaps)
        sections[name] = _of_rows(of_values) if of_rows else of_values

    levels = _levels_step(policy, found, told.n_rows, len(words)) if words else None
    for name, kept in zip(words, told.levels, strict=True):
        assert levels is not None  # noqa: S101  there are words
        answers = sum(number for value, number in kept.items() if value.lower() in GAPS) if name in looks else 0
        noise = math.hypot(step.sigma, levels.sigma) if answers else step.sigma
        section = _category(kept, told.n_rows, gaps[name] - answers, levels.sigma, noise)
        if isinstance(section, str):
            left_out[name] = section
        else:
            sections[name] = section.model_copy(update={"mechanism": "randomized-response"}) if of_rows else section

    typed = _as_found(table, looks, decimals)
    dropped = {name: ColumnPolicy(drop=True) for name in table.types if name not in sections}
    described = {name: _with_words(section, policy.column(name)) for name, section in sections.items()}
    shares = _shares(policy, found, told.n_rows, len(words))
    discovery = Discovery(
        kinds=tuple(name for name in looks if name in sections),
        levels=tuple(name for name in words if name in sections),
        n_rows=told.n_rows,
        n_counted=len(found.looked),
        n_gaps=len(found.typed) + len(found.words),
        counts_sigma=step.sigma,
        n_listed=len(words),
        levels_sigma=None if levels is None else levels.sigma,
        threshold=None if levels is None else float(levels.threshold),
    )
    rows = policy.privacy.max_rows
    rest = {"mu": shares.rest * rows, "rho": None}
    changed = {"columns": {**described, **dropped}, "sought": None, "privacy": policy.privacy.model_copy(update=rest)}
    truths = [name for name in sections if name in table.booleans or looks.get(name) is Look.TRUTH]
    said = _describe(sections, truths, left_out)
    return Decided(typed, policy.model_copy(update=changed), discovery, discovery.mu(rows), left_out, said)


def thinned(batches: Iterable[pa.RecordBatch], n_rows: int) -> Iterator[pa.RecordBatch]:
    """Yield blocks of rows that are evenly spread by their places alone; all of them if these are not too many."""
    every, start = spread(n_rows), 0
    for batch in batches:
        blocks = np.arange(start, start + batch.num_rows) // BLOCK
        yield batch if every == 1 else batch.filter(pa.array(blocks % every == 0))
        start += batch.num_rows


def _row_mu(policy: Policy) -> float:
    strength = policy.privacy.strength
    assert strength is not None  # noqa: S101  nothing is found without a guarantee
    return strength.mu / policy.privacy.max_rows


def _shares(policy: Policy, found: Candidates, n_rows: int, n_listed: int) -> DiscoveryShares:
    return share_mu(_row_mu(policy), n_rows, found.square, n_listed)


def _counts_step(policy: Policy, found: Candidates, n_rows: int) -> NoisyCounts:
    return NoisyCounts("looks and gaps", _shares(policy, found, n_rows, 0).counts, found.square)


def _levels_step(policy: Policy, found: Candidates, n_rows: int, n_listed: int) -> NoisyLevels:
    return NoisyLevels(_shares(policy, found, n_rows, n_listed).levels, n_listed, policy.privacy.max_rows)


def _count_cells(look: Read, found: Candidates, missing: tuple[str, ...]) -> tuple[NDArray[np.int64], int]:
    """Return the counts of looks, column after column, then those of gaps; and of how many rows."""
    looks = np.zeros((len(found.looked), len(LOOKS)), dtype=np.int64)
    gaps, n_counted = np.zeros(len(found.typed) + len(found.words), dtype=np.int64), 0
    kinds = dict.fromkeys(found.looked, "text") | dict.fromkeys([*found.typed, *found.words], AS_IT_IS)
    for batch in look(kinds):
        n_counted += batch.num_rows
        for place, values in enumerate(batch.columns):
            if place < len(looks):
                looks[place] += count_looks(values, missing)
            else:
                gaps[place - len(looks)] += pc.sum(pc.is_null(values, nan_is_null=True)).as_py()
    return np.concatenate([looks.ravel(), gaps]), n_counted


def _count_levels(look: Read, names: Sequence[str], missing: tuple[str, ...]) -> Counts:
    found: list[Counter[str]] = [Counter() for _ in names]
    convert = converter(Look.WORD, ".", missing)
    for batch in look(dict.fromkeys(names, "text")):
        for counts, words in zip(found, batch.columns, strict=True):
            count_values(convert(words), counts)
    return [Counter({value: number for value, number in counts.items() if _may_be_level(value)}) for counts in found]


def _may_be_level(value: str) -> bool:
    return 0 < len(value) <= _LONGEST and value.isprintable() and value != NO_VALUE


def _looks_of(counts: Sequence[int], found: Candidates) -> Iterator[tuple[str, dict[Look, int]]]:
    for place, name in enumerate(found.looked):
        start = place * len(LOOKS)
        yield name, dict(zip(LOOKS, counts[start : start + len(LOOKS)], strict=True))


def _decide_looks(counts: Sequence[int], found: Candidates, sigma: float) -> dict[str, Look]:
    """Return what each column of a text file is; digits of which some begin with a zero are words."""
    decided = {}
    for name, noisy in _looks_of(counts, found):
        look = best_look(noisy)
        decided[name] = Look.WORD if look is Look.WHOLE and noisy[Look.CODE] > _SURE * sigma else look
    return decided


def _words_of(looks: Mapping[str, Look], found: Candidates, policy: Policy) -> list[str]:
    """Return the columns of words whose levels are to be found."""
    looked = [] if policy.find == "numbers" else [name for name, look in looks.items() if look is Look.WORD]
    return [*looked, *found.words]


def _without_value(
    noisy: Mapping[Look, int], look: Look, decimal: str, n_rows: int, sigma: float
) -> list[tuple[int, float]]:
    """Return noisy numbers of cells without a value, and their noise: of gaps and words; of whatever has none."""
    fits = fitting(look, decimal)
    words = (noisy[Look.GAP] + noisy[Look.WORD], math.sqrt(2) * sigma)
    return [words, (n_rows - sum(noisy[each] for each in fits), math.sqrt(len(fits)) * sigma)]


def _is_whole(noisy: Mapping[Look, int], sigma: float) -> bool:
    return sum(noisy[look] for look in FRACTIONS) <= _CLEAR * math.sqrt(len(FRACTIONS)) * sigma


def _gaps(counts: Sequence[int], found: Candidates) -> dict[str, int]:
    """Return the noisy number of gaps of every column."""
    looked = {name: noisy[Look.GAP] for name, noisy in _looks_of(counts, found)}
    others = zip([*found.typed, *found.words], counts[len(found.looked) * len(LOOKS) :], strict=True)
    return looked | dict(others)


def _decimals(table: Table, counts: Sequence[int], found: Candidates, sigma: float) -> dict[str, str]:
    """Return the decimal mark of every column of text: that of its numbers, if they tell, else that of all.

    It is nothing where a column has numbers like 1,234 or 1.234, of which no number tells what their mark separates.
    """
    written, counted = table.cells.written, dict(_looks_of(counts, found))
    if written.decimal:
        return dict.fromkeys(counted, written.decimal)

    def tells(noisy: Mapping[Look, int]) -> bool:
        by_comma = sum(noisy[look] for look in WITH_COMMA)
        return abs(by_comma - noisy[Look.POINT]) > 2 * _CLEAR * sigma

    is_told = written.has_points or any(map(tells, counted.values()))
    of_all = decimal_mark([*counted.values()], grouped=written.has_points) if is_told else ""
    decimals = {}
    for name, noisy in counted.items():
        own = decimal_mark([noisy], grouped=False) if tells(noisy) else of_all
        doubtful = max(noisy[Look.GROUPED], noisy[Look.GROUPED_POINT]) > _SURE * sigma
        decimals[name] = own or ("" if doubtful else ".")
    return decimals


def _section(
    look: Look | None, declared: ColumnType | None, is_boolean: bool, is_whole: bool, has_gaps: bool
) -> ColumnPolicy:
    """Return what a policy would say of a column that is no words."""
    if is_boolean and has_gaps:
        return ColumnPolicy(kind="category", categories=("false", "true"), missing="category")
    said: dict[str, Any] = {"missing": "indicator" if has_gaps else "midpoint"}
    kinds = {ColumnType.DATE: "date", ColumnType.TIME: "time", ColumnType.TIME_OF_DAY: "time"}
    kinds |= {ColumnType.DURATION: "duration"}
    if declared in kinds:
        said["kind"] = kinds[declared]
    elif look is Look.TRUTH:
        said |= {"kind": "integer", "bounds": (0.0, 1.0), "description": "1 is yes or true, 0 is no or false"}
    elif look in NUMBERS:
        said["kind"] = "integer" if is_whole else "continuous"
    elif look is not None:
        said["kind"] = "time" if look is Look.TIME else "date"
    return ColumnPolicy(**said)


def _of_rows(section: ColumnPolicy) -> ColumnPolicy:
    """Return the same for rows, of which all noise is to be continuous, so that the guarantee is by mu."""
    if section.kind in ("date", "time", "duration"):
        return section.model_copy(update={"missing": "indicator"})
    return section.model_copy(update={"kind": "continuous", "missing": "midpoint"})


def _category(kept: Mapping[str, int], n_rows: int, n_gaps: int, sigma: float, gaps_sigma: float) -> ColumnPolicy | str:
    """Return what a policy would say of a column of words, or why it is left out."""
    has_gaps = n_gaps > max(_CLEAR * gaps_sigma, _LEAST_SHARE * n_rows)
    n_values = max(n_rows - max(n_gaps, 0), 1)
    ordered = sorted(kept.items(), key=lambda item: (-item[1], item[0]))  # no tie is broken by the rows
    frequent = [value for value, number in ordered[:MOST_LEVELS] if number >= _LEAST_LEVEL * n_values]
    levels = sorted(frequent)  # and not by noisy counts, whose order other releases would not have
    held = sum(kept[value] for value in levels)
    if held < HELD * n_values:
        return TOO_RARE if kept else NAMES
    rest = n_values - held
    noise = math.hypot(sigma * math.sqrt(len(levels)), gaps_sigma)
    has_others = rest > max(_CLEAR * noise, _LEAST_SHARE * n_rows)
    if has_others and _OTHER not in levels:
        levels.append(_OTHER)
    if len(levels) < 2:
        return "one value in nearly all rows"
    other = _OTHER if has_others else frequent[0]
    return ColumnPolicy(
        kind="category", categories=tuple(levels), other=other, missing="category" if has_gaps else "other"
    )


def _with_words(section: ColumnPolicy, declared: ColumnPolicy) -> ColumnPolicy:
    description = declared.description or section.description
    return section.model_copy(update={"unit": declared.unit, "description": description})


def _as_found(table: Table, looks: Mapping[str, Look], decimals: Mapping[str, str]) -> Table:
    """Return a text file's table with the types that were found; what does not fit is no value."""
    if not looks:
        return table
    missing = table.cells.written.missing
    found = {name: converter(look, decimals[name], missing) for name, look in looks.items()}
    types = {name: _TYPES.get(look, ColumnType.DATE) for name, look in looks.items()}
    return replace(table, types={**table.types, **types}, cells=replace(table.cells, found=found), layout=None)


_TYPES = dict.fromkeys((*NUMBERS, Look.TRUTH), ColumnType.CONTINUOUS) | {
    Look.WORD: ColumnType.TEXT,
    Look.TIME: ColumnType.TIME,
}


def _describe(sections: Mapping[str, ColumnPolicy], truths: list[str], left_out: Mapping[str, str]) -> list[str]:
    """Return what was found, in sentences."""
    kinds = {name: section.kind for name, section in sections.items() if name not in truths}
    categories = [name for name, kind in kinds.items() if kind == "category"]
    found = {
        "numbers": [name for name, kind in kinds.items() if kind in (None, "continuous", "integer")],
        "yes and no": truths,
        "dates or times": [name for name, kind in kinds.items() if kind in ("date", "time", "duration")],
        "words": categories,
    }
    parts = [f"{len(names)} of {what} ({listed(names)})" for what, names in found.items() if names]
    gaps = [name for name, section in sections.items() if section.missing in ("indicator", "category")]
    beside = f"; gaps are published of {listed(gaps)}" if gaps else ""
    said = [f"columns found privately: {', '.join(parts) or 'none'}{beside}"]
    other = [name for name in categories if sections[name].missing == "other"]
    said += [f"gaps and rare values of {listed(other)} count as other, or as the most frequent level"] if other else []
    return [*said, *([f"left out: {reasons(left_out)}"] if left_out else [])]
