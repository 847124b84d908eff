"""Categories in rows that are clipped to a ball: noise on every indicator, as on numbers."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dp_bundle.base.errors import PolicyError
from dp_publish import Policy, publish

TABLE = pa.table({"sex": ["f", "m"] * 500, "job": ["a", "b", "c", "d"] * 250, "x": [1.0, 2.0] * 500})


def make_policy(**own: Any) -> Policy:
    """Return a policy with a ball."""
    columns = {
        "sex": {"kind": "category", "categories": ["f", "m"], **own},
        "job": {"kind": "category", "categories": ["a", "b", "c", "d"]},
        "x": {"center": 1.5, "scale": 1.0},
    }
    privacy = {"unit": "row", "mu": 3.0, "l2_radius": 2.0}
    return Policy.model_validate({"dataset": {"name": "d"}, "privacy": privacy, "columns": columns})


def test_all_columns_of_a_ball_have_gaussian_noise(tmp_path: Path, key: Ed25519PrivateKey) -> None:
    """The ball bounds what a row moves, so that a category costs nothing of its own."""
    release = publish(TABLE, make_policy(), out=tmp_path / "a.tar", key=key).release
    assert {column.kind for column in release.columns} == {"continuous"}
    assert [source.name for source in release.sources] == ["sex", "job"]
    assert release.guarantee.mu == pytest.approx(3.0)


def test_randomised_response_does_not_go_with_a_ball(tmp_path: Path, key: Ed25519PrivateKey) -> None:
    """It is refused in a sentence."""
    with pytest.raises(PolicyError, match="goes with bounds and not with l2_radius"):
        publish(TABLE, make_policy(mechanism="randomized-response"), out=tmp_path / "a.tar", key=key)
