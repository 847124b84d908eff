"""Sums of products of rows by the length of these, from which those of any radius follow: exact, and additive.

Rows are summed apart by the smallest radius that they are inside of, once as they are and once as directions (`rows`).
Let B_b and C_b be the sums over the rows of bin b of q q' and of u u'. Then the sum for the radius a_r is, in integers,

    sum_{b <= r} B_b + a_r^2 sum_{b > r} C_b,

so that one pass over the table serves every radius. The same holds of the sums of rows, and of their lengths to the
fourth. Sums of 4096 rows are below 2^53, which float64 adds up exactly, and of all rows they are kept in two limbs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_bundle.base.arrays import Floats, Integers
from dp_publish.covariance.exact_moments import ExactMoments
from dp_publish.covariance.scaling import Scaling
from dp_publish.covariance.two_rounds.rows import BLOCK, LIMB, LOW_LIMB, RoundMap, cut_to_integers, limits_of

_NARROW = 64  # columns; above, matrix products are faster
_FOURTH_BITS = 8  # of a length to the fourth at radius 1: squares of 2^20 in units of 2^-20 become 2^40


class BinnedSums:
    """The sums of some rows, in one round; all of it is private.

    Parameters
    ----------
    n_columns : int
        The number of columns, p.
    radii : ndarray of int64, shape (m,)
        a of every radius, ascending; the last is 256.

    Attributes
    ----------
    counts : ndarray of int64, shape (m + 1,)
        How many rows each bin has; the last is of those beyond the largest radius.
    """

    def __init__(self, n_columns: int, radii: Integers) -> None:
        n_bins, d = len(radii) + 1, n_columns + 1
        self.radii = radii
        self.counts = np.zeros(n_bins, dtype=np.int64)
        self._products = np.zeros((2, 2, n_bins, d, d), dtype=np.int64)  # limbs; rows or directions; bins
        self._fourths = np.zeros((2, n_bins), dtype=np.int64)  # limbs, bins

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return int(self.counts.sum())

    def add(self, values: Floats, frame: RoundMap) -> None:
        """Add rows, in data units; those of narrow tables by compiled code, whose integers are the same."""
        if values.shape[1] <= _NARROW:
            self._add_narrow(values, frame)
            return
        for start in range(0, len(values), BLOCK):
            self._add_wide(frame.place(values[start : start + BLOCK]))

    def merged(self, other: BinnedSums) -> BinnedSums:
        """Add the sums of other rows of the same round, and return these."""
        self.counts += other.counts
        self._products += other._products
        self._fourths += other._fourths
        return self

    def counts_outside(self) -> Integers:
        """Return how many rows are outside of every radius."""
        return self.n_rows - np.cumsum(self.counts)[:-1]

    def moments(self, chosen: int, scaling: Scaling) -> ExactMoments:
        """Return the sums for one of the radii, whose scaling it is."""
        inner, outer = self._within(chosen)
        radius = int(self.radii[chosen])
        products = inner[:-1, :-1] + radius * radius * outer[:-1, :-1]
        sums = inner[:-1, -1] + radius * outer[:-1, -1]
        n_clipped = int(self.counts[chosen + 1 :].sum())
        return ExactMoments(scaling, self.n_rows, products, sums, n_clipped)

    def fourth_powers(self, chosen: int) -> tuple[int, int]:
        """Return the sum of the rows' lengths to the fourth, and the largest that one row can add, as integers."""
        most = int(self.radii[chosen]) ** 4 << _FOURTH_BITS
        inside = int(_whole(self._fourths[:, : chosen + 1]).sum())
        return inside + most * int(self.counts[chosen + 1 :].sum()), most

    def _within(self, chosen: int) -> tuple[NDArray[Any], NDArray[Any]]:
        inside = (_whole(self._products[:, 0, each]) for each in range(chosen + 1))
        outside = (_whole(self._products[:, 1, each]) for each in range(chosen + 1, len(self.counts)))
        return _total(inside, self._products.shape[-1]), _total(outside, self._products.shape[-1])

    def _add_narrow(self, values: Floats, frame: RoundMap) -> None:
        from dp_publish.covariance.two_rounds._kernels import add_rows

        transform = np.empty((0, 0)) if frame.transform is None else frame.transform
        ends = (frame.low, frame.high, frame.centers, frame.half_widths)
        sums = (self._products, self.counts, self._fourths)
        add_rows(values, *ends, transform, frame.row_step, limits_of(self.radii), *sums)

    def _add_wide(self, rows: Floats) -> None:
        placed = cut_to_integers(rows, self.radii)
        order = np.argsort(placed.bins, kind="stable")
        ends = np.searchsorted(placed.bins[order], np.arange(len(self.counts) + 1))
        self.counts += np.diff(ends)
        for each in np.flatnonzero(np.diff(ends)):
            members = order[ends[each] : ends[each + 1]]
            for kind, source in enumerate((placed.inside, placed.directions)):
                if each == (len(self.radii), 0)[kind]:  # inside of none, or of all of them
                    continue
                part = np.column_stack([source[members], np.ones(len(members))])
                _add_to_limbs(self._products[:, kind, each], (part.T @ part).astype(np.int64))
            squares = placed.squares[members]
            _add_to_limbs(self._fourths[:, each], np.int64((squares * squares).sum()))


def _add_to_limbs(limbs: Integers, number: Any) -> None:
    """Add integers below 2^53 to sums in two limbs, the low one first."""
    limbs[0] += number & LOW_LIMB
    limbs[1] += number >> LIMB


def _whole(limbs: Integers) -> NDArray[Any]:
    """Return sums in two limbs as Python integers."""
    whole: NDArray[Any] = limbs[0].astype(object) + (limbs[1].astype(object) << LIMB)
    return whole


def _total(parts: Iterable[NDArray[Any]], d: int) -> NDArray[Any]:
    return sum(parts, start=np.zeros((d, d), dtype=object))
