"""Levels of a category, numbers and gaps at one end of an edge beside the other end, all other nodes being equal.

The precision matrix holds regressions: given all else, a column's mean changes by -Theta_hh^-1 Theta_hg with the
columns of another node. Of a category these say how much each level differs from the reference; less their mean over
rows, every level, the reference among them, has an effect of its own, whatever the reference was.

A number whose gaps are published has two columns: v, which is the fill f where there is no value, and g, which is 1
there. "(no value)" is the effect of (f, 1) less the mean row, and "(value)" that of one standard deviation of v. With
m the mean of the values that there are, and w the share of gaps, the mean of v is f w + m (1 - w), so that a change of
these means by dv and dg is one of m by (dv - (f - m) dg) / (1 - w).

References
----------
Whittaker (1990), Graphical Models in Applied Multivariate Statistics, section 5.7.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dp_bundle.manifest.sources import NO_VALUE
from dp_learn.matrices.linalg import FloatArray
from dp_learn.pipeline.graph import VALUE
from dp_learn.pipeline.settings import Nodes

_MOST_GAPS = 0.999  # share of rows
_LEAST = 1e-3  # of the variance, that of the values that there are


class _Node(NamedTuple):
    """A node: k columns among the kept ones, with r words.

    Attributes
    ----------
    name : str
    places : ndarray of int, shape (k,)
        Of its columns.
    words : list of str
        Its levels, the reference last, or what is said of a number with gaps; empty for a number alone.
    changes : ndarray of shape (r, k)
        How each word changes the columns of the mean row.
    readings : ndarray of shape (r or 1, k)
        How much more frequent each level is, or how many standard deviations larger a number, by its columns' means.
    """

    name: str
    places: npt.NDArray[np.intp]
    words: list[str]
    changes: FloatArray
    readings: FloatArray


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
        `source`, a category or a number with gaps, and its `level`; `target`, the other node, and its `target_level`,
        empty for a number alone; `effect`: how much the mean of the number is above that of all rows, in standard
        deviations of it, or how much more frequent the target's level, or gaps, are.
    """
    table: dict[str, list[Any]] = {name: [] for name in ("source", "level", "target", "target_level", "effect")}
    described = [_describe(node, nodes, covariance, location) for node in range(len(nodes.names))]
    for g, h in zip(*np.nonzero(np.triu(edges, 1)), strict=True):
        first, second = described[g], described[h]
        if len(first.words) < len(second.words):  # the one with more to say tells how the other changes
            first, second = second, first
        if not first.words or not precision[np.ix_(first.places, second.places)].any():
            continue  # numbers, or an edge that tests found and that has no fit of its own
        effects = _effects(first, second, precision)
        for row, level in enumerate(first.words):
            for column, target_level in enumerate(second.words or [""]):
                values = (first.name, level, second.name, target_level, float(effects[row, column]))
                for name, value in zip(table, values, strict=True):
                    table[name].append(value)
    return {**table, "effect": np.array(table["effect"], dtype=float)}


def _describe(node: int, nodes: Nodes, covariance: FloatArray, location: FloatArray) -> _Node:
    name, places = nodes.names[node], np.flatnonzero(nodes.labels == node)
    if name in nodes.columns.reference:
        return _describe_levels(name, places, nodes, location)
    own = nodes.columns.kept[places]
    deviation = math.sqrt(covariance[places[0], places[0]])
    if len(places) == 1:
        return _Node(name, places, [], np.empty((0, 1)), np.array([[1.0 / deviation]]))

    # a number and the indicator of its gaps
    fill, (mean, missing) = nodes.levels.fills[name], location[own]
    missing = min(max(float(missing), 0.0), _MOST_GAPS)
    away = fill - (float(mean) - fill * missing) / (1.0 - missing)  # from the mean of the values that there are
    between = away * away * missing * (1.0 - missing)  # what gaps add to the variance
    deviation = math.sqrt(max(deviation**2 - between, _LEAST * deviation**2) / (1.0 - missing))
    changes = np.array([[deviation, 0.0], [fill - float(mean), 1.0 - missing]])
    to_mean = 1.0 / ((1.0 - missing) * deviation)
    return _Node(name, places, [VALUE, NO_VALUE], changes, np.array([[to_mean, -away * to_mean], [0.0, 1.0]]))


def _describe_levels(name: str, places: npt.NDArray[np.intp], nodes: Nodes, location: FloatArray) -> _Node:
    """Return what is said of a category."""
    source = next(each for each in nodes.levels.sources if each.name == name)
    published = [place for place, owner in enumerate(nodes.levels.nodes) if owner == name]
    level_at = dict(zip(published, source.levels, strict=True))
    own = nodes.columns.kept[places]
    rare = nodes.columns.merged.get(name, [])
    reference = level_at[nodes.columns.reference[name]] + (f" (and {len(rare)} rare levels)" if rare else "")

    frequencies = np.clip(location[own], 0.0, 1.0)
    total = max(float(frequencies.sum()), 1.0)  # noise may take it beyond 1
    one_of_each = np.vstack([np.eye(len(places)), np.zeros((1, len(places)))])
    readings = np.vstack([np.eye(len(places)), -np.ones((1, len(places)))])
    return _Node(
        name, places, [*(level_at[place] for place in own), reference], one_of_each - frequencies / total, readings
    )


def _effects(first: _Node, second: _Node, precision: FloatArray) -> FloatArray:
    """Return the effects, shape (words of the first, words of the second or 1)."""
    own = precision[np.ix_(second.places, second.places)]
    slopes = -np.linalg.solve(own, precision[np.ix_(second.places, first.places)]).T
    effects: FloatArray = first.changes @ slopes @ second.readings.T
    return effects
