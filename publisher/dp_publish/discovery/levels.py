"""The levels of columns of words: values that occur often, by noisy counts, above a threshold.

**Guarantee.** Counts of the values that occur have Gaussian noise, and what is below the threshold T is not told. Of
two tables that differ in one unit of m rows, let U be the values that occur in both. Given these, the noisy counts of U
are mu-GDP, for the mu of their sensitivity. A value that occurs in one table alone has a count of at most m there. It
is released with a probability of at most ``Phi((m + 1/2 - T) / sigma)``. A unit has at most m such values in a column.
So

    P[S | D] <= p + P[S without such values | D] <= p + (e^epsilon P[S | D'] + delta(epsilon)) / (1 - p),

Here p is the sum of these probabilities over all columns, of either table. As neither side exceeds 1, the release is
(epsilon, delta(epsilon) + 2 p)-private for every epsilon. T is the least whole number with 2 p <= 2^-40.

Noise is rounded to whole numbers, which takes half a step of T.

References
----------
Korolova, Kenthapadi, Mishra & Ntoulas (2009), Releasing search queries and clicks privately. Wilson, Zhang, Lam,
Desfontaines, Simmons-Marengo & Gipson (2020), Differentially private SQL with bounded user contribution.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy import special

from dp_publish.sampling.gaussian import sample_rounded_gaussian
from dp_publish.sampling.keystream import Keystream

EXCEPTED_DELTA = 2.0**-40  # of all columns together
_UP = 1 + 2.0**-48  # far above the rounding of the few operations on a sigma
Counts = Sequence[Counter[str]]  # of every column's values


@dataclass(frozen=True)
class NoisyLevels:
    """The noisy counts, above a threshold, of the values that occur in several columns.

    Parameters
    ----------
    mu : float
        What it may cost a row, but for the excepted delta.
    n_columns : int
        Of how many columns.
    max_rows : int
        How many rows the unit of privacy has at most.
    """

    mu: float
    n_columns: int
    max_rows: int = 1
    name: ClassVar[str] = "levels"

    @property
    def sensitivity(self) -> float:
        """The most that replacing a row moves the counts of values that occur either way."""
        return math.sqrt(2 * self.n_columns)

    @property
    def sigma(self) -> float:
        """The standard deviation of the noise on a count."""
        return self.sensitivity / self.mu * _UP

    @property
    def threshold(self) -> int:
        """The least noisy count that is told."""
        far = -float(special.ndtri(EXCEPTED_DELTA / (2 * self.n_columns * self.max_rows)))
        return math.ceil(far * self.sigma + self.max_rows + 0.5)

    def draw(self, statistic: Counts, rng: Keystream) -> list[dict[str, int]]:
        """Return the values of every column whose noisy counts are not below the threshold, with these.

        Values are in the order of their names: that of a table's rows would tell of them.
        """
        found = []
        for counts in statistic:
            values = sorted(counts)
            noisy = np.fromiter((counts[value] for value in values), np.int64, len(values))
            noisy += sample_rounded_gaussian(self.sigma, len(values), rng)
            kept = np.flatnonzero(noisy >= self.threshold).tolist()
            found.append({values[place]: int(noisy[place]) for place in kept})
        return found


def count_values(words: pa.Array, counts: Counter[str]) -> None:
    """Add the words of one batch to their column's counts; a null is no value."""
    values, numbers = pc.value_counts(words.drop_null()).flatten()
    counts.update(dict(zip(values.to_pylist(), numbers.to_pylist(), strict=True)))
