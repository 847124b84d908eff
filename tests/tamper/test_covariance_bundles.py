"""A covariance bundle that was altered, or that holds data of the other kind, is refused."""

import io
from pathlib import Path

import pandas as pd
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.tamper.archives import members_of, refuse_flipped_bits

from dp_bundle import open_bundle
from dp_bundle.base.errors import BundleFormatError
from dp_bundle.bundle.writing import write_bundle
from dp_publish import Policy, Receipt, publish
from dp_publish.policy.model import Privacy


@pytest.fixture
def covariance(tmp_path: Path, table: pd.DataFrame, policy: Policy, key: Ed25519PrivateKey) -> Receipt:
    """Publish the small table's second moments."""
    privacy = Privacy(release="covariance", mechanism="gaussian", mu=1.0)
    own = policy.model_copy(update={"privacy": privacy})
    return publish(table, own, out=tmp_path / "covariance.tar", key=key)


def test_covariance_bits_matter_too(covariance: Receipt, tmp_path: Path) -> None:
    """One flipped bit anywhere in a covariance bundle is refused."""
    refuse_flipped_bits(covariance.path, tmp_path / "altered.tar", flips=100, seed=7)


def test_rows_passed_off_as_a_matrix_are_refused(
    covariance: Receipt, bundle: Receipt, key: Ed25519PrivateKey, tmp_path: Path
) -> None:
    """The data of one kind under the manifest of the other are refused, whichever way they are asked for."""
    rows = members_of(bundle.path)["data/part-00000.parquet"]
    with (tmp_path / "a.tar").open("wb") as file:
        write_bundle(file, covariance.release, [io.BytesIO(rows)], key)
    with open_bundle(tmp_path / "a.tar") as opened:
        with pytest.raises(BundleFormatError, match="columns that its manifest describes"):
            opened.second_moments()
        with pytest.raises(BundleFormatError, match="no rows"):
            opened.batches()
