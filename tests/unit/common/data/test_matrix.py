"""The data member of a covariance release: read back as written, and in no other way; the corpus has most refusals."""

import io
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.fuzz.hostile import triangle_of_one_label

from dp_bundle import open_bundle
from dp_bundle.base.errors import BundleFormatError
from dp_bundle.data.matrix import read_triangle, stated_rows, write_triangle
from dp_bundle.manifest.release import Release
from dp_bundle.trust.judging import UnsafeTrustAnyone

GOLDEN = Path(__file__).parents[3] / "golden"


def release(name: str = "covariance") -> Release:
    """Return a stored release of the second moments of three columns."""
    with open_bundle(GOLDEN / f"bundle-{name}.tar", UnsafeTrustAnyone()) as bundle:
        return bundle.release


def matrix(own: Release | None = None) -> np.ndarray:
    """Return a matrix that the stated noise of a release can have produced."""
    own = own or release()
    moments, d = own.second_moments, len(own.labels)
    noisy = np.rint(np.random.default_rng(0).normal(size=(d, d)) * 5 / moments.granularity) * moments.granularity
    noisy = np.triu(noisy) + np.triu(noisy, 1).T
    if moments.constant:
        noisy[-1, -1] = own.n_rows * moments.constant**2
    return noisy


def written(noisy: np.ndarray, labels: list[str] | None = None) -> io.BytesIO:
    """Return the member's file."""
    file = io.BytesIO()
    write_triangle(noisy, labels or release().labels, file)
    file.seek(0)
    return file


def test_plain_tools_read_the_triangle() -> None:
    """Pandas finds a line for every pair of labels, in the triangle's order, and our reader the matrix, bit for bit."""
    file = written(matrix())
    assert np.array_equal(read_triangle(file, release()), matrix())
    frame, names = pd.read_parquet(file), release().labels
    pairs = [(one, other) for i, one in enumerate(names) for other in names[i:]]
    assert list(zip(frame["row"], frame["column"], strict=True)) == pairs
    assert frame["value"].tolist() == matrix()[np.triu_indices(4)].tolist()
    assert pq.read_metadata(file).metadata is None


def test_number_of_rows_is_read_from_the_noisy_corner() -> None:
    """Where rows may come and go the number is the corner's, rounded, without the noise's mean, and at least 1."""
    noisy = matrix()
    with pytest.raises(BundleFormatError, match="number of rows"):
        read_triangle(written(noisy), release().model_copy(update={"n_rows": release().n_rows + 1}))
    assert stated_rows(noisy, release().second_moments.constant, 0.0) == release().n_rows
    assert stated_rows(np.array([[10.0]]), 0.5, 2.0) == 32
    assert [stated_rows(np.array([[corner]]), 1.0, 0.0) for corner in (-7.0, 1e308, -1e308)] == [1, 2**53, 1]


def test_garbage_and_giants_are_refused() -> None:
    """Bytes that are no Parquet, and fewer than so many noisy entries take, are format errors."""
    with pytest.raises(BundleFormatError, match="fewer bytes"):
        read_triangle(written(matrix()), wide([f"x{place}" for place in range(400)]))
    for garbage in (b"PAR1 nothing", b"PAR1 nothing PAR1"):
        with pytest.raises(BundleFormatError):
            read_triangle(io.BytesIO(garbage), release())


def wide(labels: list[str]) -> Release:
    """Return a covariance release of these columns, without a constant."""
    own = release("eigenvectors")
    moments = own.second_moments.model_copy(update={"constant": 0.0})
    columns = tuple(own.columns[0].model_copy(update={"name": name}) for name in labels)
    return own.model_copy(update={"columns": columns, "second_moments": moments})


def test_one_long_label_is_not_repeated_for_every_entry() -> None:
    """A dictionary that holds one text as long as all labels together is refused, and takes its memory once."""
    own = wide([f"{'x' * 500}{index:03}" for index in range(200)])
    honest = written(matrix(own), own.labels).getvalue()
    read_triangle(io.BytesIO(honest), own)
    before = pa.total_allocated_bytes(), pa.default_memory_pool().max_memory()
    with pytest.raises(BundleFormatError, match="triangle"):
        read_triangle(io.BytesIO(triangle_of_one_label(own.labels)), own)
    assert pa.default_memory_pool().max_memory() - max(before) < 8 * 2**20


def test_labels_that_are_in_no_dictionary_are_refused() -> None:
    """An index beyond the dictionary, which pyarrow gives out as it is, is a format error."""
    own = wide([*"abc"])
    content, indices = written(matrix(own), own.labels).getvalue(), b"\x02\x03\x40\x09"  # two bits each, of 3 labels
    assert content.count(indices) == 1
    with pytest.raises(BundleFormatError, match="triangle"):
        read_triangle(io.BytesIO(content.replace(indices, b"\x02\x03\xff\x0f")), own)
