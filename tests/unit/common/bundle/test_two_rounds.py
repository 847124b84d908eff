"""Bundles of two rounds: what is written is read, and what contradicts the manifest or itself is refused."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.two_rounds import Rounds, release_in_two_rounds, write_rounds

from dp_bundle import open_bundle
from dp_bundle.base.errors import BundleFormatError, DpGraphError
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
