"""The data member of a covariance release: read back as written, and in no other way."""

import io
import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.fuzz.compact import I32, I64, Fields, read, write
from tests.fuzz.hostile import join, split, triangle_of_one_label

from dp_bundle.base.errors import BundleFormatError
from dp_bundle.bundle.reading import open_bundle
from dp_bundle.bundle.writing import write_bundle
from dp_bundle.data import matrix as triangle
from dp_bundle.data.matrix import read_triangle, stated_rows, write_triangle
from dp_bundle.manifest.guarantee import NUMBER_PUBLIC
from dp_bundle.manifest.release import Release
from dp_bundle.privacy.neighbours import Neighbours
from dp_bundle.privacy.noise import rounded_gaussian_variance
from dp_bundle.trust.judging import UnsafeTrustAnyone

N_ROWS = 10
STEP = 2.0**-10
EPSILON = 1.6682678659858134  # at which mu is 2
Change = Callable[[pa.Table], pa.Table]


def release(mechanism: str = "gaussian", **changes: object) -> Release:
    """Return a covariance release of three columns and ten rows, with some entries replaced."""
    column = {"kind": "continuous", "bounds": (0.0, 6.0), "bounds_obtained": "declared", "noise": None}
    gaussian = {
        "granularity": STEP,
        "distribution": "rounded-gaussian",
        "parameters": {"diagonal_sigma": 4.0, "off_diagonal_sigma": math.sqrt(8.0)},
        "diagonal_variance": STEP**2 * rounded_gaussian_variance(4.0 / STEP),
        "off_diagonal_variance": STEP**2 * rounded_gaussian_variance(math.sqrt(8.0) / STEP),
    }
    moments = {"mechanism": mechanism, "radius": math.sqrt(3.0), "constant": 1.0}
    strength = {"mu": 2.0, "rho": 2.0, "accountant": "gaussian-dp"}
    if mechanism == "eigenvectors":
        gaussian = {"granularity": STEP}
        strength |= {"epsilon": EPSILON, "accountant": "pure-epsilon", "excepted_delta": 2.0**-40}
    total = {"unit": "row", "releases": 1, "mu": 2.0, "rho": 2.0, "other_units_rho": {"cell": 2.0}}
    document = {
        "dataset": {"name": "people"},
        "lineage": {"number": 1, "created": "2026-01-02T03:04:05Z", "previous": None},
        "kind": "covariance",
        "n_rows": N_ROWS,
        "columns": tuple({"name": name, **column} for name in ("height", "weight", "age")),
        "second_moments": {**moments, **gaussian},
        "guarantee": {"unit": "row", **strength, "epsilon_delta": (), "public": (NUMBER_PUBLIC,)},
        "cumulative": {**total, "excepted_delta": 2.0**-40},
        "software": "dpgraph 0",
    }
    return Release.model_validate({**document, **changes})


def come_and_go(n_rows: int) -> Release:
    """Return the same where the number of rows is protected."""
    guarantee = release().guarantee
    assert guarantee is not None
    change = guarantee.model_copy(update={"neighbours": Neighbours.ADD_REMOVE, "public": ()})
    # The total is at least that of a row replaced.
    total = {"unit": "row", "releases": 1, "mu": 4.0, "rho": 8.0, "other_units_rho": {"cell": 8.0}}
    return release(guarantee=change, n_rows=n_rows, cumulative=total)


def matrix() -> np.ndarray:
    """Return a matrix that the stated noise can have produced."""
    noisy = np.rint(np.random.default_rng(0).normal(size=(4, 4)) * 5 / STEP) * STEP
    noisy = np.triu(noisy) + np.triu(noisy, 1).T
    noisy[3, 3] = N_ROWS
    return noisy


def written(noisy: np.ndarray, labels: list[str] | None = None) -> io.BytesIO:
    """Return the member's file."""
    file = io.BytesIO()
    write_triangle(noisy, labels or release().labels, file)
    file.seek(0)
    return file


def test_plain_tools_read_the_triangle() -> None:
    """Pandas finds a line for every pair of labels, in the triangle's order, and nothing of the writer.

    What our reader finds is what was written, bit for bit, and symmetric.
    """
    file = written(matrix())
    found = read_triangle(file, release())
    assert np.array_equal(found, matrix())
    assert np.array_equal(found, found.T)
    frame = pd.read_parquet(file)
    names = ["height", "weight", "age", "(constant)"]
    pairs = [(one, other) for i, one in enumerate(names) for other in names[i:]]

    assert list(zip(frame["row"], frame["column"], strict=True)) == pairs
    assert frame["value"].tolist() == matrix()[np.triu_indices(4)].tolist()
    assert pq.read_metadata(file).metadata is None


