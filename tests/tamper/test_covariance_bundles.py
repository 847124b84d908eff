"""A covariance bundle that was altered, or whose matrix or manifest its stated noise cannot have given, is refused."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.tamper.archives import members_of, refuse_flipped_bits, signed_statement, write

from dp_bundle import open_bundle
from dp_bundle.base.errors import (
    BundleFormatError,
)
from dp_bundle.bundle.writing import MANIFEST_NAME, write_bundle
from dp_publish import Policy, Receipt, publish
from dp_publish.policy.model import Privacy


@pytest.fixture
def covariance(tmp_path: Path, table: pd.DataFrame, policy: Policy, key: Ed25519PrivateKey) -> Receipt:
    """Publish the small table's second moments."""
    privacy = Privacy(release="covariance", mechanism="gaussian", mu=1.0)
    own = policy.model_copy(update={"privacy": privacy})
    return publish(table, own, out=tmp_path / "covariance.tar", key=key)


def _signed_anew(receipt: Receipt, key: Ed25519PrivateKey, path: Path, *matrices: bytes, **changes: object) -> None:
    """Write the covariance bundle with other data members or another manifest, soundly signed."""
    with path.open("wb") as file:
        write_bundle(file, receipt.release.model_copy(update=changes), [io.BytesIO(data) for data in matrices], key)


def _with_value(receipt: Receipt, index: int, change: Callable[[float], float]) -> bytes:
    """Return the data member with one value changed."""
    table = pq.read_table(io.BytesIO(members_of(receipt.path)["data/covariance.parquet"]))
    values = table.column("value").to_pylist()
    values[index] = change(values[index])
    changed = table.set_column(2, table.field(2), pa.array(values, pa.float64()))
    out = io.BytesIO()
    pq.write_table(changed, out, use_dictionary=["row", "column"], store_schema=False, write_statistics=False)
    return out.getvalue()


def test_covariance_bits_matter_too(covariance: Receipt, tmp_path: Path) -> None:
    """One flipped bit anywhere in a covariance bundle is refused."""
    refuse_flipped_bits(covariance.path, tmp_path / "altered.tar", flips=100, seed=7)


@pytest.mark.parametrize(
    ("index", "change", "message"),
    [
        (1, lambda value: value + 1e-9, "no multiple"),
        (0, lambda value: value * (1 + 1e-12), "no multiple"),
        (2, lambda _: float("nan"), "not a number"),
        (9, lambda value: value + 1.0, "another number of rows"),
    ],
)
def test_a_matrix_that_the_noise_cannot_have_made_is_refused_though_signed(
    index: int,
    change: Callable[[float], float],
    message: str,
    covariance: Receipt,
    key: Ed25519PrivateKey,
    tmp_path: Path,
) -> None:
    """A value off the grid or not finite, or an inexact public number of rows, is refused when the matrix is read."""
    _signed_anew(covariance, key, tmp_path / "a.tar", _with_value(covariance, index, change))
    with open_bundle(tmp_path / "a.tar") as opened, pytest.raises(BundleFormatError, match=message):
        opened.second_moments()


def test_rows_passed_off_as_a_matrix_are_refused(
    covariance: Receipt, bundle: Receipt, key: Ed25519PrivateKey, tmp_path: Path
) -> None:
    """The data of one kind under the manifest of the other are refused, whichever way they are asked for."""
    rows = members_of(bundle.path)["data/part-00000.parquet"]
    _signed_anew(covariance, key, tmp_path / "a.tar", rows)
    with open_bundle(tmp_path / "a.tar") as opened:
        with pytest.raises(BundleFormatError, match="columns that its manifest describes"):
            opened.second_moments()
        with pytest.raises(BundleFormatError, match="no rows"):
            opened.batches()


def _better_mu(predicate: dict[str, Any]) -> None:
    predicate["guarantee"]["mu"] *= 0.99


def _smaller_radius(predicate: dict[str, Any]) -> None:
    predicate["second_moments"]["radius"] *= 1.01


def _other_mechanism(predicate: dict[str, Any]) -> None:
    predicate["second_moments"]["mechanism"] = "laplace"


def _wrong_noise(predicate: dict[str, Any]) -> None:
    predicate["second_moments"]["off_diagonal_variance"] *= 1.01


def _come_and_go(predicate: dict[str, Any]) -> None:
    predicate["guarantee"]["neighbours"] = "add-remove"


def _cells(predicate: dict[str, Any]) -> None:
    predicate["kind"] = "rows"


@pytest.mark.parametrize("change", [_better_mu, _smaller_radius, _other_mechanism, _wrong_noise, _come_and_go, _cells])
def test_covariance_manifests_that_contradict_themselves_are_refused(
    change: Callable[[dict[str, Any]], None], covariance: Receipt, key: Ed25519PrivateKey, tmp_path: Path
) -> None:
    """A signed covariance manifest that states more than its noise gives is refused before any data are read."""
    members = members_of(covariance.path)
    members[MANIFEST_NAME] = signed_statement(covariance, key, lambda statement: change(statement["predicate"]))
    write(tmp_path / "altered.tar", members)
    with pytest.raises(BundleFormatError, match="not sound"):
        open_bundle(tmp_path / "altered.tar")
