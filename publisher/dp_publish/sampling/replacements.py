"""Draws of cells that get another level, and of that level: exact, with rational probabilities, from uniform bits."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dp_publish.sampling.keystream import Keystream

_WORDS = 2**32


def sample_replacements(
    size: int, numerator: int, n_levels: int, keystream: Keystream
) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
    """Draw the cells whose level is replaced, and their new levels, uniform among all.

    Parameters
    ----------
    size : int
        The number of cells.
    numerator : int
        Each is replaced with probability numerator / 2^32, independently.
    n_levels : int
        Levels are numbered from 0.
    keystream : Keystream
        Where the random bits come from.

    Returns
    -------
    ndarray of int, shape (n_replaced,)
        The cells, in ascending order.
    ndarray of int, shape (n_replaced,)
        Their levels.
    """
    words = np.empty(size, dtype=np.uint32)
    keystream.fill(words)
    places = np.flatnonzero(words < numerator)
    return places, _uniform(len(places), n_levels, keystream)


def _uniform(size: int, n_levels: int, keystream: Keystream) -> NDArray[np.int64]:
    """Draw levels; words that would make some of them more likely are drawn again."""
    words = np.empty(size, dtype=np.uint32)
    keystream.fill(words)
    last = _WORDS // n_levels * n_levels - 1
    while len(beyond := np.flatnonzero(words > last)):
        again = np.empty(len(beyond), dtype=np.uint32)
        keystream.fill(again)
        words[beyond] = again
    return (words % np.uint32(n_levels)).astype(np.int64)
