"""What can be learned from a release, as far as files and pages here show it.

No number is estimated in this package. Whoever estimates offers a module by an entry point of the group
`dp_bundle.reader`, and that module is found when it is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, Protocol, cast

import numpy as np

from dp_bundle.base.arrays import Floats
from dp_bundle.base.errors import DpGraphError
from dp_bundle.base.quoting import Brief

_GROUP = "dp_bundle.reader"


@dataclass(frozen=True, eq=False)
class Correlations(Brief):
    """The correlations of the columns before the noise, and how sure they are.

    Attributes
    ----------
    columns : tuple of str
        The published columns, p of them.
    values : ndarray of shape (p, p)
        With a unit diagonal. An entry may be beyond 1 in size, and is NaN where noise drowns a column.
    standard_errors : ndarray of shape (p, p)
        Sampling and noise together, of first order; zero on the diagonal, NaN where they are unknown.
    n_rows : int
        How many rows, as stated or estimated.
    effective_rows : float or None
        How many Gaussian rows without noise would show as much of a correlation that is zero; None where unknown.
    are_estimates : bool
        Whether errors are only the publisher's estimates.
    """

    columns: tuple[str, ...]
    values: Floats
    standard_errors: Floats
    n_rows: int
    effective_rows: float | None
    are_estimates: bool

    @property
    def drowned(self) -> list[str]:
        """The columns that the noise hides."""
        known = np.isfinite(np.diagonal(self.values))
        return [name for name, is_known in zip(self.columns, known, strict=True) if not is_known]


class Link(NamedTuple):
    """A link of two nodes, by their places: its weight, and the 95 % interval of the partial correlation, if known.

    The weight has no sign where an end stands for several columns.
    """

    source: int
    target: int
    weight: float
    low: float | None
    high: float | None
    has_sign: bool = True


class Network(NamedTuple):
    """A graph as it is drawn: its nodes, where they are from -1 to 1 both ways (None without a link), and its links."""

    nodes: tuple[str, ...]
    places: tuple[tuple[float, float] | None, ...]
    links: tuple[Link, ...]


class Spread(NamedTuple):
    """The means and the standard deviations of the columns before the noise; NaN where noise drowns a deviation."""

    means: Floats
    deviations: Floats


class Reader(Protocol):
    """Who learns from a verified bundle; everything may raise EstimationError, BundleFormatError, MemoryLimitError."""

    def correlations(self, bundle: Any, *, of_scores: bool = False) -> Correlations:
        """Return the correlations of the columns before the noise, of normal scores those of the variables behind."""

    def spread(self, bundle: Any) -> Spread:
        """Return the means and the standard deviations of the columns before the noise."""

    def network(self, bundle: Any) -> Network:
        """Return the graph that is learned by default."""


@cache
def find_reader() -> Reader | None:
    """Return who learns from releases on this machine, if anybody does."""
    return next((cast(Reader, each.load()) for each in entry_points(group=_GROUP)), None)


def find_reader_package() -> Path | None:
    """Return the folder of the package that learns from releases on this machine, without importing it."""
    for each in entry_points(group=_GROUP):
        found = find_spec(each.module.partition(".")[0])
        if found and found.origin:
            return Path(found.origin).parent
    return None


def require_reader() -> Reader:
    """Return who learns from releases on this machine.

    Raises
    ------
    DpGraphError
        Nobody does.
    """
    if (reader := find_reader()) is None:
        raise DpGraphError(
            "nothing on this machine subtracts the noise of a release: install dpgraph as a whole, dp-learn included"
        )
    return reader
