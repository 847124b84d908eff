"""Published columns that indicate a category's levels: from what came out to unbiased indicators, and their noise.

By randomised response a level x comes out as itself with probability p and as any other with probability q. So ``(y_k -
q) / (p - q)`` has the mean 1[x = k]. Given x its covariance is ``(diag(pi) - pi pi^T) / (p - q)^2``, with pi the
probabilities of what comes out. Its mean over rows is linear in the frequencies of the levels, which are estimated
without bias, and so is it. With noise of its own on each column, nothing of this is needed.

A category stands in a graph by the columns of all of its levels but one. Those that are too rare to be told apart are
left out. The indicators of all levels add up to one, so that one of them says nothing. The most frequent level is left
out, as the reference. A level that the noise drowns, or that makes the others look determined by one another, counts
with it.

A number and the indicator of its gaps stand for it together, or the number alone where gaps are too few. Let a column's
mean differ by d standard deviations in the share w of the rows that are gaps. Then it has the correlation d sqrt(w (1 -
w)) with their indicator. Gaps are too few where half a standard deviation would not be two standard errors of it, noise
included. What they said would be noise, and the node's weight and sign would be lost to it.

References
----------
Warner (1965), JASA 60(309). Chaudhuri & Mukerjee (1988), Randomized Response, section 2.4.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby

import numpy as np

from dp_bundle.base.errors import DrownedColumnError
from dp_bundle.base.quoting import listed, quote_name
from dp_bundle.manifest.columns import Column, RandomizedResponse, Source
from dp_learn.covariance.collinear import clear_columns, find_determined
from dp_learn.covariance.estimate import PooledCovariance, keep_columns
from dp_learn.covariance.moments import Change
from dp_learn.covariance.standard_errors import clear_variances, null_standard_errors
from dp_learn.matrices.linalg import FloatArray, Mask, Places, smallest_eigenvalue

LEAST = 1e-3  # eigenvalue of a category's correlations
_ERRORS = 2.0  # standard errors of an eigenvalue, or of a correlation with gaps
_SHIFT = 0.5  # standard deviations of a mean where there are gaps


@dataclass(frozen=True, eq=False)
class Levels:
    """The levels that columns indicate, and the noise on them.

    Attributes
    ----------
    nodes : tuple of str
        The raw table's column that each published one comes from.
    sources : tuple of Source
        What those stand for that are no numbers.
    responses : tuple of (ndarray of int, RandomizedResponse)
        The places of the columns that randomised response is on, a pair for each category.
    fills : dict of str to float
        Where numbers stand that have none, by the name of the node; a second column is 1 there.
    reaches : dict of str to float
        The largest correlation that a column can have with normal scores, by its name: 1 if it stands as such.
    """

    nodes: tuple[str, ...]
    sources: tuple[Source, ...]
    responses: tuple[tuple[Places, RandomizedResponse], ...] = ()
    fills: Mapping[str, float] = field(default_factory=dict)
    reaches: Mapping[str, float] = field(default_factory=dict)

    @cached_property
    def change(self) -> Change:
        """What makes unbiased indicators of what came out, and leaves all other columns as they are."""
        change = Change(np.zeros(len(self.nodes)), np.ones(len(self.nodes)))
        for places, response in self.responses:
            change.shift[places], change.factor[places] = response.p_other, 1.0 / (response.p_same - response.p_other)
        return change

    @cached_property
    def blocks(self) -> dict[str, Places]:
        """The places of the columns of every node of several."""
        if not self.sources:
            return {}
        nodes, counts = np.array(self.nodes), Counter(self.nodes)
        return {name: np.flatnonzero(nodes == name) for name, count in counts.items() if count > 1}

    def noise(self, mean: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the covariance and the fourth cumulants of what randomised response adds.

        Parameters
        ----------
        mean : ndarray of shape (n_features,)
            Of the unbiased indicators: the frequencies of the levels.
        """
        covariance, cumulants = np.zeros((len(mean), len(mean))), np.zeros(len(mean))
        for places, response in self.responses:
            if len(places) == 1:
                frequencies = np.array([1.0 - mean[places[0]], mean[places[0]]])
                both, fourth = _response_noise(frequencies, response)
                covariance[places[0], places[0]], cumulants[places[0]] = both[1, 1], fourth[1]
            else:
                covariance[np.ix_(places, places)], cumulants[places] = _response_noise(mean[places], response)
        return covariance, cumulants


