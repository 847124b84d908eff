"""The last bits of eigenvector releases: those of floating point tell two tables apart, those of integers do not.

The eigenvector mechanisms draw a direction g in coordinates of the exact matrix's eigenvectors V. Drawn in floating
point, V g takes only those values of the sphere that rounding leaves, and they are others for another table. The
attacker knows both tables. Where the noisy eigenvalues were (x, 0, ...), he reads x off the trace, on the grid of its
noise or at the number of rows, and with it every coefficient. He takes the directions a few units in the last place
around V^T u, u being the released matrix's largest eigenvector, puts the matrix together from each as the mechanism
does, and compares all bits. He says "the second" of a release that only the second table can have produced.

References
----------
Mironov (2012), On significance of the least significant bits for differential privacy. Haney et al. (2022),
Precision-based attacks and interval refining, arXiv 2207.13793.
"""

from itertools import product

import numpy as np
import pytest
from scipy import stats

from dp_bundle.manifest.noise import Neighbours
from dp_publish.accounting.strength import PureDP
from dp_publish.covariance.exact_moments import ExactMoments, moments_of_batch
from dp_publish.covariance.mechanisms.eigenvectors import Eigenvectors, complement, eigenvalue_grid
from dp_publish.covariance.scaling import scaling_for
from dp_publish.sampling.keystream import insecure_keystream

EPSILON = 0.1
CLOSE = 1e-9


def tables_of(d: int) -> list[ExactMoments]:
    """Return two tables that differ in their last row, of so many rows that the largest eigenvector stands out."""
    common, scaling = np.tile(np.linspace(0.9, 0.7, d), (20, 1)), scaling_for([(-1.0, 1.0)] * d, with_mean=False)
    last = np.ones(d), np.where(np.arange(d) % 2, 1.0, -1.0)
    return [moments_of_batch(np.vstack([common, row]), scaling) for row in last]


class Attacker:
    """The known facts about one table."""

    def __init__(self, table: ExactMoments, mechanism: Eigenvectors) -> None:
        self.square, self.most = table.scaling.square, float(table.n_rows)
        self.axes = np.linalg.eigh(table.matrix / self.square)[1]
        self.mechanism = mechanism
        self.step = eigenvalue_grid(mechanism.sensitivity, mechanism.row_epsilon).step

    def reaches(self, released: np.ndarray) -> bool:
        """Return whether the mechanism can have made exactly this of the table."""
        total = float(np.trace(released)) / self.square
        x = self.most if total > self.most * (1 - CLOSE) else round(total * self.square / self.step) * self.step
        noisy = np.zeros(len(released))
        noisy[0] = x if x == self.most else x / self.square
        weights = self.mechanism.coefficients(noisy)
        eigenvalues, vectors = np.linalg.eigh(released)
        if abs(eigenvalues[-1] / self.square - weights[0]) > CLOSE * max(total, 1.0):
            return False
        g = self.axes.T @ vectors[:, -1]
        g /= np.linalg.norm(g)
        near = product(range(-3, 4), repeat=len(g))
        return any(
            np.array_equal(self._matrix(g + np.array(n) * np.spacing(np.abs(g)), weights), released) for n in near
        )

    def _matrix(self, g: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Return the matrix that the mechanism makes of a direction."""
        first = self.axes @ g
        if weights[1:].any():
            u = np.array([first, complement(first)[:, 0]])
            matrix = (u.T * weights) @ u
        else:
            matrix = np.outer(first * weights[0], first)
        return np.asarray(0.5 * (matrix + matrix.T) * self.square)


def proved(n: int, *, insecure: bool) -> float:
    """Return the epsilon that the last bits of so many releases of either table prove."""
    tables, rng = tables_of(2), insecure_keystream(7)
    mechanism = Eigenvectors(tables[0].scaling, Neighbours.REPLACE_ONE, PureDP(EPSILON))
    draw = mechanism.insecure_draw if insecure else mechanism.draw
    attackers, rates = [Attacker(table, mechanism) for table in tables], []
    for table in tables:
        released = [draw(table, rng).matrix for _ in range(n)]
        first, second = (np.array([each.reaches(one) for one in released]) for each in attackers)
        told = stats.binomtest(int(np.count_nonzero(second & ~first)), n)
        rates.append(told.proportion_ci(1 - 1e-4, method="exact"))
    alarms, hits = rates
    return float(np.log(max(hits.low, 1e-9) / alarms.high))


@pytest.mark.slow
def test_floating_point_is_told_apart_and_integers_are_not() -> None:
    """Releases drawn in floating point at epsilon = 0.1 prove twice as much and more, those of integers no more."""
    assert proved(1000, insecure=True) > 2 * EPSILON
    assert proved(1000, insecure=False) <= EPSILON
