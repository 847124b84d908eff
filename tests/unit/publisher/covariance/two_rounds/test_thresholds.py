"""Limits that are chosen by how many rows exceed them."""

from __future__ import annotations

import numpy as np
import pytest

from dp_publish.covariance.two_rounds.shares import (
    CLIPS,
    chooses_clip,
    clip_search,
    count_beyond_clips,
    radii,
    radius_search,
)
from dp_publish.sampling.keystream import insecure_keystream


def test_rows_are_counted_beyond_every_clip() -> None:
    """A row is beyond a clip if any of its values is, in scales from its column's center."""
    rng = np.random.default_rng(1)
    centers, scales = np.array([1.0, -2.0, 0.0]), np.array([0.5, 2.0, 1.0])
    values = np.asfortranarray(centers + scales * rng.standard_t(2, (500, 3)))
    values[0] = centers + CLIPS[3] * scales  # at the clip, and not beyond it

    counts = count_beyond_clips(values, centers, scales)

    farthest = np.abs((values - centers) / scales).max(axis=1)
    assert counts.tolist() == [int((farthest > clip * (1 + 1e-12)).sum()) for clip in CLIPS]


@pytest.mark.parametrize(("search", "each", "most"), [(clip_search, 10, 0.7), (radius_search, 10, 0.65)])
def test_target_depends_on_public_facts(search: type, each: float, most: float) -> None:
    """The target is in proportion to columns over mu, at least as for eight, or a share of a small table."""
    assert search(0.1, 1.0, 10**6, 30).target == each * 30
    assert search(0.1, 2.0, 10**6, 3).target == each * 8 / 2
    assert search(0.1, 1.0, 100, 30).target == int(most * 100)


def test_clip_is_chosen_where_it_clips_enough() -> None:
    """A large table is not read once more for a clip that would change less than one row in ten thousand."""
    assert chooses_clip(1.0, 990_000, 10)
    assert not chooses_clip(1.0, 1_010_000, 10)
    assert chooses_clip(1.0, 1_010_000, 20)
    assert not chooses_clip(2.0, 1_010_000, 20)


def test_choice_comes_near_its_target() -> None:
    """With strength enough the limit nearest to the target is chosen, and with none any of them."""
    exceeding = np.array([900, 500, 130, 40, 3])
    clear, vague = clip_search(5.0, 1.0, 10**4, 8), clip_search(1e-4, 1.0, 10**4, 8)
    rng = insecure_keystream(3)
    assert {clear.mechanism.choose(clear.scores(exceeding), rng) for _ in range(50)} == {3}
    assert {vague.mechanism.choose(vague.scores(exceeding), rng) for _ in range(200)} == {0, 1, 2, 3, 4}


def test_radii_ascend_to_the_largest() -> None:
    """Radii are whole 256ths from the smallest to 1, and fewer of them where sums of wide rows take much memory."""
    narrow, wide = radii(0.05, 10), radii(0.05, 2000)
    assert narrow[0] == 13
    assert narrow[-1] == wide[-1] == 256
    assert (np.diff(narrow) > 0).all()
    assert len(wide) < len(narrow) <= 16