def find_levels(columns: Sequence[Column], sources: Sequence[Source]) -> Levels:
    """Return what the columns indicate; nothing where each is a number, or a level of its own, with noise of its own.

    Parameters
    ----------
    columns : sequence of Column
        Those of a category stand together.
    sources : sequence of Source
        What the manifest says of them.
    """
    if all(column.block is None and column.response is None for column in columns):
        return Levels(tuple(column.name for column in columns), ())
    responses: list[tuple[Places, RandomizedResponse]] = []
    for _, group in groupby(enumerate(columns), key=lambda pair: pair[1].block or pair[1].name):
        members = list(group)
        if (response := members[0][1].response) is not None:
            responses.append((np.array([place for place, _ in members]), response))
    nodes = {name: source.name for source in sources for name in source.columns}
    return Levels(
        tuple(nodes.get(column.name, column.name) for column in columns),
        tuple(sources),
        tuple(responses),
        {column.source_name: fill_of(column) for column in columns if column.missing == "indicator"},
    )


def fill_of(column: Column) -> float:
    """Return the number that stands where a column has no value: in two rounds its center, else the bounds' middle."""
    if column.standards:
        return column.standards[0].center
    low, high = column.bounds or (0.0, 0.0)
    return 0.5 * low + 0.5 * high


def _response_noise(frequencies: FloatArray, response: RandomizedResponse) -> tuple[FloatArray, FloatArray]:
    """Return the covariance of the noise on all levels' indicators, and its fourth cumulants."""
    same, other, n = response.p_same, response.p_other, response.n_levels
    factor = 1.0 / (same - other)
    covariance, fourth = np.zeros((n, n)), np.zeros(n)
    for level, frequency in enumerate(frequencies):
        pi = np.full(n, other)
        pi[level] = same
        variance = pi * (1.0 - pi)
        covariance += frequency * (np.diag(pi) - np.outer(pi, pi))
        fourth += frequency * variance * (1.0 - 3.0 * variance)
    variances = np.diagonal(covariance)
    return covariance * factor**2, (fourth - 3.0 * variances**2) * factor**4


@dataclass(frozen=True, eq=False)
class NodeColumns:
    """The columns that the nodes of a graph are estimated from.

    Attributes
    ----------
    kept : ndarray of int
        Their positions.
    drowned : tuple of str
        The nodes of which nothing is left.
    reference : dict of str to int
        The position of every category's reference level.
    merged : dict of str to list of str
        The levels of a category that count with its reference, if there are any.
    alike : tuple of str
        The numbers whose gaps cannot be told from those of another one.
    determined : dict of str to str
        The columns that are left out as others determine them, each with how.
    """

    kept: Places
    drowned: tuple[str, ...]
    reference: dict[str, int]
    merged: dict[str, list[str]]
    alike: tuple[str, ...] = ()
    determined: dict[str, str] = field(default_factory=dict)


def choose_node_columns(pooled: PooledCovariance, location: FloatArray, levels: Levels) -> NodeColumns:
    """Return the columns that stand for the nodes.

    Parameters
    ----------
    pooled : PooledCovariance
        On all columns.
    location : ndarray of shape (n_features,)
        Their means: of indicators, the frequencies of levels.
    levels : Levels
        What they indicate.

    Raises
    ------
    DrownedColumnError
        Fewer than two nodes are left.
    """
    blocks = levels.blocks
    if not blocks:
        return NodeColumns(*clear_columns(pooled), {}, {})
    clear = clear_variances(pooled)
    reference, usable = {}, {}
    for name, places in blocks.items():
        if name in levels.fills:
            usable[name] = _usable_pair(places, clear, pooled)
        else:
            reference[name] = int(places[np.argmax(location[places])])
            others = places[clear[places] & (places != reference[name])]
            chosen = others[np.argsort(-location[others], kind="stable")]
            while len(chosen) > 1 and not _has_full_rank(chosen, pooled):  # the most frequent ones stay
                chosen = chosen[:-1]
            usable[name] = chosen.astype(np.int64)
    alike = _find_alike({name: int(usable[name][1]) for name in levels.fills if len(usable[name]) == 2}, pooled)

    single = np.setdiff1d(np.flatnonzero(clear), np.concatenate([*blocks.values()]))
    kept = np.sort(np.concatenate([single, *usable.values()])).astype(np.int64)
    left = dict.fromkeys(levels.nodes[place] for place in kept)
    drowned = tuple(name for name in dict.fromkeys(levels.nodes) if name not in left)
    if len(left) < 2:
        raise DrownedColumnError(
            list(drowned),
            "the noise drowns all columns but one, or all: their variance cannot be distinguished from the noise; "
            "learn from a bundle with more rows or less noise",
        )
    merged = {
        name: [pooled.columns[place] for place in np.setdiff1d(blocks[name], [*usable[name], place_of_reference])]
        for name, place_of_reference in reference.items()
        if name in left
    }
    rare = {name: levels for name, levels in merged.items() if levels}
    return NodeColumns(kept, drowned, reference, rare, alike)


