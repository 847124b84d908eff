"""Published columns that indicate a category's levels: from what came out to unbiased indicators, and their noise.

By randomised response a level x comes out as itself with probability p and as any other with probability q, so that
``(y_k - q) / (p - q)`` has the mean 1[x = k], and given x the covariance ``(diag(pi) - pi pi^T) / (p - q)^2`` with pi
the probabilities of what comes out. Its mean over rows is linear in the frequencies of the levels, which are estimated
without bias, and so is it. With noise of its own on each column, nothing of this is needed.

References
----------
Warner (1965), JASA 60(309). Chaudhuri & Mukerjee (1988), Randomized Response, section 2.4.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np
import numpy.typing as npt

from dp_bundle.manifest.columns import Column, RandomizedResponse
from dp_bundle.manifest.sources import Source
from dp_learn.matrices.linalg import FloatArray

Places = npt.NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Levels:
    """The levels that columns indicate, and the noise on them.

    Attributes
    ----------
    nodes : tuple of str
        The raw table's column that each published one comes from.
    sources : tuple of Source
        What those stand for that are no numbers.
    shift, factor : ndarray of shape (n_features,)
        An unbiased indicator is (y - shift) * factor.
    responses : tuple of (ndarray of int, RandomizedResponse)
        The places of the columns that randomised response is on, a pair for each category.
    fills : dict of str to float
        Where numbers stand that have none, by the name of the node; a second column is 1 there.
    """

    nodes: tuple[str, ...]
    sources: tuple[Source, ...]
    shift: FloatArray
    factor: FloatArray
    responses: tuple[tuple[Places, RandomizedResponse], ...]
    fills: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of_numbers(cls, names: Sequence[str]) -> Levels:
        """Return the levels of a table of numbers, of which each is a node of its own."""
        return cls(tuple(names), (), np.zeros(len(names)), np.ones(len(names)), ())

    @property
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
        return Levels.of_numbers([column.name for column in columns])
    responses: list[tuple[Places, RandomizedResponse]] = []
    for _, group in groupby(enumerate(columns), key=lambda pair: pair[1].block or pair[1].name):
        members = list(group)
        if (response := members[0][1].response) is not None:
            responses.append((np.array([place for place, _ in members]), response))
    shift, factor = np.zeros(len(columns)), np.ones(len(columns))
    for places, response in responses:
        shift[places], factor[places] = response.p_other, 1.0 / (response.p_same - response.p_other)
    nodes = {name: source.name for source in sources for name in source.columns}
    return Levels(
        tuple(nodes.get(column.name, column.name) for column in columns),
        tuple(sources),
        shift,
        factor,
        tuple(responses),
        {column.source_name: fill_of(column) for column in columns if column.missing == "indicator"},
    )


def fill_of(column: Column) -> float:
    """Return the number that stands where a column has no value: in two rounds its center, else the bounds' middle."""
    if column.ball is not None:
        return column.ball.center
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
