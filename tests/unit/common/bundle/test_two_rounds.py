"""Bundles of two rounds: what is written is read, and what contradicts the manifest or itself is refused."""

from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.two_rounds import Rounds, release_in_two_rounds, write_rounds

from dp_bundle import open_bundle
from dp_bundle.base.errors import BundleFormatError
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
