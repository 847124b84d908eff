"""The places of a graph's nodes: strongly linked ones near each other, the same places for the same graph."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from dp_learn.matrices.linalg import FloatArray

ASPECT = 1.5  # width over height of the area that graphs are drawn on
_SEED = 1  # of the steps off a start in which nodes may be at one place
_LONGEST = 3.0  # times as long as the strongest link is the weakest one to be
_STRESS_OF_LINKS = 4.0  # times as much as a pair without a link at the same distance counts
_MOST_STEPS, _RTOL = 100, 1e-4
_LEAST, _MOST_PUSHES = 0.35, 50  # between two nodes, in lengths of the strongest link
_APART = 1.0  # between two parts, in lengths of the strongest link
Places = npt.NDArray[np.int64]


def place_nodes(n_nodes: int, ends: Places, weights: FloatArray) -> FloatArray:
    r"""Return the places of linked nodes on an area of `ASPECT`, from -1 to 1 both ways.

    Each connected part has the places of least stress,

    .. math:: \sum_{i<j} c_{ij} (|x_i - x_j| - d_{ij})^2 / d_{ij}^2

    where d is the length of the shortest path, and a link is the longer, the weaker it is; links count more than other
    pairs. Parts stand in rows, the largest first.

    Parameters
    ----------
    n_nodes : int
        Number of nodes.
    ends : ndarray of int, shape (n_edges, 2)
        The positions of both ends of each edge.
    weights : ndarray of shape (n_edges,)
        Their strengths, with signs or without.

    Returns
    -------
    ndarray of shape (n_nodes, 2)
        NaN for nodes without an edge.

    References
    ----------
    Kamada & Kawai (1989), An algorithm for drawing general undirected graphs, Information Processing Letters 31 (the
    stress). Gansner, Koren & North (2004), Graph drawing by stress majorization, Graph Drawing (its minimisation).
    """
    places = np.full((n_nodes, 2), np.nan)
    if not len(ends):
        return places
    sizes = np.abs(weights)
    ranks = np.argsort(np.argsort(-sizes, kind="stable"), kind="stable") / max(len(sizes) - 1, 1)
    linked = np.unique(ends)
    rows = np.searchsorted(linked, ends)
    distances = np.where(np.eye(len(linked), dtype=bool), 0.0, math.inf)
    distances[rows[:, 0], rows[:, 1]] = distances[rows[:, 1], rows[:, 0]] = 1.0 + (_LONGEST - 1.0) * ranks
    lengths = distances.copy()
    for node in range(len(linked)):  # Floyd and Warshall: shortest paths by way of this node
        np.minimum(distances, distances[:, node, None] + distances[node], out=distances)

    firsts = np.argmax(np.isfinite(distances), axis=1)  # the first node of each one's part
    parts = [np.flatnonzero(firsts == first) for first in np.unique(firsts)]
    parts.sort(key=lambda part: -len(part))
    blocks = [np.ix_(part, part) for part in parts]
    drawn = [_least_stress(distances[block], lengths[block]) for block in blocks]
    for part, xy in zip(parts, _in_rows(drawn), strict=True):
        places[linked[part]] = xy

    low, high = np.nanmin(places, axis=0), np.nanmax(places, axis=0)
    half = max(high[0] - low[0], ASPECT * (high[1] - low[1])) / 2.0
    return np.asarray((places - (low + high) / 2.0) / [half, half / ASPECT])


def _least_stress(distances: FloatArray, lengths: FloatArray) -> FloatArray:
    """Return places with nearly these distances, from zero, their longest way across; see `place_nodes`.

    The lengths of links are finite, and infinite where there is none.
    """
    n_nodes = len(distances)
    off = ~np.eye(n_nodes, dtype=bool)
    d = np.where(off, distances, 1.0)
    stress = np.where(np.isfinite(lengths), _STRESS_OF_LINKS, 1.0) * off / d**2
    inverse = np.linalg.pinv(np.diag(stress.sum(axis=1)) - stress, hermitian=True)

    # classical scaling, a step off it
    centred = -0.5 * (distances**2 - (distances**2).mean(axis=0))
    values, vectors = np.linalg.eigh(centred - centred.mean(axis=1, keepdims=True))
    xy = vectors[:, -2:] * np.sqrt(np.maximum(values[-2:], 0.0))
    xy = xy + 0.05 * np.random.default_rng(_SEED).standard_normal((n_nodes, 2))
    for _ in range(_MOST_STEPS):
        pull = stress * d / _far_apart(xy)
        moved = inverse @ (pull.sum(axis=1)[:, None] * xy - pull @ xy)
        step, xy = np.abs(moved - xy).max(), moved
        if step <= _RTOL * np.ptp(xy):
            break

    for _ in range(_MOST_PUSHES):
        far = _far_apart(xy)
        lacking = np.where(off, np.maximum(_LEAST - far, 0.0), 0.0)
        if lacking.max() < 0.01 * _LEAST:
            break
        push = 0.5 * lacking / far
        xy = xy + push.sum(axis=1)[:, None] * xy - push @ xy

    axes = np.linalg.eigh(np.cov(xy.T))[1][:, ::-1]
    xy = xy @ (axes * np.where(axes[np.argmax(np.abs(axes), axis=0), [0, 1]] > 0.0, 1.0, -1.0))
    return np.asarray(xy - xy.min(axis=0))


def _in_rows(drawn: list[FloatArray]) -> list[FloatArray]:
    """Return all parts beside each other, in rows that are about as wide as the area."""
    sizes = np.array([xy.max(axis=0) + _APART for xy in drawn])
    widest = max(sizes[:, 0].max(), math.sqrt(ASPECT * sizes.prod(axis=1).sum()))
    x = y = high = 0.0
    placed = []
    for xy, (width, height) in zip(drawn, sizes.tolist(), strict=True):
        if x + width > widest:
            x, y, high = 0.0, y - high, 0.0
        placed.append(xy + np.array([x, y - height]))
        x, high = x + width, max(high, height)
    return placed


def _far_apart(xy: FloatArray) -> FloatArray:
    """Return the distances of all places, and one of each from itself."""
    far: FloatArray = np.hypot(*(side[:, None] - side for side in xy.T)) + np.eye(len(xy))
    return far
