"""How the levels of a category and the other end of an edge go together, all other nodes being equal.

The precision matrix holds regressions: given all else, a column's mean changes by -Theta_hh^-1 Theta_hg with the
columns of another node. Of a category these say how much each level differs from the reference; less their mean over
rows, every level, the reference among them, has an effect of its own, whatever the reference was.

References
----------
Whittaker (1990), Graphical Models in Applied Multivariate Statistics, section 5.7.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dp_learn.matrices import FloatArray
from dp_learn.pipeline.node_layout import Nodes


class _Node(NamedTuple):
    """The columns of a node among the kept ones, its levels, and their frequencies; the reference is the last."""

    name: str
    places: npt.NDArray[np.intp]
    levels: list[str]
    frequencies: FloatArray


def tabulate_loadings(
    nodes: Nodes, edges: npt.NDArray[np.bool_], precision: FloatArray, covariance: FloatArray, location: FloatArray
) -> dict[str, Any]:
    """Return the table of the effects of levels, for every edge with a category at an end.

    Parameters
    ----------
    nodes : Nodes
    edges : ndarray of bool, shape (G, G)
    precision, covariance : ndarray of shape (n_kept, n_kept)
        In data units.
    location : ndarray of shape (n_features,)
        The means of all columns: the frequencies of levels.

    Returns
    -------
    dict
        `source`, a category, and its `level`; `target`, the other node, and its `target_level`, empty for a number;
        `effect`: how much the mean of the number is above that of all rows, in standard deviations of it, or how much
        more frequent the target's level is.
    """
    table: dict[str, list[Any]] = {name: [] for name in ("source", "level", "target", "target_level", "effect")}
    described = [_describe(node, nodes, location) for node in range(len(nodes.names))]
    for g, h in zip(*np.nonzero(np.triu(edges, 1)), strict=True):
        first, second = described[g], described[h]
        if len(first.levels) < len(second.levels):  # the one with more levels says how the other changes
            first, second = second, first
        if not first.levels or not precision[np.ix_(first.places, second.places)].any():
            continue  # numbers, or an edge that tests found and that has no fit of its own
        effects = _effects(first, second, precision, covariance)
        for row, level in enumerate(first.levels):
            for column, target_level in enumerate(second.levels or [""]):
                values = (first.name, level, second.name, target_level, float(effects[row, column]))
                for name, value in zip(table, values, strict=True):
                    table[name].append(value)
    return {**table, "effect": np.array(table["effect"], dtype=float)}


def _describe(node: int, nodes: Nodes, location: FloatArray) -> _Node:
    name, places = nodes.names[node], np.flatnonzero(nodes.labels == node)
    source = next((each for each in nodes.levels.sources if each.name == name and each.is_block), None)
    if source is None:
        return _Node(name, places, [], np.empty(0))
    published = [place for place, owner in enumerate(nodes.levels.nodes) if owner == name]
    level_at = dict(zip(published, source.levels, strict=True))
    own = nodes.columns.kept[places]
    frequencies = np.clip(location[own], 0.0, 1.0)
    rest = max(1.0 - float(frequencies.sum()), 0.0)
    rare = nodes.columns.merged.get(name, [])
    reference = level_at[nodes.columns.reference[name]] + (f" (and {len(rare)} rare levels)" if rare else "")
    return _Node(name, places, [*(level_at[place] for place in own), reference], np.append(frequencies, rest))


def _effects(first: _Node, second: _Node, precision: FloatArray, covariance: FloatArray) -> FloatArray:
    """Return the effects, shape (levels of the first, levels of the second or 1)."""
    own = precision[np.ix_(second.places, second.places)]
    slopes = -np.linalg.solve(own, precision[np.ix_(second.places, first.places)]).T
    changes = np.vstack([slopes, np.zeros((1, len(second.places)))])  # against the reference
    changes -= first.frequencies @ changes / max(float(first.frequencies.sum()), np.finfo(float).tiny)
    if not second.levels:
        standardised: FloatArray = changes / np.sqrt(covariance[second.places[0], second.places[0]])
        return standardised
    return np.column_stack([changes, -changes.sum(axis=1)])
