"""What the columns of a table are where nothing is declared of them: looked at privately, and decided.

Two steps look at the table, each with a cost of its own (`shares`), and everything else follows from what they told:

1. **Counts.** The cells of every column of text by what they look like (`looks`), those of any other column by whether
   they have a value. A row moves the counts of a column of text by sqrt(2), and of another by 1.
2. **Levels.** The values of columns of words, those that are frequent (`levels`).

Of a table of more than 2^18 rows, every second, fourth or eighth block of 1,024 and so on is read. Places of rows are
public. So the values of a column fit into memory, whatever they are. Where an entity's rows are protected, or folders
have keys, as many are drawn at random. How many rows an entity has, or a row's key, moves the places of all rows behind
them.
"""

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dp_bundle.base.arrays import Integers
from dp_bundle.base.quoting import listed
from dp_bundle.manifest.columns import NO_VALUE
from dp_bundle.manifest.guarantee import Discovery
from dp_publish.covariance.two_rounds.steps import NoisyCounts, Play
from dp_publish.data.cells import GAPS
from dp_publish.data.kinds import AS_IT_IS, Kinds, stored_kind
from dp_publish.data.row_ranges import RawBatches
from dp_publish.data.table import Table
from dp_publish.discovery.levels import Counts, NoisyLevels, count_values
from dp_publish.discovery.looks import (
    FORMATS,
    FRACTIONS,
    LOOKS,
    NUMBERS,
    TIMES,
    Look,
    best_look,
    commas,
    count_looks,
    decimal_mark,
    fitting,
    read_answers,
    written_as,
)
from dp_publish.policy.model import ColumnPolicy, Policy, Sought
from dp_publish.policy.open_columns import DiscoveryShares, ordered_levels, reasons, share_mu

