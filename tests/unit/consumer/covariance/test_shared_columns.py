"""Releases of other columns and levels: what all have is learned from, and their own levels count as other ones."""

import contextlib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.conftest import policy_with, publish_alone

from dp_bundle import open_bundle
from dp_bundle.trust.judging import UnsafeTrustAnyone
from dp_learn.covariance.sample import Sample, bundle_sources
from dp_learn.pipeline.joint import learn_joint

N_ROWS = 4000
LEVELS = np.array(["a", "b", "c", "d", "e"])
KINDS: dict[str, dict[str, Any]] = {
    "rows": {"unit": "cell", "mu": 10.0},
    "one sum": {"unit": "row", "mu": 200.0, "release": "covariance", "mechanism": "gaussian"},
    "two rounds": {"unit": "row", "mu": 60.0, "release": "covariance"},
}


def rows(seed: int) -> pd.DataFrame:
    """Return numbers that go with the levels of a category."""
    rng = np.random.default_rng(seed)
    level = rng.choice(5, N_ROWS, p=[0.3, 0.25, 0.2, 0.15, 0.1])
    x = rng.normal(size=(N_ROWS, 3)) + np.array([0.0, 0.3, 0.6, -0.4, -0.8])[level, None]
    return pd.DataFrame({**dict(zip("xyz", x.T, strict=True)), "g": LEVELS[level]})


def release(folder: Path, kind: str, seed: int, names: str, levels: str, mechanism: str = "gaussian") -> Path:
    """Publish some columns, and these levels of the category."""
    columns: dict[str, Any] = {name: {"bounds": [-5, 5]} for name in names if name != "g"}
    columns["g"] = {"kind": "category", "categories": [*levels, "other"], "other": "other"}
    if kind == "rows":
        columns["g"]["mechanism"] = mechanism
    policy = policy_with(columns, name=f"t{seed}", **KINDS[kind])
    return publish_alone(rows(seed)[[*names]], policy, folder / f"{seed}.tar", seed)


@pytest.mark.parametrize("kind", KINDS)
def test_levels_of_one_release_count_as_other_ones(kind: str, tmp_path: Path) -> None:
    """What is left are the moments of the rows with the shared levels and all others, and a note says so."""
    paths = [release(tmp_path, kind, 1, "xygz", "abcd"), release(tmp_path, kind, 2, "gyx", "abe")]
    with contextlib.ExitStack() as opened:
        sources, notes = bundle_sources(
            [opened.enter_context(open_bundle(path, UnsafeTrustAnyone())) for path in paths]
        )
        samples = [Sample([source]) for source in sources]

    names = ("x", "y", "g=a", "g=b", "g=other")
    for seed, (source, sample) in enumerate(zip(sources, samples, strict=True), 1):
        table = rows(seed)
        indicated = [table["g"] == "a", table["g"] == "b", ~table["g"].isin(["a", "b"])]
        expected = np.column_stack([table["x"], table["y"], *indicated]).astype(float)
        assert source.columns == names
        np.testing.assert_allclose(sample.location, expected.mean(axis=0), atol=0.05)
        np.testing.assert_allclose(sample.pooled.covariance, np.cov(expected.T), atol=0.05)
        assert dict(sample.levels.blocks)["g"].tolist() == [2, 3, 4]
    assert "left out: 'z'" in notes[0]
    assert "'c', 'd', 'e' of g as other".replace("'", "") in notes[1].replace("'", "")


def test_randomised_levels_that_differ_are_left_out(tmp_path: Path) -> None:
    """Their noise is that of all levels together; graphs of several periods are of numbers alone."""
    pairs = [("abcd", "randomized-response"), ("abe", "randomized-response")]
    paths = [release(tmp_path, "rows", seed, "xyzg", *pair) for seed, pair in enumerate(pairs)]
    with contextlib.ExitStack() as opened:
        bundles = [opened.enter_context(open_bundle(path, UnsafeTrustAnyone())) for path in paths]
        assert bundle_sources(bundles)[0][0].columns == ("x", "y", "z")
        joint = learn_joint(bundles)
    assert any("categories are left out" in note for note in joint.notes)