def test_number_of_rows_is_read_from_the_noisy_corner() -> None:
    """Where rows may come and go the number is the corner's, rounded, without the noise's mean, and at least 1."""
    noisy = matrix()
    noisy[3, 3] = 12.25
    assert np.array_equal(read_triangle(written(noisy), come_and_go(12)), noisy)
    with pytest.raises(BundleFormatError, match="another number of rows"):
        read_triangle(written(noisy), come_and_go(13))
    noisy[3, 3] = -7.0
    assert stated_rows(noisy, 1.0, 0.0) == 1
    for corner in (1e308, -1e308):
        noisy[3, 3] = corner
        assert stated_rows(noisy, 1 / 256, 0.0) == (2**53 if corner > 0 else 1)
    assert stated_rows(matrix(), 0.5, 2.0) == 32


def _replaced(column: int, index: int, value: object) -> Change:
    def change(table: pa.Table) -> pa.Table:
        values = table.column(column).to_pylist()
        values[index] = value
        return table.set_column(column, table.field(column), pa.array(values, table.field(column).type))

    return change


def _emptied(column: int) -> Change:
    def change(table: pa.Table) -> pa.Table:
        field = table.schema.field(column)
        values = pa.array([None, *table.column(column).to_pylist()[1:]], field.type)
        return table.set_column(column, pa.field(field.name, field.type), values)

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_replaced(2, 1, STEP / 2), "no multiple"),
        (_replaced(2, 0, math.pi), "no multiple"),
        (_replaced(2, 3, math.inf), "not a number"),
        (_replaced(2, 3, 1.7e308), "no multiple"),
        (_replaced(2, 3, math.nan), "not a number"),
        (_replaced(2, 9, 11.0), "another number of rows"),
        (_replaced(2, 9, 10.0 + STEP), "another number of rows"),
        (_replaced(0, 2, "weight"), "labelled triangle"),
        (_replaced(1, 2, "(constant)"), "labelled triangle"),
        (_emptied(0), "does not have the columns"),
        (_emptied(2), "does not have the columns"),
        (lambda table: table.slice(1), "labelled triangle"),
        (lambda table: pa.concat_tables([table, table.slice(0, 1)]), "more rows than"),
        (lambda table: table.take([1, 0, *range(2, 10)]), "labelled triangle"),
        (lambda table: table.select(["column", "row", "value"]), "does not have the columns"),
        (lambda table: table.append_column("extra", table.column(2)), "does not have the columns"),
        (lambda table: table.rename_columns(["row", "column", "number"]), "does not have the columns"),
        (lambda table: table.set_column(2, "value", table.column(2).cast(pa.float32(), safe=False)), "the columns"),
    ],
)
def test_what_is_not_the_promised_triangle_is_refused(change: Change, message: str) -> None:
    """Other labels, another order, values off the grid or not finite, and another number of rows are format errors."""
    file = io.BytesIO()
    table = change(pq.read_table(written(matrix())))
    dictionary = [name for name in table.column_names if pa.types.is_string(table.schema.field(name).type)]
    pq.write_table(table, file, use_dictionary=dictionary, store_schema=False, write_statistics=False)
    file.seek(0)
    with pytest.raises(BundleFormatError, match=message):
        read_triangle(file, release())