_CLEAR, _SURE = 4.0, 4.5  # standard deviations of the noise on a count
_LEAST_SHARE = 0.01  # of the rows, of gaps or other values that are worth a column
_HARDLY_ANY = 0.2  # of the rows: where noise cannot tell fewer values from none, a column counts as one that has values
LEAST_LEVEL = 0.02  # of the rows that have a value
HELD = 0.5  # of the rows that have a value: what its levels hold at least of a column that is published
_LONGEST = 200  # characters of a level
_OTHER = "other"
_SAID = ("numbers", "yes and no", "dates or times", "words")
TOO_RARE = (
    "words: the levels with at least 2 % of the rows, and more than the noise can hide, hold less than half of them"
)
AMBIGUOUS = (
    'numbers like 1,234 or 1.234, of which the mark may separate thousands or decimals: decimal = "." or "," says which'
)
ONE_LEVEL = "only one level has at least 2 % of the rows, and the others together hardly more than the noise, or 1 %"
HARDLY_ANY = "hardly any value"
NAMES = "words of which none stands out from the noise, as of names or free text"


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
    truths : list of str
        Those that hold yes and no.
    """

    table: Table = field(repr=False)
    policy: Policy
    discovery: Discovery
    left_out: dict[str, str]
    truths: list[str]

    @property
    def said(self) -> list[str]:
        """Sentences for the publisher."""
        sections = {name: section for name, section in self.policy.columns.items() if not section.drop}
        return _describe(sections, self.truths, self.left_out)

    def with_gaps(self, names: Collection[str]) -> Self:
        """Return the same, with the gaps of some numbers published."""
        columns = self.policy.columns
        shown = {name: columns[name].changed(missing="indicator") for name in names}
        return replace(self, policy=self.policy.changed(columns=columns | shown))


Read = Callable[[Kinds], RawBatches]


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
    ordered = {name: levels for name in found.typed if (levels := ordered_levels(table, name))}
    totals, n_counted = _count_cells(look, found, missing, ordered)
    steps = Steps(policy, found, n_counted)
    counts = [int(number) for number in play(steps.counts, totals)]
    words = [name for name, column in steps.columns(counts).items() if column.look is Look.WORD]
    values = _count_levels(look, words, missing) if words else []
    return Told(n_counted, counts, play(steps.levels(len(words)), values) if words else [])


def decide(table: Table, policy: Policy, found: Sought, told: Told) -> Decided:
    """Return what the columns are, from what was told alone."""
    # 1. What each column is published as, or why it is left out.
    steps = Steps(policy, found, told.n_rows)
    columns = steps.columns(told.counts)
    decimals = _decimals(table, columns)
    words = [name for name, column in columns.items() if column.look is Look.WORD]
    kept, levels = dict(zip(words, told.levels, strict=True)), steps.levels(len(words))
    decided = {
        name: _category(column, kept[name], levels.sigma)
        if name in kept
        else _section(table, name, column, decimals[name])
        for name, column in columns.items()
    }
    left_out = found.left_out | {name: why for name, why in decided.items() if isinstance(why, str)}
    sections = {
        name: _completed(section, policy, policy.column(name))
        for name, section in decided.items()
        if not isinstance(section, str)
    }

    # 2. What is stated of that, and the policy with it.
    discovery = Discovery(
        kinds=tuple(name for name in found.looked if name in sections),
        levels=tuple(name for name in words if name in sections),
        n_rows=told.n_rows,
        n_counted=len(found.looked),
        n_gaps=len(found.typed),
        counts_sigma=steps.counts.sigma,
        n_listed=len(words),
        levels_sigma=levels.sigma if words else None,
        threshold=float(levels.threshold) if words else None,
    )
    rest = policy.with_privacy(mu=steps.shares(len(words)).rest * policy.privacy.max_rows, rho=None)
    dropped = {name: ColumnPolicy(drop=True) for name in left_out}
    truths = [name for name in sections if name in table.booleans or columns[name].look is Look.TRUTH]

    # 3. Cells are read as what their column was found to be.
    missing = table.cells.written.missing
    own = {name: written_as(each.look, decimals[name], missing) for name, each in columns.items() if each.look}
    own |= {name: replace(table.cells.written, is_found=True) for name in columns if ordered_levels(table, name)}
    table = replace(table, cells=replace(table.cells, own=own), layout=None)
    rest = rest.changed(columns=sections | dropped, sought=None, finds_gaps=True)
    return Decided(table, rest, discovery, left_out, truths)


@dataclass(frozen=True)
class Counted:
    """The noisy counts of a column's cells by their looks, or of its gaps alone where its type is declared.

    Attributes
    ----------
    noisy : Counter of Look
        The counts.
    sigma : float
        The standard deviation of the noise on each.
    n_rows : int
        How many cells there are.
    """

    noisy: Counter[Look]
    sigma: float
    n_rows: int

    @property
    def look(self) -> Look | None:
        """What a column of text is."""
        return best_look(self.noisy, _SURE * self.sigma, self.sigma) if len(self.noisy) > 1 else None

    def sum(self, looks: Collection[Look]) -> tuple[int, float]:
        """Return the noisy number of cells of some looks, and its noise."""
        return sum(self.noisy[look] for look in looks), math.sqrt(len(looks)) * self.sigma

    def without_value(self, decimal: str) -> list[tuple[int, float]]:
        """Return noisy numbers of cells without a value, and their noise: of gaps; with words; of what does not fit."""
        gaps = [self.sum((Look.GAP,))]
        if self.look is None:
            return gaps
        fits, noise = self.sum(fitting(self.look, decimal))
        return [*gaps, self.sum((Look.GAP, Look.WORD)), (self.n_rows - fits, noise)]

    def hardly_any(self, decimal: str) -> bool:
        """Return True for a column without values, or with so few that noise cannot tell them from none."""
        least = _HARDLY_ANY * self.n_rows
        return all(
            self.n_rows - number < min(_CLEAR * sigma, least) for number, sigma in self.without_value(decimal)[-2:]
        )

    @property
    def tells_mark(self) -> bool:
        """True if the counts tell whether a comma or a point is the decimal mark."""
        return abs(commas(self.noisy)) > 2 * _CLEAR * self.sigma

    def stands_out(self, number: int, sigma: float) -> bool:
        """Return True for a noisy number of cells that is surely not zero, and worth a column."""
        return number > max(_CLEAR * sigma, _LEAST_SHARE * self.n_rows)


@dataclass(frozen=True)
class Steps:
    """The two steps of a search, which follow from public facts, and what the first of them tells of the columns.

    Attributes
    ----------
    policy : Policy
        The strength.
    found : Sought
        The columns.
    n_rows : int
        How many rows are looked at.
    """

    policy: Policy
    found: Sought
    n_rows: int

    def shares(self, n_listed: int) -> DiscoveryShares:
        """Return the shares of both steps, if the values of so many columns are counted, and the rest."""
        privacy = self.policy.privacy
        assert privacy.strength is not None  # noqa: S101  nothing is found without a guarantee
        return share_mu(privacy.strength.mu / privacy.max_rows, self.n_rows, self.found.square, n_listed)

    @property
    def counts(self) -> NoisyCounts:
        """The first step."""
        return NoisyCounts("looks and gaps", self.shares(0).counts, self.found.square)

    def levels(self, n_listed: int) -> NoisyLevels:
        """Return the second step."""
        return NoisyLevels(self.shares(n_listed).levels, n_listed, self.policy.privacy.max_rows)

    def columns(self, counts: Iterable[int]) -> dict[str, Counted]:
        """Return what the first step tells of every column."""
        rest, sigma, columns = iter(counts), self.counts.sigma, dict[str, Counted]()
        for name in self.found.names:
            noisy = Counter({look: next(rest) for look in (LOOKS if name in self.found.looked else (Look.GAP,))})
            columns[name] = Counted(noisy, sigma, self.n_rows)
        return columns


def _count_cells(
    look: Read, found: Sought, missing: tuple[str, ...], ordered: Mapping[str, Sequence[str]]
) -> tuple[Integers, int]:
    """Return the counts of looks, column after column, then those of gaps; and of how many rows.

    Of a column with levels in an order, what is no level is a gap.
    """
    totals = {name: np.zeros(len(LOOKS) if name in found.looked else 1, dtype=np.int64) for name in found.names}
    n_counted = 0
    for batch in look(dict.fromkeys(found.looked, "text") | dict.fromkeys(found.typed, AS_IT_IS)):
        n_counted += batch.num_rows
        for (name, total), values in zip(totals.items(), batch.columns, strict=True):
            if name in found.looked:
                total += count_looks(values, missing)
            elif name in ordered:
                total += batch.num_rows - pc.is_in(values, value_set=pa.array(ordered[name])).true_count
            else:
                total += pc.is_null(values, nan_is_null=True).true_count
    return np.concatenate([*totals.values()]), n_counted


def _count_levels(look: Read, names: Sequence[str], missing: tuple[str, ...]) -> Counts:
    found: list[Counter[str]] = [Counter() for _ in names]
    for batch in look(dict.fromkeys(names, "text")):
        for counts, words in zip(found, batch.columns, strict=True):
            count_values(read_answers(words, missing), counts)
    return [Counter({value: counts[value] for value in counts if _may_be_level(value)}) for counts in found]


def _may_be_level(value: str) -> bool:
    return 0 < len(value) <= _LONGEST and value.isprintable() and value != NO_VALUE


def _decimals(table: Table, columns: Mapping[str, Counted]) -> dict[str, str]:
    """Return the decimal mark of every column: that of its numbers in text, if they tell, else that of all.

    It is nothing where a column has numbers like 1,234 or 1.234, of which no number tells what their mark separates.
    """
    written = table.cells.written
    if written.decimal:
        return dict.fromkeys(columns, written.decimal)
    is_told = written.has_points or any(column.tells_mark for column in columns.values())
    of_all = decimal_mark([each.noisy for each in columns.values()], grouped=written.has_points) if is_told else ""
    decimals = {}
    for name, column in columns.items():
        own = decimal_mark([column.noisy], grouped=False) if column.tells_mark else of_all
        decimals[name] = own or ("" if column.noisy[Look.DOUBTFUL] > _SURE * column.sigma else ".")
    return decimals


def _section(table: Table, name: str, column: Counted, decimal: str) -> ColumnPolicy | str:
    """Return what a policy would say of a column that is no words, or why it is left out."""
    look, without = column.look, column.without_value(decimal)
    if column.hardly_any(decimal):
        return HARDLY_ANY
    if not decimal:
        return AMBIGUOUS
    has_gaps = any(column.stands_out(*each) for each in without)
    if name in table.booleans and has_gaps:
        return ColumnPolicy(kind="category", categories=("false", "true"), missing="category")

    said: dict[str, Any] = {"missing": "indicator" if has_gaps else "midpoint"}
    if levels := ordered_levels(table, name):
        return ColumnPolicy(kind="ordered", levels=levels, **said)
    if look is Look.TRUTH:
        said |= {"kind": "integer", "bounds": (0.0, 1.0), "description": "1 is yes or true, 0 is no or false"}
    elif look in NUMBERS:
        has_fractions = any(column.noisy[look] > _CLEAR * column.sigma for look in FRACTIONS)
        said["kind"] = "continuous" if has_fractions else "integer"
    elif look is not None:
        said |= {"kind": "time" if look in TIMES else "date", "format": FORMATS.get(look)}
    elif kind := stored_kind(table.types[name]):
        said["kind"] = kind
    return ColumnPolicy(**said)


def _category(column: Counted, kept: Mapping[str, int], sigma: float) -> ColumnPolicy | str:
    """Return what a policy would say of a column of words, or why it is left out, by the noisy counts of its levels."""
    answers = sum(number for value, number in kept.items() if value.lower() in GAPS)
    n_gaps, gaps_sigma = column.noisy[Look.GAP] - answers, math.hypot(column.sigma, sigma if answers else 0.0)
    n_values = max(column.n_rows - max(n_gaps, 0), 1)
    ordered = sorted(kept.items(), key=lambda item: (-item[1], item[0]))  # no tie is broken by the rows
    frequent = [value for value, number in ordered if number >= LEAST_LEVEL * n_values]
    levels = sorted(frequent)  # and not by noisy counts, whose order other releases would not have
    held = sum(kept[value] for value in levels)
    if held < HELD * n_values:
        return TOO_RARE if kept else NAMES
    has_others = column.stands_out(n_values - held, math.hypot(sigma * math.sqrt(len(levels)), gaps_sigma))
    if has_others and _OTHER not in levels:
        levels.append(_OTHER)
    if len(levels) < 2:
        return ONE_LEVEL
    missing: Literal["category", "other"] = "category" if column.stands_out(n_gaps, gaps_sigma) else "other"
    other = _OTHER if has_others else frequent[0]
    return ColumnPolicy(kind="category", categories=tuple(levels), other=other, missing=missing)


def _completed(section: ColumnPolicy, policy: Policy, declared: ColumnPolicy) -> ColumnPolicy:
    """Return a section with the words that were declared; for rows, with noise that is continuous all over.

    Then the guarantee is by mu.
    """
    changed: dict[str, Any] = {"unit": declared.unit, "description": declared.description or section.description}
    if policy.privacy.release != "rows":
        return section.changed(**changed)
    if section.kind == "category":
        changed["mechanism"] = "randomized-response"
    elif section.kind == "ordered" or section.holds.stored_as is not None:
        changed["missing"] = "indicator"
    else:
        changed |= {"kind": "continuous", "missing": "midpoint"}
    return section.changed(**changed)


def _describe(sections: Mapping[str, ColumnPolicy], truths: list[str], left_out: Mapping[str, str]) -> list[str]:
    """Return what was found, in sentences."""
    what = {
        name: "yes and no"
        if name in truths
        else "dates or times"
        if section.holds.stored_as is not None
        else "words"
        if section.kind == "category"
        else "numbers"
        for name, section in sections.items()
    }
    found = {kind: [name for name in what if what[name] == kind] for kind in _SAID}
    parts = [f"{len(names)} of {kind} ({listed(names)})" for kind, names in found.items() if names]
    gaps = [name for name, section in sections.items() if section.missing in ("indicator", "category")]
    beside = f"; gaps are published of {listed(gaps)}" if gaps else ""
    said = [f"columns found privately: {', '.join(parts) or 'none'}{beside}"]
    other = [name for name, section in sections.items() if section.missing == "other"]
    said += [f"gaps and rare values of {listed(other)} count as other, or as the most frequent level"] if other else []
    return [*said, *([f"left out: {reasons(left_out)}"] if left_out else [])]
