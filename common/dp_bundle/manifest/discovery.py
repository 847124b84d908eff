"""What was found of the raw table's columns before all else, privately, where nothing was declared.

**Counts.** The cells of a column of text were counted by what they look like (a whole number, a date, a word, no value,
...), and those of any other column by whether they have a value. Replacing a row moves the counts of a column of text
by sqrt(2) at most, and another column's by 1. All have Gaussian noise, rounded to whole numbers.

**Levels.** The values of a column of words were counted, each by itself, with Gaussian noise on the counts of those
that occur, and the values whose noisy count is at least a threshold are its levels. Replacing a row moves the counts of
values that occur either way by sqrt(2) at most in a column; and it may make a value occur, or no longer, of which the
count is at most m where a unit of privacy has m rows. Such a value is a level with a probability of at most
``m Phi((m + 1/2 - T) / sigma)``: of all columns together twice that is the `excepted_delta` (see `guarantee`).
"""

from __future__ import annotations

import math
from typing import Annotated

from pydantic import Field, model_validator

from dp_bundle.manifest.base import Model, Name, Positive
from dp_bundle.privacy.normal import normal_tail

_Number = Annotated[int, Field(ge=0)]


class Discovery(Model):
    """What was found privately of columns of which nothing was declared, and by which noise.

    `kinds` are the raw columns whose kind was found, and `levels` those whose categories were, both as far as they are
    published. `n_counted` columns of text were counted by what their cells look like, and `n_gaps` others by
    whether they have a value, with noise of `counts_sigma`; `n_listed` columns were counted by their values, with noise
    of `levels_sigma` and the `threshold`. `n_rows` of the table's were counted.
    """

    kinds: tuple[Name, ...] = ()
    levels: tuple[Name, ...] = ()
    n_rows: Annotated[int, Field(ge=1)]
    n_counted: _Number
    n_gaps: _Number
    counts_sigma: Positive
    n_listed: _Number = 0
    levels_sigma: Positive | None = None
    threshold: Positive | None = None

    @model_validator(mode="after")
    def _check(self) -> Discovery:
        if not self.n_counted + self.n_gaps:
            raise ValueError("something was found privately, and in no column")
        if {self.levels_sigma is None, self.threshold is None} != {self.n_listed == 0}:
            raise ValueError("the noise on counts of levels is stated exactly where there are any")
        if len(self.kinds) > self.n_counted or len(self.levels) > self.n_listed:
            raise ValueError("more columns were found than were counted")
        return self

    def mu(self, max_rows: int) -> float:
        """Return what it cost a unit of privacy of so many rows."""
        counts = math.sqrt(2 * self.n_counted + self.n_gaps) / self.counts_sigma
        levels = 0.0 if self.levels_sigma is None else math.sqrt(2 * self.n_listed) / self.levels_sigma
        return max_rows * math.hypot(counts, levels)

    def excepted_delta(self, max_rows: int) -> float:
        """Return the probability that the guarantee excepts, for a unit of privacy of so many rows."""
        if self.levels_sigma is None or self.threshold is None:
            return 0.0
        each = normal_tail((self.threshold - 0.5 - max_rows) / self.levels_sigma)
        return min(2 * self.n_listed * max_rows * each, 1.0)
