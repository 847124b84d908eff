"""Attack on the last bits of a released matrix, which may reveal from which of two tables it came.

The eigenvector mechanisms draw a direction g in coordinates of the exact matrix's eigenvectors V. Drawn in floating
point, V g takes only those values of the sphere that rounding leaves, and they are others for another table. The
attacker knows both tables. Where the noisy eigenvalues were (x, 0, ...), he reads x off the trace, on the grid of its
noise or at the number of rows, and with it every coefficient. He takes the directions a few units in the last place
around V^T u, u being the released matrix's largest eigenvector, puts the matrix together from each as the mechanism
does, and compares all bits. A release that only the second table can have produced scores 1, one that only the first
can -1, others 0.

That works in two coordinates, where the second vector follows from the first; for any number of them where the others'
coefficients are zero, as Kapralov & Talwar's are.

References
----------
Mironov (2012), On significance of the least significant bits for differential privacy. Haney et al. (2022),
Precision-based attacks and interval refining, arXiv 2207.13793.
"""

from __future__ import annotations

from itertools import product
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dp_bundle.privacy.neighbours import Neighbours
from dp_publish.covariance.exact_moments import ExactMoments, moments_of_batch
from dp_publish.covariance.mechanisms.eigenvectors import complement
from dp_publish.covariance.mechanisms.kapralov_talwar import KapralovTalwar
from dp_publish.covariance.mechanisms.spectral import SpectralMechanism, eigenvalue_grid
from dp_publish.covariance.scaling import Scaling

_Floats: TypeAlias = NDArray[np.float64]

_REACH = {2: 3, 3: 2}  # units in the last place, by the number of coordinates; 1 for more
_CLOSE = 1e-9
_ROWS = 20


def low_bit_scores(released: list[_Floats], tables: list[ExactMoments], mechanism: SpectralMechanism) -> list[_Floats]:
    """Return the score of every release.

    Parameters
    ----------
    released : list of ndarray, shape (n, d, d)
        Releases of the first table and of the second.
    tables : list of ExactMoments
        Both tables.
    mechanism : SpectralMechanism
        The guarantee, and how it is kept.
    """
    attackers = [_Attacker(table, mechanism) for table in tables]
    hits = [[np.array([attacker.reaches(one) for one in part]) for attacker in attackers] for part in released]
    return [second.astype(np.float64) - first for first, second in hits]


def low_bit_tables(scaling: Scaling, neighbours: Neighbours) -> list[ExactMoments]:
    """Return two tables that differ in their last row, of so many rows that the largest eigenvector stands out."""
    p = scaling.n_features
    rows = np.vstack([np.tile(np.linspace(0.9, 0.7, p), (_ROWS, 1)), np.ones(p), np.where(np.arange(p) % 2, 1.0, -1.0)])
    data = scaling.centers + scaling.half_widths * rows
    one, other = data[:-1], np.vstack([data[:-2], data[-1]])
    return [moments_of_batch(table, scaling) for table in (one if neighbours.n_rows_public else data[:-2], other)]


class _Attacker:
    """The known facts about one table."""

    def __init__(self, table: ExactMoments, mechanism: SpectralMechanism) -> None:
        self.square = table.scaling.square
        self.axes = np.linalg.eigh(table.matrix / self.square)[1]
        self.outer_first = isinstance(mechanism, KapralovTalwar)
        self.coefficients = mechanism.coefficients
        self.most = float(table.n_rows) if mechanism.neighbours.n_rows_public else np.inf
        self.step = eigenvalue_grid(mechanism.sensitivity, mechanism.row_epsilon).step

    def reaches(self, released: _Floats) -> bool:
        """Return whether the mechanism can have made exactly this of the table."""
        d = len(released)
        total = float(np.trace(released)) / self.square
        x = self.most if total > self.most * (1 - _CLOSE) else round(total * self.square / self.step) * self.step
        noisy = np.zeros(d)
        noisy[0] = x if x == self.most else x / self.square
        weights = self.coefficients(noisy)
        eigenvalues, vectors = np.linalg.eigh(released)
        if abs(eigenvalues[-1] / self.square - weights[0]) > _CLOSE * max(total, 1.0):
            return False
        if d > 2 and weights[1:].any():
            return False
        g = self.axes.T @ vectors[:, -1]
        g /= np.linalg.norm(g)
        reach = _REACH.get(d, 1)
        steps = product(range(-reach, reach + 1), repeat=d)
        return any(np.array_equal(self._matrix(_moved(g, np.array(one)), weights), released) for one in steps)

    def _matrix(self, g: _Floats, weights: _Floats) -> _Floats:
        """Return the matrix that the mechanism makes of a direction."""
        first = self.axes @ g
        if weights[1:].any():
            u = np.array([first, complement(first)[:, 0]])
            matrix = (u.T * weights) @ u
        elif self.outer_first:
            matrix = weights[0] * np.outer(first, first)
        else:
            matrix = np.outer(first * weights[0], first)
        return np.asarray(0.5 * (matrix + matrix.T) * self.square)


def _moved(g: _Floats, steps: NDArray[np.int64]) -> _Floats:
    """Return a direction so many units in the last place away."""
    moved: _Floats = g + steps * np.spacing(np.abs(g))
    return moved
