"""Replaced levels: which cells and which levels, exactly as often as stated."""

from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from dp_publish.sampling.replacements import sample_replacements

WORDS = 2**32


class Forged:
    """Words that were chosen, in this order."""

    def __init__(self, *words: int) -> None:
        self.words = [*words]

    def fill(self, buffer: NDArray[np.uint32]) -> None:
        """Hand out the next words."""
        buffer[:] = [self.words.pop(0) for _ in buffer]


def test_a_word_below_the_numerator_replaces() -> None:
    """Of all 2^32 words exactly `numerator` replace a level: those below it."""
    words = Forged(99, 100, 0, WORDS - 1, *[0, 1])
    places, levels = sample_replacements(4, 100, 4, words)
    assert places.tolist() == [0, 2]
    assert levels.tolist() == [0, 1]
    assert words.words == []


@pytest.mark.parametrize("n_levels", [2, 3, 5, 7, 12, 1000, 65_537, 2**20 + 7])
def test_every_level_has_as_many_words(n_levels: int) -> None:
    """The words that are taken are a multiple of the levels; the first one beyond is drawn again, and again."""
    last = max(word for word in range(WORDS - n_levels, WORDS) if (word + 1) % n_levels == 0)
    beyond = [word for word in (last + 1, WORDS - 1) if word < WORDS and word > last]
    words = Forged(0, 0, last, *(beyond[:1] or [5]), *([*beyond[1:], 5] if beyond else []))
    _, levels = sample_replacements(2, 1, n_levels, words)
    assert levels.tolist() == [n_levels - 1, 5 % n_levels]
    assert words.words == []
    assert Fraction(last + 1, n_levels).denominator == 1
