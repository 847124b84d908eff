"""Histograms come back as they were written, and a file that would take more memory than it has bytes is refused."""

import io
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from dp_bundle import Bundle, open_bundle
from dp_bundle.base.errors import BundleFormatError
from dp_bundle.data.margin_file import read_margins, write_margins
from dp_bundle.data.margins import Margin
from dp_bundle.manifest.release import MARGINS_NAME, Release
from dp_bundle.trust.judging import UnsafeTrustAnyone

GOLDEN = Path(__file__).parents[3] / "golden"


@pytest.fixture(scope="module")
def bundle() -> Iterator[Bundle]:
    """Return the stored release by normal scores."""
    with open_bundle(GOLDEN / "bundle-copula.tar", UnsafeTrustAnyone()) as opened:
        yield opened


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


def test_stored_histograms_are_written_as_they_were_read(bundle: Bundle) -> None:
    """What is read of columns of all kinds gives the member's table again."""
    margins = [*bundle.margins()]
    kinds = {(bool(each.labels), each.has_gaps, each.counts_numbers) for each in margins}
    assert kinds == {(False, False, True), (False, True, True), (True, False, False), (True, False, True)}
    file = _written(margins)
    assert _are_equal(read_margins(file, bundle.release), margins)
    with bundle.open(MARGINS_NAME) as member:
        stored = pq.read_table(io.BytesIO(member.read())).to_pandas()
    assert stored.equals(pq.read_table(io.BytesIO(file.getvalue())).to_pandas())  # NaN where it was


def test_few_bytes_that_hold_many_cells_are_refused(bundle: Bundle) -> None:
    """Equal cells of 200 columns take a few kilobytes, as noise never does."""
    cells = {"edges": 10 + np.arange(1.0, 1024) / 1024, "counts": np.zeros(1024, dtype=np.int64)}
    file = _written([Margin(f"x{place}", **cells) for place in range(200)])
    with pytest.raises(BundleFormatError, match="fewer bytes"):
        read_margins(file, _of_many(bundle.release, 200))


def test_other_releases_have_no_histograms() -> None:
    """A release of second moments alone says so."""
    with open_bundle(GOLDEN / "bundle-two-round.tar", UnsafeTrustAnyone()) as other:
        with pytest.raises(BundleFormatError, match="release"):
            other.margins()
        with pytest.raises(BundleFormatError, match="release"):
            read_margins(io.BytesIO(), other.release)
