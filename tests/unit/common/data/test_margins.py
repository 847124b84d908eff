"""Noisy histograms become shares, and shares scores: against brute force and ranks; and files, which come back."""

import io
import itertools
import math
from collections.abc import Callable

import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy import stats

from dp_bundle import Bundle
from dp_bundle.base.errors import BundleFormatError
from dp_bundle.data.margins import Margin, Scores, mean_and_deviation, middle_scores, read_margins, write_margins
from dp_bundle.manifest.release import MARGINS_NAME, Release


def of(counts: list[int], *, labels: tuple[str, ...] = (), has_gaps: bool = False) -> Margin:
    """Return a histogram of these counts in cells of width 1."""
    found = np.array(counts, dtype=np.int64)
    return Margin("x", np.arange(len(found) - has_gaps - 1, dtype=float), labels, has_gaps, found)


def nearest(target: np.ndarray) -> np.ndarray:
    """Return the nearest point of the simplex, by trying every set of cells that are not empty."""
    best = None
    for size in range(1, len(target) + 1):
        for support in map(list, itertools.combinations(range(len(target)), size)):
            point = np.zeros(len(target))
            point[support] = target[support] - (target[support].sum() - 1) / size
            if (point >= 0).all() and (best is None or np.sum((point - target) ** 2) < np.sum((best - target) ** 2)):
                best = point
    return best


@pytest.mark.parametrize("seed", range(6))
def test_shares_are_the_nearest_that_add_up_to_one(seed: int) -> None:
    """They are not negative, add up to 1, and no other such shares are nearer to the noisy counts over rows."""
    rng = np.random.default_rng(seed)
    counts = np.rint(rng.normal(20, 10 ** rng.uniform(0, 3), 7)).astype(np.int64)
    shares = of(counts.tolist(), has_gaps=True).shares(100, 30.0)
    assert shares.min() >= 0
    assert shares.sum() == pytest.approx(1, abs=1e-12)
    assert shares == pytest.approx(nearest(counts / 100), abs=1e-12)


def test_counts_at_the_ends_of_many_numbers_are_shared_out() -> None:
    """Cells of noise at either end have their sum together, each a part of the next one's, and the others what is left.

    Levels, few cells, and the cell of gaps stay as they are.
    """
    noise = [1, -2, 2, 0, 1, 3, -1, 2]
    counts = [*noise, *(20 * [50]), *noise]
    shares = of(counts).shares(sum(counts), 4.0)
    assert shares[:8].sum() == pytest.approx(sum(noise) / sum(counts))
    assert shares[-8:].sum() == pytest.approx(sum(noise) / sum(counts))
    assert shares[6] == pytest.approx(math.exp(-60 / 36) * shares[7])
    assert shares[-7] == pytest.approx(math.exp(-60 / 36) * shares[-8])
    assert shares[8:-8] == pytest.approx(50 / sum(counts))
    assert (of(counts, labels=tuple(map(str, range(36)))).shares(1000, 4.0)[[2, 5, 33]] > 0).all()
    assert of([*counts, 9], has_gaps=True).shares(1000, 4.0)[-1] > 0


def test_scores_are_normal_quantiles_of_middle_ranks() -> None:
    """Of exact shares they are those of mean ranks as scipy gives them to ties."""
    rng = np.random.default_rng(1)
    cells = rng.integers(0, 6, 500)
    scores = middle_scores(np.bincount(cells) / 500, 500)
    assert scores[cells] == pytest.approx(stats.norm.ppf((stats.rankdata(cells) - 0.5) / 500), abs=1e-12)


def test_a_value_has_the_score_of_its_cell() -> None:
    """A value at an end belongs to the upper cell; gaps stay, and infinite values are at the ends."""
    scores = Scores(np.array([0.0, 1.0]), np.array([-1.0, 0.5, 2.0]))
    values = np.array([-np.inf, -1e-300, 0.0, 0.999, 1.0, np.inf, np.nan])
    assert np.array_equal(scores.of(values), [-1.0, -1.0, 0.5, 0.5, 2.0, 2.0, np.nan], equal_nan=True)
    strided = np.repeat(values, 2).reshape(-1, 2)[:, 0]
    assert np.array_equal(scores.of(strided), scores.of(values), equal_nan=True)


def test_mean_and_deviation_are_those_of_the_shares() -> None:
    """They are numpy's weighted ones, also of shares that leave gaps out."""
    values, shares = np.array([-1.0, 0.0, 3.0]), np.array([0.2, 0.1, 0.5])
    mean = np.average(values, weights=shares)
    expected = mean, np.sqrt(np.average((values - mean) ** 2, weights=shares))
    assert mean_and_deviation(values, shares) == pytest.approx(expected)
    assert mean_and_deviation(values, np.zeros(3)) == (0.0, 0.0)


def _of_many(release: Release, n_columns: int) -> Release:
    """Return the release with so many columns of numbers, and no others."""
    columns = tuple(release.columns[0].model_copy(update={"name": f"x{place}"}) for place in range(n_columns))
    return release.model_copy(update={"columns": columns, "sources": ()})


def _written(margins: list[Margin]) -> io.BytesIO:
    file = io.BytesIO()
    write_margins(margins, file)
    return file


def _are_equal(found: tuple[Margin, ...], written: list[Margin]) -> bool:
    parts = ("name", "labels", "has_gaps")
    return len(found) == len(written) and all(
        all(getattr(one, part) == getattr(other, part) for part in parts)
        and np.array_equal(one.edges, other.edges)
        and np.array_equal(one.counts, other.counts)
        for one, other in zip(found, written, strict=True)
    )


def test_stored_histograms_are_written_as_they_were_read(of_scores: Bundle) -> None:
    """What is read of columns of all kinds gives the member's table again."""
    margins = [*of_scores.margins()]
    kinds = {(bool(each.labels), each.has_gaps, each.counts_numbers) for each in margins}
    assert kinds == {(False, False, True), (False, True, True), (True, False, False), (True, False, True)}
    file = _written(margins)
    assert _are_equal(read_margins(file, of_scores.release), margins)
    with of_scores.open(MARGINS_NAME) as member:
        stored = pq.read_table(io.BytesIO(member.read())).to_pandas()
    assert stored.equals(pq.read_table(io.BytesIO(file.getvalue())).to_pandas())  # NaN where it was


def test_few_bytes_that_hold_many_cells_are_refused(of_scores: Bundle) -> None:
    """Equal cells of 200 columns take a few kilobytes, as noise never does."""
    cells = {"edges": 10 + np.arange(1.0, 1024) / 1024, "counts": np.zeros(1024, dtype=np.int64)}
    file = _written([Margin(f"x{place}", **cells) for place in range(200)])
    with pytest.raises(BundleFormatError, match="fewer bytes"):
        read_margins(file, _of_many(of_scores.release, 200))


def test_other_releases_have_no_histograms(stored: Callable[[str], Bundle]) -> None:
    """A release of second moments alone says so."""
    other = stored("two-round")
    with pytest.raises(BundleFormatError, match="release"):
        other.margins()
    with pytest.raises(BundleFormatError, match="release"):
        read_margins(io.BytesIO(), other.release)
