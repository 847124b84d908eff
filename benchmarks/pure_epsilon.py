"""Error of correlations under a pure epsilon, where centres and scales are declared.

    OPENBLAS_NUM_THREADS=1 python benchmarks/pure_epsilon.py [--epsilon 3] [--repetitions 40]

wine (178 x 13) and breast cancer (569 x 30) come with scikit-learn. Bounds are each column's mean plus and minus four
of its standard deviations, as a publisher who knows the scales of her data would declare them, and rows are shortened
to a length (`l2_radius`) given in standard deviations times sqrt(p), the root mean square length of standardised rows.
Printed: the mean over repetitions of the median |released - exact| over all pairs of correlations, for a replaced row,
by wishart-difference and by laplace; last, the median error that shortening alone makes, without noise.
"""

from __future__ import annotations

import argparse
import math

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_wine

from dp_bundle.data.recovery import mean_and_covariance
from dp_bundle.privacy.neighbours import Neighbours
from dp_publish.accounting.strength import PureDP
from dp_publish.covariance.exact_moments import ExactMoments, moments_of_batch
from dp_publish.covariance.mechanisms.laplace import Laplace
from dp_publish.covariance.mechanisms.wishart_difference import WishartDifference
from dp_publish.covariance.scaling import scaling_for
from dp_publish.sampling.keystream import insecure_keystream

HALF_WIDTH = 4.0  # of the bounds, in standard deviations
RADII = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.2)
Floats = NDArray[np.float64]


def exact_sums(rows: Floats, radius: float) -> ExactMoments:
    """Return the sums of rows within declared bounds, shortened to `radius` sqrt(p) standard deviations."""
    center, reach = rows.mean(axis=0), HALF_WIDTH * rows.std(axis=0)
    bounds = [(float(mid - far), float(mid + far)) for mid, far in zip(center, reach, strict=True)]
    return moments_of_batch(rows, scaling_for(bounds, radius=radius * math.sqrt(len(bounds)) / HALF_WIDTH))


def correlations(matrix: Floats, moments: ExactMoments, variance: float = 0.0) -> Floats:
    """Return the correlations that a reader computes, each variance being at least a thousandth of an even share."""
    scaling = moments.scaling
    place = (matrix, scaling.centers, scaling.half_widths, scaling.constant)
    _, covariance, _ = mean_and_covariance(*place, n_rows=moments.n_rows, off_diagonal_variance=variance)
    scaled = covariance / np.outer(scaling.half_widths, scaling.half_widths)
    variances = np.maximum(np.diagonal(scaled), 1e-3 * float(scaling.squared_radius) / scaling.n_features)
    upper = np.triu_indices(scaling.n_features, 1)
    found: Floats = (scaled / np.sqrt(np.outer(variances, variances)))[upper]
    return found


def drawn(kind: type[WishartDifference | Laplace], moments: ExactMoments, epsilon: float, n: int) -> list[Floats]:
    """Return the correlations of n releases."""
    mechanism, rng = kind(moments.scaling, Neighbours.REPLACE_ONE, PureDP(epsilon)), insecure_keystream(1)
    releases = [mechanism.draw(moments, rng) for _ in range(n)]
    return [correlations(one.matrix, moments, one.noise.off_diagonal_variance or 0.0) for one in releases]


def main() -> None:
    """Print the errors for both tables and all radii."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epsilon", type=float, default=3.0)
    parser.add_argument("--repetitions", type=int, default=40)
    options = parser.parse_args()
    print(f"{'table':15}{'radius':>8}{'wishart-difference':>21}{'laplace':>10}{'no noise':>10}")
    for name, load in (("wine", load_wine), ("breast cancer", load_breast_cancer)):
        rows: Floats = np.asarray(load().data, dtype=np.float64)
        exact = np.corrcoef(rows.T)[np.triu_indices(rows.shape[1], 1)]
        for radius in RADII:
            moments = exact_sums(rows, radius)
            of = (moments, options.epsilon, options.repetitions)
            found = [drawn(WishartDifference, *of), drawn(Laplace, *of), [correlations(moments.matrix, moments)]]
            by = [np.mean([np.median(np.abs(each - exact)) for each in of_kind]) for of_kind in found]
            print(f"{name:15}{radius:8.1f}{by[0]:21.3f}{by[1]:10.3f}{by[2]:10.3f}", flush=True)


if __name__ == "__main__":
    main()
