"""The nodes of a fit, and the columns that stand for each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dp_learn.covariance.levels import Levels
from dp_learn.covariance.node_columns import NodeColumns
from dp_learn.matrices.linalg import FloatArray


@dataclass(frozen=True, eq=False)
class Nodes:
    """The nodes of a fit.

    Attributes
    ----------
    names : tuple of str
        In the order of their columns.
    labels : ndarray of int, shape (n_kept,)
        The node of each kept column.
    root : ndarray of shape (n_kept, n_kept)
        What whitens the covariance within nodes: R S R.
    columns : NodeColumns
        How the kept columns were chosen.
    levels : Levels
        What all columns indicate.
    """

    names: tuple[str, ...]
    labels: npt.NDArray[np.intp]
    root: FloatArray
    columns: NodeColumns
    levels: Levels

    @property
    def sizes(self) -> npt.NDArray[np.intp]:
        """The number of columns of each node."""
        return np.bincount(self.labels, minlength=len(self.names))

    def spread(self, pairs: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Return pairs of nodes, shape (G, G), as pairs of their columns."""
        spread: npt.NDArray[np.bool_] = pairs[np.ix_(self.labels, self.labels)]
        return spread

    def linked(self, precision: FloatArray) -> npt.NDArray[np.bool_]:
        """Return which pairs of nodes have an edge, shape (G, G)."""
        linked = np.zeros((len(self.names), len(self.names)), dtype=bool)
        rows, columns = np.nonzero(precision)
        linked[self.labels[rows], self.labels[columns]] = True
        return linked
