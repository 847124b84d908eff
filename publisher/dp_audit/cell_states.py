"""Cells of a raw table that an audit puts in one of a few states: a category's levels, a number's ends and its gap."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dp_audit.canaries import middle_of
from dp_audit.raw_cells import level_numbers, level_words, raw_table
from dp_bundle.manifest.columns import Column, RandomizedResponse
from dp_bundle.manifest.sources import Source
from dp_publish.data.kinds import KINDS
from dp_publish.policy.model import Policy

_LOW, _GAP, _HIGH = range(3)

_Floats = NDArray[np.float64]
_States = NDArray[np.int64]


@dataclass(frozen=True)
class AuditedCell(ABC):
    """A cell as it is published: its columns and their places, and the part of mu that the policy asks for.

    Attributes
    ----------
    source : Source
    places : ndarray of int
        Of its columns among all published ones.
    columns : sequence of Column
    claim : float
        The mu that the policy asks for.
    """

    source: Source
    places: NDArray[np.intp]
    columns: Sequence[Column]
    claim: float

    @property
    def response(self) -> RandomizedResponse | None:
        """Randomised response, if the cell has that in place of noise."""
        return self.columns[0].response

    @property
    @abstractmethod
    def n_states(self) -> int:
        """The number of states; what tells the first two apart is what an attacker guesses."""

    @abstractmethod
    def expected(self, states: _States) -> _Floats:
        """Return what noise is added to in each column, for states as numbers from 0."""

    @abstractmethod
    def raw(self, states: _States) -> pa.Array:
        """Return the raw table's column."""


class CategoryCell(AuditedCell):
    """A category, or a truth value: a state is a level."""

    @property
    def n_states(self) -> int:
        """The number of levels."""
        return len(self.source.levels)

    def expected(self, states: _States) -> _Floats:
        """Return the indicators of levels: one column alone indicates the second of two."""
        return level_numbers(self.n_states, len(self.places))[states]

    def raw(self, states: _States) -> pa.Array:
        """Return levels in words that mean them."""
        return level_words(self.source).take(pa.array(states))

    def found(self, noisy: _Floats) -> _States:
        """Return the levels that indicators show, -1 where they are none."""
        own = noisy[:, self.places]
        if len(self.places) == 1:
            return np.where(np.isin(own[:, 0], (0.0, 1.0)), own[:, 0], -1.0).astype(np.int64)
        one = np.isin(own, (0.0, 1.0)).all(axis=1) & (own.sum(axis=1) == 1.0)
        return np.where(one, own.argmax(axis=1), -1)


class NumberWithGapsCell(AuditedCell):
    """A number whose gaps are published: its lower bound, no value, or its upper bound."""

    @property
    def n_states(self) -> int:
        """Three."""
        return 3

    def expected(self, states: _States) -> _Floats:
        """Return the number on its grid, within its bounds, and 1 where there is none."""
        column, step = self.columns[0], self.columns[0].cell_noise.granularity
        low, high = column.bounds or (0.0, 0.0)
        at = np.array([math.ceil(low / step), middle_of(column), math.floor(high / step)]) * step
        return np.column_stack([at[states], states == _GAP])

    def raw(self, states: _States) -> pa.Array:
        """Return the bounds as values of the source's kind, and null, or NaN in turn, in gaps."""
        if self.source.levels:
            return pa.array([self.source.levels[0], None, self.source.levels[-1]]).take(pa.array(states))
        limits = np.array(self.columns[0].bounds or (0.0, 0.0))
        gaps, at = states == _GAP, limits[(states == _HIGH).astype(int)]
        if self.source.kind == "number":
            at[gaps] = np.nan
            gaps[np.flatnonzero(gaps)[::2]] = False
        return KINDS[self.source.kind].decode(at, gaps)


def audited_cell(source: Source, places: Sequence[int], columns: Sequence[Column], claim: float) -> AuditedCell:
    """Return the cell of a source whose columns stand at these places."""
    kind = CategoryCell if KINDS[source.kind].is_nominal else NumberWithGapsCell
    return kind(source, np.array(places), [columns[place] for place in places], claim)


def table_in_states(policy: Policy, cells: Sequence[AuditedCell], states: dict[str, _States]) -> pa.Table:
    """Return a raw table of cells in these states."""
    return raw_table(policy, {each.source.name: each.raw(states[each.source.name]) for each in cells})
