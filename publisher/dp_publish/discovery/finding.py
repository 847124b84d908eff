"""What the columns of a table are where nothing is declared of them: looked at privately, and decided.

Two steps look at the table, each with a cost of its own (`shares`), and everything else follows from what they told:

1. **Counts.** The cells of every column of text by what they look like (`looks`), those of any other column by whether
   they have a value. A row moves the counts of a column of text by sqrt(2), and of another by 1.
2. **Levels.** The values of columns of words, those that are frequent (`levels`).

Of a table of more than 2^18 rows, every second, fourth or eighth block of 1,024 and so on is looked at, by their
places, which are public; so that the values of a column fit into memory, whatever they are.
"""

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dp_bundle.base.quoting import listed
from dp_bundle.manifest.guarantee import Discovery
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
from dp_publish.policy.model import ColumnPolicy, Policy, Sought
from dp_publish.policy.open_columns import DiscoveryShares, reasons, share_mu

_CLEAR, _SURE = 4.0, 4.5  # standard deviations of the noise on a count
_LEAST_SHARE = 0.01  # of the rows, of gaps or other values that are worth a column
_HARDLY_ANY = 0.2  # of the rows: where noise cannot tell fewer values from none, a column counts as one that has values
LEAST_LEVEL = 0.02  # of the rows that have a value
HELD = 0.5  # of the rows that have a value: what its levels hold at least of a column that is published
_LONGEST = 200  # characters of a level
_OTHER = "other"
TOO_RARE = (
    "words: the levels with at least 2 % of the rows, and more than the noise can hide, hold less than half of them"
)
AMBIGUOUS = (
    'numbers like 1,234 or 1.234, of which the mark may separate thousands or decimals: decimal = "." or "," says which'
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
    left_out : dict of str to str
        Columns that are not published, and why.
    said : list of str
        Sentences for the publisher.
    """

    table: Table = field(repr=False)
    policy: Policy
    discovery: Discovery
    left_out: dict[str, str]
    said: list[str]


Read = Callable[[dict[str, str]], Iterator[pa.RecordBatch]]


def discover(table: Table, look: Read, policy: Policy, found: Sought, play: Play) -> Told:
    """Look at the rows of a table, and return what the steps told, each with the outcome that `play` gives it.

    Parameters
    ----------
    table : Table
        As it was opened.
    look : callable
        Yields those of its rows that are looked at, with the columns of some kinds; the same ones again and again.
    policy : Policy
        The strength.
    found : Sought
        The columns.
    play : callable
        Draws an outcome of a step.
    """
    missing = table.cells.written.missing
    totals, n_counted = _count_cells(look, found, missing)
    step = _counts_step(policy, found, n_counted)
    counts = [int(number) for number in play(step, totals)]

    words = _words_of(_decide_looks(_by_column(counts, found), found, step.sigma))
    if not words:
        return Told(n_counted, counts, [])
    values = _count_levels(look, words, missing)
    return Told(n_counted, counts, play(_levels_step(policy, found, n_counted, len(words)), values))


def decide(table: Table, policy: Policy, found: Sought, told: Told) -> Decided:
    """Return what the columns are, from what was told alone."""
    n_rows, counted = told.n_rows, _by_column(told.counts, found)
    step = _counts_step(policy, found, n_rows)
    looks = _decide_looks(counted, found, step.sigma)
    decimals, words = _decimals(table, counted, step.sigma), _words_of(looks)
    table = _as_found(table, looks, decimals)

    decided: dict[str, ColumnPolicy | str] = {}
    for name in found.names:
        look = looks.get(name)
        without = _without_value(counted[name], look, decimals[name], n_rows, step.sigma)
        if look is Look.WORD:
            decided[name] = ""  # until its levels are known
        elif all(n_rows - number < min(_CLEAR * sigma, _HARDLY_ANY * n_rows) for number, sigma in without[-2:]):
            decided[name] = "hardly any value"
        elif not decimals[name]:
            decided[name] = AMBIGUOUS
        else:
            has_gaps = any(number > max(_CLEAR * sigma, _LEAST_SHARE * n_rows) for number, sigma in without)
            fractions, sigma = _sum(counted[name], FRACTIONS, step.sigma)
            decided[name] = _section(table, name, look, has_gaps=has_gaps, is_whole=fractions <= _CLEAR * sigma)

    levels = _levels_step(policy, found, n_rows, len(words)) if words else None
    for name, kept in zip(words, told.levels, strict=True):
        assert levels is not None  # noqa: S101  there are words
        answers = sum(number for value, number in kept.items() if value.lower() in GAPS)
        noise = math.hypot(step.sigma, levels.sigma) if answers else step.sigma
        decided[name] = _category(kept, n_rows, counted[name][Look.GAP] - answers, levels.sigma, noise)

    left_out = found.left_out | {name: why for name, why in decided.items() if isinstance(why, str)}
    sections = {
        name: _with_words(_of_rows(section) if policy.privacy.release == "rows" else section, policy.column(name))
        for name, section in decided.items()
        if not isinstance(section, str)
    }
    discovery = Discovery(
        kinds=tuple(name for name in looks if name in sections),
        levels=tuple(name for name in words if name in sections),
        n_rows=n_rows,
        n_counted=len(found.looked),
        n_gaps=len(found.typed),
        counts_sigma=step.sigma,
        n_listed=len(words),
        levels_sigma=None if levels is None else levels.sigma,
        threshold=None if levels is None else float(levels.threshold),
    )
    rows, dropped = policy.privacy.max_rows, {name: ColumnPolicy(drop=True) for name in left_out}
    rest = {"mu": _shares(policy, found, n_rows, len(words)).rest * rows, "rho": None}
    changed = {"columns": sections | dropped, "sought": None, "privacy": policy.privacy.model_copy(update=rest)}
    truths = [name for name in sections if name in table.booleans or looks.get(name) is Look.TRUTH]
    said = _describe(sections, truths, left_out)
    return Decided(table, policy.model_copy(update=changed), discovery, left_out, said)


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


def _shares(policy: Policy, found: Sought, n_rows: int, n_listed: int) -> DiscoveryShares:
    return share_mu(_row_mu(policy), n_rows, found.square, n_listed)


def _counts_step(policy: Policy, found: Sought, n_rows: int) -> NoisyCounts:
    return NoisyCounts("looks and gaps", _shares(policy, found, n_rows, 0).counts, found.square)


def _levels_step(policy: Policy, found: Sought, n_rows: int, n_listed: int) -> NoisyLevels:
    return NoisyLevels(_shares(policy, found, n_rows, n_listed).levels, n_listed, policy.privacy.max_rows)


def _count_cells(look: Read, found: Sought, missing: tuple[str, ...]) -> tuple[NDArray[np.int64], int]:
    """Return the counts of looks, column after column, then those of gaps; and of how many rows."""
    totals = {name: np.zeros(len(LOOKS) if name in found.looked else 1, dtype=np.int64) for name in found.names}
    n_counted = 0
    for batch in look(dict.fromkeys(found.looked, "text") | dict.fromkeys(found.typed, AS_IT_IS)):
        n_counted += batch.num_rows
        for (name, total), values in zip(totals.items(), batch.columns, strict=True):
            is_text = name in found.looked
            total += count_looks(values, missing) if is_text else pc.is_null(values, nan_is_null=True).true_count
    return np.concatenate([*totals.values()]), n_counted


def _count_levels(look: Read, names: Sequence[str], missing: tuple[str, ...]) -> Counts:
    found: list[Counter[str]] = [Counter() for _ in names]
    convert = converter(Look.WORD, ".", missing)
    for batch in look(dict.fromkeys(names, "text")):
        for counts, words in zip(found, batch.columns, strict=True):
            count_values(convert(words), counts)
    return [Counter({value: number for value, number in counts.items() if _may_be_level(value)}) for counts in found]


def _may_be_level(value: str) -> bool:
    return 0 < len(value) <= _LONGEST and value.isprintable() and value != NO_VALUE


def _by_column(counts: Sequence[int], found: Sought) -> dict[str, Counter[Look]]:
    """Return the noisy counts of every column: of looks, or of gaps alone."""
    rest = iter(counts)
    return {
        name: Counter({look: next(rest) for look in (LOOKS if name in found.looked else (Look.GAP,))})
        for name in found.names
    }


def _decide_looks(counted: Mapping[str, Counter[Look]], found: Sought, sigma: float) -> dict[str, Look]:
    """Return what each column of text is."""
    return {name: best_look(counted[name], _SURE * sigma, sigma) for name in found.looked}


def _words_of(looks: Mapping[str, Look]) -> list[str]:
    """Return the columns of words, whose levels are to be found."""
    return [name for name, look in looks.items() if look is Look.WORD]


def _sum(noisy: Counter[Look], looks: Collection[Look], sigma: float) -> tuple[int, float]:
    """Return the noisy number of cells of some looks, and its noise."""
    return sum(noisy[look] for look in looks), math.sqrt(len(looks)) * sigma


def _without_value(
    noisy: Counter[Look], look: Look | None, decimal: str, n_rows: int, sigma: float
) -> list[tuple[int, float]]:
    """Return noisy numbers of cells without a value, and their noise: of gaps; with words; of whatever has none."""
    gaps = [_sum(noisy, (Look.GAP,), sigma)]
    if look is None:
        return gaps
    fits, noise = _sum(noisy, fitting(look, decimal), sigma)
    return [*gaps, _sum(noisy, (Look.GAP, Look.WORD), sigma), (n_rows - fits, noise)]


def _decimals(table: Table, counted: Mapping[str, Counter[Look]], sigma: float) -> dict[str, str]:
    """Return the decimal mark of every column: that of its numbers in text, if they tell, else that of all.

    It is nothing where a column has numbers like 1,234 or 1.234, of which no number tells what their mark separates.
    """
    written = table.cells.written
    if written.decimal:
        return dict.fromkeys(counted, written.decimal)

    def tells(noisy: Counter[Look]) -> bool:
        return abs(_sum(noisy, WITH_COMMA, sigma)[0] - noisy[Look.POINT]) > 2 * _CLEAR * sigma

    is_told = written.has_points or any(map(tells, counted.values()))
    of_all = decimal_mark([*counted.values()], grouped=written.has_points) if is_told else ""
    decimals = {}
    for name, noisy in counted.items():
        own = decimal_mark([noisy], grouped=False) if tells(noisy) else of_all
        doubtful = max(noisy[Look.GROUPED], noisy[Look.GROUPED_POINT]) > _SURE * sigma
        decimals[name] = own or ("" if doubtful else ".")
    return decimals


def _section(table: Table, name: str, look: Look | None, *, has_gaps: bool, is_whole: bool) -> ColumnPolicy:
    """Return what a policy would say of a column that is no words."""
    if name in table.booleans and has_gaps:
        return ColumnPolicy(kind="category", categories=("false", "true"), missing="category")
    declared = table.types[name]
    said: dict[str, Any] = {"kind": _KINDS[declared]} if declared in _KINDS else {}
    if look is Look.TRUTH:
        said = {"kind": "integer", "bounds": (0.0, 1.0), "description": "1 is yes or true, 0 is no or false"}
    elif look in NUMBERS:
        said["kind"] = "integer" if is_whole else "continuous"
    return ColumnPolicy(missing="indicator" if has_gaps else "midpoint", **said)


_KINDS = {
    ColumnType.DATE: "date",
    ColumnType.DURATION: "duration",
    ColumnType.TIME: "time",
    ColumnType.TIME_OF_DAY: "time",
}


def _of_rows(section: ColumnPolicy) -> ColumnPolicy:
    """Return the same for rows, of which all noise is to be continuous, so that the guarantee is by mu."""
    changed = {"kind": "continuous", "missing": "midpoint"}
    if section.kind == "category":
        changed = {"mechanism": "randomized-response"}
    elif section.kind in _KINDS.values():
        changed = {"missing": "indicator"}
    return section.model_copy(update=changed)


def _category(kept: Mapping[str, int], n_rows: int, n_gaps: int, sigma: float, gaps_sigma: float) -> ColumnPolicy | str:
    """Return what a policy would say of a column of words, or why it is left out."""
    has_gaps = n_gaps > max(_CLEAR * gaps_sigma, _LEAST_SHARE * n_rows)
    n_values = max(n_rows - max(n_gaps, 0), 1)
    ordered = sorted(kept.items(), key=lambda item: (-item[1], item[0]))  # no tie is broken by the rows
    frequent = [value for value, number in ordered if number >= LEAST_LEVEL * n_values]
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
        return "only one level has more rows than the noise can hide, and more than 1 % of all"
    other = _OTHER if has_others else frequent[0]
    return ColumnPolicy(
        kind="category", categories=tuple(levels), other=other, missing="category" if has_gaps else "other"
    )


def _with_words(section: ColumnPolicy, declared: ColumnPolicy) -> ColumnPolicy:
    description = declared.description or section.description
    return section.model_copy(update={"unit": declared.unit, "description": description})


def _as_found(table: Table, looks: Mapping[str, Look], decimals: Mapping[str, str]) -> Table:
    """Return the table with the types that were found of text; what does not fit is no value."""
    missing = table.cells.written.missing
    found = {name: converter(look, decimals[name], missing) for name, look in looks.items()}
    types = table.types | {name: _TYPES.get(look, ColumnType.DATE) for name, look in looks.items()}
    return replace(table, types=types, cells=replace(table.cells, found=found), layout=None)


_TYPES = dict.fromkeys((*NUMBERS, Look.TRUTH), ColumnType.CONTINUOUS) | {
    Look.WORD: ColumnType.TEXT,
    Look.TIME: ColumnType.TIME,
}


def _describe(sections: Mapping[str, ColumnPolicy], truths: list[str], left_out: Mapping[str, str]) -> list[str]:
    """Return what was found, in sentences."""
    found: dict[str, list[str]] = {"numbers": [], "yes and no": truths, "dates or times": [], "words": []}
    for name, section in sections.items():
        if name not in truths:
            others = "words" if section.kind == "category" else "numbers"
            found["dates or times" if section.kind in _KINDS.values() else others].append(name)
    parts = [f"{len(names)} of {what} ({listed(names)})" for what, names in found.items() if names]
    gaps = [name for name, section in sections.items() if section.missing in ("indicator", "category")]
    beside = f"; gaps are published of {listed(gaps)}" if gaps else ""
    said = [f"columns found privately: {', '.join(parts) or 'none'}{beside}"]
    other = [name for name, section in sections.items() if section.missing == "other"]
    said += [f"gaps and rare values of {listed(other)} count as other, or as the most frequent level"] if other else []
    return [*said, *([f"left out: {reasons(left_out)}"] if left_out else [])]
