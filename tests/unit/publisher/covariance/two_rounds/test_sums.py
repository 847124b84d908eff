"""Sums of rows by their length."""

import numpy as np
import pytest

from dp_publish.covariance.scaling import scaling_around
from dp_publish.covariance.two_rounds import sums as module
from dp_publish.covariance.two_rounds.rows import RoundMap, round_transform
from dp_publish.covariance.two_rounds.shares import radii
from dp_publish.covariance.two_rounds.sums import BinnedSums


@pytest.mark.slow
@pytest.mark.parametrize("p", [3, 65])
@pytest.mark.parametrize("whitened", [False, True])
def test_narrow_and_wide_tables_give_the_same_integers(p: int, whitened: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiled sums and those by matrix products agree in every integer, at every radius."""
    rng = np.random.default_rng(p)
    values = np.asfortranarray(rng.standard_t(3, (5000, p)))
    noise = 0.1 * rng.normal(size=(p, p)) / p**0.5
    transform = round_transform(np.eye(p) + noise + noise.T) if whitened else None
    half_widths = np.full(p, 2 * p**0.5)
    frame = RoundMap(np.full(p, -9.0), np.full(p, 9.0), np.full(p, 0.1), half_widths, transform)

    found = []
    for most in (0, p):
        monkeypatch.setattr(module, "_NARROW", most)
        sums = BinnedSums(p, radii(0.2, p))
        for start in range(0, len(values), 4500):  # one batch is more than a block
            sums.add(values[start : start + 4500], frame)
        found.append(sums)

    wide, narrow = found
    assert wide.counts.tolist() == narrow.counts.tolist()
    for chosen, radius in enumerate(wide.radii.tolist()):
        scaling = scaling_around(frame.centers, half_widths, radius, 0.02)
        one, other = wide.moments(chosen, scaling), narrow.moments(chosen, scaling)
        assert (one.products == other.products).all()
        assert (one.sums == other.sums).all()
        assert wide.fourth_powers(chosen) == narrow.fourth_powers(chosen)
