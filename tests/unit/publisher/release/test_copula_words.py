"""A release by normal scores is made of levels however many, and its publisher is told of histograms."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dp_bundle import open_bundle
from dp_bundle.base.errors import DpGraphError
from dp_bundle.trust.judging import UnsafeTrustAnyone
from dp_publish import Policy, publish
from dp_publish.cli.messages.release import describe_receipt, describe_use

LEVELS = [f"level {place:03}" for place in range(100)]


def _policy(columns: dict[str, object]) -> Policy:
    privacy = {"unit": "row", "mu": 3.0, "release": "copula"}
    return Policy.model_validate({"dataset": {"name": "t"}, "privacy": privacy, "columns": columns})


def test_every_level_of_a_long_order_has_a_cell(tmp_path: Path, key: Ed25519PrivateKey) -> None:
    """A hundred ordered levels are counted one by one, like three, and what is seen is said in plain words."""
    rng = np.random.default_rng(1)
    ranks = rng.integers(0, 100, 2000)
    table = pd.DataFrame({"x": ranks / 100 + rng.normal(size=2000), "grade": [LEVELS[rank] for rank in ranks]})
    policy = _policy({"x": {"bounds": [-5, 6]}, "grade": {"kind": "ordered", "levels": LEVELS}})
    receipt = publish(table, policy, out=tmp_path / "t.tar", key=key)
    with open_bundle(receipt.path, UnsafeTrustAnyone()) as bundle:
        margin = bundle.margins()[1]
        release = bundle.release
    assert margin.labels == tuple(LEVELS)
    assert margin.edges.tolist() == (np.arange(99) + 0.5).tolist()
    assert release.margins is not None
    counts = np.bincount(ranks, minlength=100)
    assert np.abs(margin.counts - counts).max() < 6 * release.margins.sigma

    seen = describe_use(release, policy)
    assert seen[0].startswith("A histogram of every column, and how every two of them go together")
    said = describe_receipt(receipt, policy)
    assert said.count("A histogram of every column") == 1
    assert "two-round was chosen" not in said


def test_one_column_is_no_release_by_scores(tmp_path: Path, key: Ed25519PrivateKey) -> None:
    """A single column is refused, and no release without histograms takes its place."""
    table = pd.DataFrame({"x": np.linspace(0, 1, 500)})
    with pytest.raises(DpGraphError, match="take 2 to"):
        publish(table, _policy({"x": {"bounds": [0, 1]}}), out=tmp_path / "t.tar", key=key)
    assert not (tmp_path / "t.tar").exists()
