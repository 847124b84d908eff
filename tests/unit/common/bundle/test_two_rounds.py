"""Bundles of two rounds: what is written is read, and what contradicts the manifest or itself is refused."""

import io
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.two_rounds import Rounds, manifest_of, members_of, release_in_two_rounds, write_rounds

from dp_bundle import open_bundle
from dp_bundle.base.errors import BundleFormatError, DpGraphError
from dp_bundle.bundle.inspection import describe_bundle
from dp_bundle.bundle.writing import write_bundle
from dp_bundle.data.matrix import write_triangle
from dp_bundle.portals.export import export_csv
from dp_bundle.trust.judging import UnsafeTrustAnyone

NAMES = ["height", "weight", "age"]


@pytest.fixture
def rounds() -> Rounds:
    """Return a release of three columns in two rounds."""
    rng = np.random.default_rng(5)
    return release_in_two_rounds(rng.normal(size=(200, 3)) @ rng.normal(size=(3, 3)) + [1, 2, 3], 2.0, rng)


@pytest.fixture
def path(rounds: Rounds, key: Ed25519PrivateKey, tmp_path: Path) -> Path:
    """Return a bundle of it."""
    return write_rounds(tmp_path / "two.tar", rounds, NAMES, key)


def test_all_three_matrices_come_back(path: Path, rounds: Rounds) -> None:
    """The second moments are those of the final round, and the first round and the transform are read beside them."""
    with open_bundle(path, UnsafeTrustAnyone()) as bundle:
        assert [name for name in bundle.members if name.startswith("data/")] == [
            "data/covariance.parquet",
            "data/first-round.parquet",
            "data/transform.parquet",
        ]
        assert np.array_equal(bundle.second_moments(), rounds.matrices[1])
        assert np.array_equal(bundle.first_round(), rounds.matrices[0])
        assert np.array_equal(bundle.transform(), rounds.transform)
        with pytest.raises(BundleFormatError, match="no rows"):
            bundle.batches()


def test_one_round_has_no_first() -> None:
    """A covariance of one round has neither a first round nor a transform."""
    golden = Path(__file__).parents[3] / "golden" / "bundle-covariance.tar"
    with open_bundle(golden, UnsafeTrustAnyone()) as bundle:
        for read in (bundle.first_round, bundle.transform, bundle.margins):
            with pytest.raises(BundleFormatError):
                read()


def _read(rounds: Rounds, members: list[io.BytesIO], key: Ed25519PrivateKey, path: Path) -> None:
    """Write a bundle of these members and read all three matrices."""
    with path.open("wb") as file:
        write_bundle(file, manifest_of(rounds, NAMES), list(members), key)
    with open_bundle(path, UnsafeTrustAnyone()) as bundle:
        bundle.second_moments(), bundle.first_round(), bundle.transform()


def _triangle(values: np.ndarray, labels: list[str]) -> io.BytesIO:
    file = io.BytesIO()
    write_triangle(values, labels, file)
    return file


def test_a_first_round_that_its_noise_cannot_have_given_is_refused(
    rounds: Rounds, key: Ed25519PrivateKey, tmp_path: Path
) -> None:
    """The first round's matrix lies on its grid, has finite entries, and counts the public number of rows."""
    step = rounds.granularities[0]
    for place, value, message in (
        ((0, 1), step / 2, "first-round.parquet holds a value that is no multiple"),
        ((0, 0), np.nan, "first-round.parquet holds a value that is not a number"),
        ((3, 3), 1.0, "first-round.parquet has another number of rows"),
    ):
        changed = rounds.matrices[0].copy()
        changed[place] += value
        members = members_of(rounds, NAMES)
        members[1] = _triangle(changed, [*NAMES, "(constant)"])
        with pytest.raises(BundleFormatError, match=message):
            _read(rounds, members, key, tmp_path / "other.tar")


def test_inspection_shows_the_range_that_was_left_to_each_column(path: Path) -> None:
    """A person reads from where to where values were kept, in the column's unit, and how that was found."""
    with open_bundle(path, UnsafeTrustAnyone()) as bundle:
        shown = describe_bundle(bundle, None)
        clip, column = bundle.release.second_moments.column_clip, bundle.release.columns[0]
    first = column.standards[0]
    low, high = (first.center + sign * clip * first.scale for sign in (-1, 1))

    line = next(each for each in shown.splitlines() if each.startswith(f"    {column.name}"))
    assert line.split(maxsplit=1)[1].startswith(f"{low:.6g} to {high:.6g}")
    assert "(found privately" in line


def test_all_three_matrices_come_out_as_csv(path: Path, rounds: Rounds, tmp_path: Path) -> None:
    """The matrix of the first round and the transform get files of their own; none replaces one that is there."""
    with open_bundle(path, UnsafeTrustAnyone()) as bundle:
        written = export_csv(bundle, tmp_path / "t.csv")
        assert [each.name for each in written] == ["t.csv", "t-first-round.csv", "t-transform.csv"]
        for file, expected in zip(written, (rounds.matrices[1], rounds.matrices[0], rounds.transform), strict=True):
            found, places = pd.read_csv(file, dtype={"value": str}), np.triu_indices(len(expected))
            assert found["value"].map(float).tolist() == expected[places].tolist()
            labels = [*NAMES, "(constant)"]
            assert found[["row", "column"]].values.tolist() == [
                [labels[i], labels[j]] for i, j in zip(*places, strict=True)
            ]

        written[0].unlink()
        with pytest.raises(DpGraphError, match=r"t-first-round\.csv already"):
            export_csv(bundle, tmp_path / "t.csv")
        assert not written[0].exists()
