"""Histograms come back as they were written, and a file that would take more memory than it has bytes is refused."""

import io
from collections.abc import Callable

import numpy as np
import pyarrow.parquet as pq
import pytest

from dp_bundle import Bundle
from dp_bundle.base.errors import BundleFormatError
from dp_bundle.data.margins import Margin, read_margins, write_margins
from dp_bundle.manifest.release import MARGINS_NAME, Release


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
