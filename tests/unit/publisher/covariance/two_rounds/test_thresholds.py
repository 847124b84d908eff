"""Clips and radii that are chosen by how many values or rows are beyond them."""

import numpy as np

from dp_publish.covariance.two_rounds.places import Place, PlaceCounts
from dp_publish.covariance.two_rounds.shares import ClipSearch, radii, radius_search
from dp_publish.sampling.exponential import ExponentialMechanism
from dp_publish.sampling.keystream import insecure_keystream


def _clip_of(values: np.ndarray, place: Place, mu: float = 5.0, least: float = 2.0) -> float:
    """Return the clip that is chosen for a column, in scales."""
    counts, rng = PlaceCounts((place, place)), insecure_keystream(1)
    counts.add(np.stack([values, values]).T)
    center, scale = np.full(2, place.center), np.full(2, place.scale)
    search = ClipSearch(ExponentialMechanism(mu, one_sided=True), least, 2.0)
    found = counts.find_clips(center, scale, search, lambda step, scores: step.draw(scores, rng))
    return float(found[0])


def test_column_is_clipped_where_few_of_its_values_are() -> None:
    """Rare values that are far out are kept, a value that is alone is not, and nothing is clipped beyond the bounds."""
    values = np.random.default_rng(1).uniform(-1.0, 1.0, 1000)
    rare, one = values.copy(), values.copy()
    rare[:50], one[0] = 30.0, 30.0

    assert _clip_of(values, Place(-100.0, 100.0, 0.0, 1.0)) == 2.0
    assert 30.0 <= _clip_of(rare, Place(-100.0, 100.0, 0.0, 1.0)) < 30.0 * 1.25**3
    assert _clip_of(one, Place(-100.0, 100.0, 0.0, 1.0), mu=0.5) == 2.0
    assert _clip_of(rare, Place(-1.5, 1.5, 0.0, 1.0)) == 1.5


def test_choice_comes_near_its_target() -> None:
    """With strength enough it is the smallest radius that no more rows than aimed at exceed, and with none any."""
    exceeding = np.array([900, 500, 200, 130, 30, 0])
    clear, vague = radius_search(5.0, 1.0, 10**4, 8), radius_search(1e-4, 1.0, 10**4, 8)
    assert 40 < clear.target < 130
    rng = insecure_keystream(3)
    assert {clear.mechanism.choose(clear.scores(exceeding), rng) for _ in range(50)} == {4}
    assert len({vague.mechanism.choose(vague.scores(exceeding), rng) for _ in range(200)}) > 2


def test_radii_ascend_to_the_largest() -> None:
    """Radii are whole 256ths from the smallest to 1, and fewer of them where sums of wide rows take much memory."""
    narrow, wide = radii(0.05, 10), radii(0.05, 2000)
    assert narrow[0] == 13
    assert narrow[-1] == wide[-1] == 256
    assert (np.diff(narrow) > 0).all()
    assert len(wide) < len(narrow) <= 33
