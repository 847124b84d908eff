"""The columns that stand for a category: all of its levels but one, without those that are too rare to be told apart.

The indicators of all levels add up to one, so that one of them says nothing: the most frequent level is left out, as
the reference. A level that the noise drowns, or that makes the others look determined by one another, counts with it.
A number and the indicator of its gaps stand for it together, or the number alone where gaps are too few.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dp_bundle.base.errors import DrownedColumnError
from dp_learn.covariance.collinear import clear_columns, clear_variances
from dp_learn.covariance.estimate import PooledCovariance, keep_columns
from dp_learn.covariance.levels import Levels
from dp_learn.covariance.penalties import null_standard_errors
from dp_learn.matrices.linalg import FloatArray, smallest_eigenvalue

LEAST = 1e-3  # eigenvalue of a category's correlations
_ERRORS = 2.0  # standard errors of an eigenvalue


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
    unseen : tuple of str
        The numbers whose gaps are published, and too few to be told from the noise.
    alike : tuple of str
        The numbers whose gaps cannot be told from those of another one.
    """

    kept: npt.NDArray[np.int64]
    drowned: tuple[str, ...]
    reference: dict[str, int]
    merged: dict[str, list[str]]
    unseen: tuple[str, ...] = ()
    alike: tuple[str, ...] = ()


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
    pairs = {name: blocks[name] for name in levels.fills}
    reference = {name: int(places[np.argmax(location[places])]) for name, places in blocks.items() if name not in pairs}
    usable = {
        name: _usable(places[clear[places] & (places != reference[name])], pooled, location)
        for name, places in blocks.items()
        if name not in pairs
    }
    usable |= {name: _usable_pair(places, clear, pooled) for name, places in pairs.items()}
    unseen = tuple(name for name in pairs if len(usable[name]) == 1)
    alike = _find_alike({name: int(usable[name][1]) for name in pairs if len(usable[name]) == 2}, pooled)

    of_blocks = set(np.concatenate([*blocks.values(), np.empty(0, dtype=int)]).tolist())
    single = [place for place in range(len(clear)) if clear[place] and place not in of_blocks]
    kept = np.sort(np.concatenate([np.array(single, dtype=np.int64), *usable.values()])).astype(np.int64)
    left = dict.fromkeys(levels.nodes[place] for place in kept)
    drowned = tuple(name for name in dict.fromkeys(levels.nodes) if name not in left)
    if len(left) < 2:
        raise DrownedColumnError(
            list(drowned),
            "the noise drowns all columns but one, or all: their variance cannot be told from the noise; learn from a "
            "bundle with more rows or less noise",
        )
    merged = {
        name: [pooled.columns[place] for place in places if place != reference[name] and place not in usable[name]]
        for name, places in blocks.items()
        if name in left and name in reference
    }
    rare = {name: levels for name, levels in merged.items() if levels}
    return NodeColumns(kept, drowned, reference, rare, unseen, alike)


def _usable(places: npt.NDArray[np.intp], pooled: PooledCovariance, location: FloatArray) -> npt.NDArray[np.int64]:
    """Return those of a category's levels, the most frequent first, whose correlations are clearly of full rank."""
    chosen = places[np.argsort(-location[places], kind="stable")]
    while len(chosen) > 1 and not _has_full_rank(chosen, pooled):
        chosen = chosen[:-1]
    return chosen.astype(np.int64)


def _usable_pair(
    places: npt.NDArray[np.intp], clear: npt.NDArray[np.bool_], pooled: PooledCovariance
) -> npt.NDArray[np.int64]:
    """Return a number and the indicator of its gaps, or those that stand clear: none without the number."""
    if clear[places].all() and _has_full_rank(places, pooled):
        return places.astype(np.int64)
    return places[:1][clear[places[:1]]].astype(np.int64)


def _find_alike(gaps: dict[str, int], pooled: PooledCovariance) -> tuple[str, ...]:
    """Return the numbers whose gaps are nearly those of another one, as far as the noise shows."""
    if len(gaps) < 2:
        return ()
    own = keep_columns(pooled, np.array(list(gaps.values()), dtype=np.int64))
    error = float(np.median(null_standard_errors(own))) if own.has_errors else 0.0
    alike = own.correlation - 2.0 * np.eye(len(gaps)) > 1.0 - max(LEAST, _ERRORS * error * math.sqrt(2.0))
    found = np.flatnonzero(np.sum(alike, axis=1))
    return tuple(np.array(list(gaps))[found].tolist())


def _has_full_rank(places: npt.NDArray[np.intp], pooled: PooledCovariance) -> bool:
    own = keep_columns(pooled, places)
    error = float(np.median(null_standard_errors(own))) if own.has_errors else 0.0
    return smallest_eigenvalue(own.correlation) > max(LEAST, _ERRORS * error * math.sqrt(len(places)))
