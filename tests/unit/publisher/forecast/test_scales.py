"""What a plan says of the scale of columns after a look at the first rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dp_publish.forecast.plan import Plan, make_plan
from dp_publish.forecast.scales import suggest_asinh


def _plan(folder: Path, columns: dict[str, np.ndarray], **privacy: Any) -> Plan:
    pd.DataFrame(columns).to_parquet(folder / "t.parquet")
    bounds = "".join(f"[columns.{name}]\nbounds = [-50.0, 400.0]\n" for name in columns)
    (folder / "t.policy.toml").write_text(
        f"[dataset]\nname = 't'\n[privacy]\nrelease = 'covariance'\nmu = 2.0\n{bounds}"
    )
    return make_plan(folder / "t.parquet", None, "t", privacy)


@pytest.mark.parametrize("skewed", [True, False])
def test_skewed_columns_alone_are_told_of_the_scale(skewed: bool, tmp_path: Path) -> None:
    """Lognormal columns are named with both errors, and of normal ones nothing is said."""
    normal = np.random.default_rng(3).standard_normal((2000, 6))
    normal[:, 1] += normal[:, 0]
    values = np.exp(1.2 * normal) if skewed else normal
    said = suggest_asinh(_plan(tmp_path, {f"c{index}": each for index, each in enumerate(values.T)}))
    assert len(said) == skewed
    if skewed:
        before, after = (float(word) for word in said[0].split("from about ")[1].split(", as")[0].split(" to about "))
        assert after < 0.8 * before
        assert '([columns."*"])' in said[0]


def test_other_mechanisms_are_told_nothing(tmp_path: Path) -> None:
    """A release in one sum has no scale to suggest."""
    values = np.exp(np.random.default_rng(3).standard_normal((2000, 2)))
    assert suggest_asinh(_plan(tmp_path, {"a": values[:, 0], "b": values[:, 1]}, mechanism="gaussian")) == []
