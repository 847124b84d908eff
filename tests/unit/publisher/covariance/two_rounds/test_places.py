"""Where nothing is declared, centers and scales are found in as few rows as a release may have."""

import numpy as np
import pytest
from numpy.typing import NDArray

from dp_publish.covariance.two_rounds.places import Place, PlaceCounts
from dp_publish.covariance.two_rounds.shares import share_out
from dp_publish.sampling.keystream import insecure_keystream


def scales_of(values: NDArray[np.float64], n_columns: int, draws: int) -> NDArray[np.float64]:
    """Return the scales found of some columns without bounds, among so many, in releases at mu = 1."""
    n, p = values.shape
    counts, shares, found = PlaceCounts((Place(),) * p, 1 << 13), share_out(1.0, n, n_columns, n_columns, n_columns), []
    counts.add(values)
    for draw in range(draws):
        rng = insecure_keystream(draw)
        found.append(counts.find(shares.place, shares.range, lambda step, counted, rng=rng: step.draw(counted, rng))[1])
    return np.array(found)


@pytest.mark.parametrize("zeros", [0.65, 0.88])
def test_columns_of_zeros_keep_what_is_beside_them(zeros: float) -> None:
    """Of a column that is mostly zeros the scale is neither next to nothing nor beyond all other values."""
    rng = np.random.default_rng(1)
    values = np.where(rng.random((303, 10)) < zeros, 0.0, rng.uniform(3.0, 80.0, (303, 10)))
    found = scales_of(values, 22, 6)

    assert found.min() >= 0.5
    assert found.max() < 100.0
