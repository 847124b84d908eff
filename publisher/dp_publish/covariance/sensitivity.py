"""Sensitivity of the sum of second moments to one row, in the norms that the mechanisms need.

Rows are v = (z, c) with ||z|| <= R and c fixed; N^2 = R^2 + c^2. Neighbours "replace-one": one row takes another value,
the number of rows is public; "add-remove": one row more or less, and the number of rows is private.

**Frobenius.** Add-remove: ||v v^T|| = ||v||^2 <= N^2. Replace-one: ||v v^T - w w^T||^2 = ||v||^4 + ||w||^4 - 2 (v.w)^2
<= 2 N^4, attained where v.w = 0, which c <= R allows.

**L1 of the upper triangle** with its diagonal. Add-remove: (||v||_1^2 + ||v||_2^2) / 2 <= N^2 (d + 1) / 2, d = p + 1;
directly, R^2 (p + 1) / 2 + c R sqrt(p) + c^2. Replace-one: the norm is the largest v^T H v - w^T H w over symmetric H
with +-1 on the diagonal and +-1/2 elsewhere, and that is at most N^2 times the distance from the smallest to the
largest of H's eigenvalues and zero, as rows may be short. That spread is at most sqrt(2) times the Frobenius norm, so
it is at most ``sqrt(d (d + 3) / 2)``; splitting off half the diagonal, also ``d / sqrt(2) + 1``. Both beat d + 1, the
sum of two rows' norms, by a factor that goes to 1.41, and the first is attained for d = 2. With the constant, whose own
entry does not move, H_cc is free: taken as 0, the first becomes ``N^2 sqrt(p (p + 5) / 2)``; or, the constant's entries
apart, ``R^2 L(p) + 2 c R sqrt(p)``, L being the smaller of the two. The smallest valid bound is used.

**Nuclear norm**, which bounds the sum of all eigenvalues' movements (Mirsky 1960): N^2 for add-remove, 2 N^2 for
replace-one.

References
----------
Su et al. (2022), Differentially private precision matrix estimation, for sqrt(2). Amin et al. (2019), Differentially
private covariance estimation. Mirsky (1956), The spread of a matrix, Mathematika 3.
"""

from __future__ import annotations

import math

from dp_bundle.base.errors import PrivacyError
from dp_bundle.privacy.neighbours import Neighbours
from dp_publish.covariance.scaling import Scaling

_UP = 1 + 2.0**-48  # far above the rounding of the few operations below


def frobenius_sensitivity(scaling: Scaling, neighbours: Neighbours) -> float:
    """Return the largest Frobenius norm by which one row moves the sum, rounded up."""
    check_neighbours(scaling, neighbours)
    return scaling.square * neighbours.frobenius * _UP


def l1_sensitivity(scaling: Scaling, neighbours: Neighbours) -> float:
    """Return a bound on the L1 norm by which one row moves the sum's upper triangle, rounded up."""
    check_neighbours(scaling, neighbours)
    p, c, radius = scaling.n_features, scaling.constant, math.sqrt(scaling.squared_radius)
    if not neighbours.n_rows_public:
        return (radius**2 * (p + 1) / 2 + c * radius * math.sqrt(p) + c * c) * _UP
    bounds = [radius**2 * _spread(p) + 2 * c * radius * math.sqrt(p)]
    if c:
        bounds.append(scaling.square * math.sqrt(p * (p + 5) / 2))
    return min(bounds) * _UP


def nuclear_sensitivity(scaling: Scaling, neighbours: Neighbours) -> float:
    """Return the largest sum by which one row moves the eigenvalues of the sum, rounded up."""
    check_neighbours(scaling, neighbours)
    return scaling.square * neighbours.nuclear * _UP


def check_neighbours(scaling: Scaling, neighbours: Neighbours) -> None:
    """Refuse a neighbour relation that needs the constant coordinate where there is none.

    Raises
    ------
    PrivacyError
    """
    if not (neighbours.n_rows_public or scaling.constant):
        raise PrivacyError(
            "with add-remove neighbours the number of rows is private and can only be read from the constant "
            "coordinate: release the mean as well"
        )


def _spread(d: int) -> float:
    """Return a bound on the spread, zero included, of such a symmetric d x d matrix."""
    return 1.0 if d == 1 else min(math.sqrt(d * (d + 3) / 2), d / math.sqrt(2.0) + 1)