def test_garbage_and_giants_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes that are no Parquet, and more data than any triangle of that size has, are format errors."""
    with pytest.raises(BundleFormatError, match="not readable as Parquet"):
        read_triangle(io.BytesIO(b"PAR1 nothing"), release())
    with pytest.raises(BundleFormatError, match="footer larger"):
        read_triangle(io.BytesIO(b"PAR1 nothing PAR1"), release())
    file = written(matrix())
    monkeypatch.setattr(triangle, "_LEAST_BYTES", -1_000_000)
    monkeypatch.setattr(triangle.np, "empty", lambda *_: pytest.fail("memory was taken before the shape was known"))
    with pytest.raises(BundleFormatError, match="fewer bytes than a matrix of 4 columns"):
        read_triangle(file, release())


def test_bundle_gives_the_matrix_and_says_what_it_is(tmp_path: Path, key: Ed25519PrivateKey) -> None:
    """A covariance bundle has one data member, from which the matrix comes; asking it for rows is refused.

    README, data package and croissant name the three fields, the noise and the missing rows, and no cell's noise.
    """
    with (tmp_path / "a.tar").open("wb") as file:
        write_bundle(file, release(), [written(matrix())], key)
    with open_bundle(tmp_path / "a.tar", UnsafeTrustAnyone()) as opened:
        assert [name for name in opened.members if name.startswith("data/")] == ["data/covariance.parquet"]
        assert np.array_equal(opened.second_moments(), matrix())
        with pytest.raises(BundleFormatError, match="no rows"):
            opened.batches()
        readme = opened.open("README.md").read().decode()
        package, croissant = (json.load(opened.open(f"{name}.json")) for name in ("datapackage", "croissant"))

    assert "second moments of 3 columns, over 10 rows; no rows" in readme
    assert "There are no rows here" in readme
    assert "variance 16 on the diagonal and 8 beside it" in readme
    assert "| `height` |  | 0 to 6 |  |" in readme
    (resource,) = package["resources"]
    assert (resource["name"], resource["path"]) == ("covariance", "data/covariance.parquet")
    assert [field["name"] for field in resource["schema"]["fields"]] == ["row", "column", "value"]
    assert [field["type"] for field in resource["schema"]["fields"]] == ["string", "string", "number"]
    (records,) = croissant["recordSet"]
    assert records["name"] == "covariance"
    assert [field["name"] for field in records["field"]] == ["row", "column", "value"]
    assert "variance 16" in records["field"][2]["description"]


def test_rows_have_no_second_moments(bundle: object) -> None:
    """Asking a bundle of rows for its matrix is refused in one sentence."""
    with open_bundle(bundle.path) as opened, pytest.raises(BundleFormatError, match="release of rows"):
        opened.second_moments()


def wide(labels: list[str]) -> Release:
    """Return a covariance release of these columns, without a constant."""
    column = {"kind": "continuous", "bounds": (0.0, 6.0), "bounds_obtained": "declared", "noise": None}
    own = release("eigenvectors")
    assert own.second_moments is not None
    moments = own.second_moments.model_copy(update={"constant": 0.0})
    columns = tuple(own.columns[0].model_validate({"name": name, **column}) for name in labels)
    return own.model_copy(update={"columns": columns, "second_moments": moments})


@pytest.mark.parametrize("name", ["x" * 997, "é" * 498, "漢" * 332, "漢" * 997])
def test_columns_may_have_long_names(name: str) -> None:
    """A matrix is read whatever the length of its labels: no name gets into a header."""
    own = wide([f"{name}{index:03}" for index in range(4)])
    assert np.array_equal(read_triangle(written(matrix(), own.labels), own), matrix())


def test_one_long_label_is_not_repeated_for_every_entry() -> None:
    """A dictionary that holds one text as long as all labels together is refused, and takes its memory once."""
    own = wide([f"{'x' * 500}{index:03}" for index in range(200)])
    noisy = np.rint(np.random.default_rng(0).normal(scale=1e6, size=(200, 200)))
    honest = written(noisy + noisy.T, own.labels).getvalue()
    read_triangle(io.BytesIO(honest), own)
    before = pa.total_allocated_bytes(), pa.default_memory_pool().max_memory()
    with pytest.raises(BundleFormatError, match="labelled triangle"):
        read_triangle(io.BytesIO(triangle_of_one_label(own.labels, honest)), own)
    assert pa.default_memory_pool().max_memory() - max(before) < 8 * 2**20


@pytest.mark.parametrize(
    "change",
    [
        lambda footer: footer.at(4).items.clear(),
        lambda footer: (footer.put(3, I64, 9), footer.at(4, 0).put(3, I64, 9)),
        lambda footer: footer.put(3, I64, 11),
    ],
)
def test_no_entry_is_left_as_it_was_in_memory(change: Callable[[Fields], object]) -> None:
    """A file with fewer entries than its footer says is refused, and no memory of another matrix shows through."""
    body, footer = split(written(matrix()).getvalue())
    change(footer)
    with pytest.raises(BundleFormatError):
        read_triangle(io.BytesIO(join(body, footer)), release())


@pytest.mark.parametrize("index", [4, 5, 7])
def test_labels_that_are_in_no_dictionary_are_refused(index: int) -> None:
    """An index beyond the dictionary, which pyarrow gives out as it is, is a format error."""
    body, footer = split(written(matrix()).getvalue())
    about: Fields = footer.at(4, 0, 1, 0, 3)
    header, start = read(body, about.at(9))
    indices = bytes([3, 2 * 10, index])  # three bits wide, a run of ten
    stored = pa.Codec("snappy").compress(indices, asbytes=True)
    stored_before, size_before = header.at(3), header.at(2)
    header.update({2: (I32, len(indices)), 3: (I32, len(stored))})
    shorter, smaller = stored_before - len(stored), size_before - len(indices)
    about.update({6: (I64, about.at(6) - smaller), 7: (I64, about.at(7) - shorter)})
    group: Fields = footer.at(4, 0)
    group.update({2: (I64, group.at(2) - smaller), 6: (I64, group.at(6) - shorter)})
    for following in (1, 2):
        other: Fields = footer.at(4, 0, 1, following, 3)
        other.update({number: (I64, other.at(number) - shorter) for number in (9, 11) if number in other})
    changed = body[: about.at(9)] + write(header) + stored + body[start + stored_before :]
    with pytest.raises(BundleFormatError, match="labelled triangle"):
        read_triangle(io.BytesIO(join(changed, footer)), release())