def without_determined(columns: NodeColumns, releases: Sequence[PooledCovariance], levels: Levels) -> NodeColumns:
    """Return the columns but for numbers that others determine, as the first release shows that has such ones."""
    nodes = Counter(levels.nodes[place] for place in columns.kept)
    single = np.array([place for place in columns.kept if nodes[levels.nodes[place]] == 1], dtype=np.int64)
    found = filter(None, (find_determined(keep_columns(pooled, single), levels.reaches) for pooled in releases))
    gone = next(found, {})
    others = [place for place in columns.kept if releases[0].columns[place] not in gone]
    return replace(columns, kept=np.array(others), determined=gone)


def rare_gaps(pooled: PooledCovariance, levels: Levels) -> list[str]:
    """Return the numbers whose published gaps are too few to tell anything, on all columns."""
    pairs = {name: levels.blocks[name] for name in levels.fills}
    clear = clear_variances(pooled)
    told = {name: place for name, (_, place) in pairs.items() if len(_usable_pair(pairs[name], clear, pooled)) == 2}
    rare = [name for name in pairs if name not in told]
    if told and pooled.has_errors:
        kept = np.flatnonzero(clear)
        own, gaps = keep_columns(pooled, kept), np.searchsorted(kept, list(told.values()))
        others = np.flatnonzero(~np.isin(kept, [place for _, place in pairs.values()]))
        errors = np.median(null_standard_errors(own)[np.ix_(gaps, others)], axis=1)
        seen = _SHIFT * own.deviations[gaps] >= _ERRORS * errors
        rare += [name for name, is_seen in zip(told, seen, strict=True) if not is_seen]
    return rare


def _usable_pair(places: Places, clear: Mask, pooled: PooledCovariance) -> Places:
    """Return a number and the indicator of its gaps, or those that stand clear: none without the number."""
    if clear[places].all() and _has_full_rank(places, pooled):
        return places.astype(np.int64)
    return places[:1][clear[places[:1]]].astype(np.int64)


def _find_alike(gaps: dict[str, int], pooled: PooledCovariance) -> tuple[str, ...]:
    """Return the numbers whose gaps are nearly those of another one, as far as the noise shows."""
    if len(gaps) < 2:
        return ()
    own, error = _with_typical_error(np.array(list(gaps.values())), pooled)
    alike = own.correlation - 2.0 * np.eye(len(gaps)) > 1.0 - max(LEAST, _ERRORS * error * math.sqrt(2.0))
    found = np.flatnonzero(np.sum(alike, axis=1))
    return tuple(np.array(list(gaps))[found].tolist())


def _has_full_rank(places: Places, pooled: PooledCovariance) -> bool:
    own, error = _with_typical_error(places, pooled)
    return smallest_eigenvalue(own.correlation) > max(LEAST, _ERRORS * error * math.sqrt(len(places)))


def _with_typical_error(places: Places, pooled: PooledCovariance) -> tuple[PooledCovariance, float]:
    """Return some of the columns, and the typical error of a correlation between them."""
    own = keep_columns(pooled, places)
    return own, float(np.median(null_standard_errors(own))) if own.has_errors else 0.0


def describe_merged(columns: NodeColumns, levels: Levels) -> list[str]:
    """Return sentences on levels that count with another one, and on gaps that cannot be told apart."""
    sources = {source.name: source for source in levels.sources}
    named = []
    for name, rare_columns in columns.merged.items():
        level_of = dict(zip(sources[name].columns, sources[name].levels, strict=True))
        named.append(f"{quote_name(name)}: {listed([level_of[column] for column in rare_columns])}")
    rare = "levels too rare to stand out from the noise count with the most frequent level of their category: "
    said = [rare + "; ".join(named)] if named else []
    if columns.determined:
        said.append(f"left out, as other columns determine them or may do so: {'; '.join(columns.determined.values())}")
    if alike := columns.alike:
        said.append(
            f"gaps come together in {listed(list(alike))}, so that their edges cannot be distinguished: ask the "
            'publisher to leave such rows out (missing = "drop")'
        )
    return said
