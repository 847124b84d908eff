"""Where nothing is declared, advice holds, whatever the columns turn out to be."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.conftest import Run

from dp_bundle import open_bundle
from dp_publish.ledger.ledger import Ledger


def mixed(n_rows: int, n_words: int, n_levels: int, n_numbers: int) -> pd.DataFrame:
    """Return columns of words with equally frequent levels, and of numbers, all unrelated."""
    rng = np.random.default_rng(5)
    levels = [f"level {number}" for number in range(n_levels)]
    words = {f"word {number}": rng.choice(levels, n_rows) for number in range(n_words)}
    return pd.DataFrame({**words, **{f"x{number}": rng.normal(size=n_rows).round(3) for number in range(n_numbers)}})


def write(frame: pd.DataFrame, path: Path) -> str:
    """Write a table by its file's suffix, and return its name."""
    frame.to_parquet(path) if path.suffix == ".parquet" else frame.to_csv(path, index=False)
    return path.name


LOST = {"words.parquet": mixed(130, 6, 3, 0), "number.csv": mixed(90, 3, 4, 1)}


@pytest.mark.parametrize("name", LOST)
def test_words_that_are_hardly_told_are_warned_of_and_decide_nothing(
    name: str, tmp_path: Path, command: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where fewer than two columns would be left, a strength that leaves more is named; noisy counts decide."""
    monkeypatch.chdir(tmp_path)
    data = write(LOST[name], tmp_path / name)
    refused = command("dp-publish", data)
    assert refused.returncode != 0
    assert "too few are frequent enough to be told apart from the noise" in refused.stderr
    assert Ledger().books().entries != {}
    (mu,) = re.findall(r"from about mu = ([0-9.]+)", refused.stderr)
    told = command("dp-publish", data, "--mu", mu)
    assert told.returncode == 0
    assert "may be left" not in told.stderr


def test_whole_numbers_in_billions_are_published(tmp_path: Path, command: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the bounds that are found need more noise than whole numbers take, they are published as numbers."""
    monkeypatch.chdir(tmp_path)
    common, own = np.random.default_rng(6).normal(size=(2, 5000))
    frame = pd.DataFrame({"product": np.exp(25 + common), "people": np.exp(15 + common + 0.1 * own)}).astype("int64")
    frame["bytes"] = np.arange(5000) * 2**50  # up to 2^62
    frame = frame.astype({"people": "Int64"})
    frame.loc[::9, "people"] = pd.NA
    frame.to_parquet("t.parquet")
    Path("t.policy.toml").write_text('[columns."*"]\nmissing = "midpoint"\n')
    done = command("dp-publish", "t.parquet", "--release", "rows", "--mu", "9", "--anyway")
    assert done.returncode == 0, done.stderr
    with open_bundle("t.bundle.tar") as bundle:
        kinds = {column.name: column.kind for column in bundle.release.columns}
        found = bundle.to_pandas()[["product", "people"]].corr().iloc[0, 1]
    assert (kinds["product"], kinds["people"], kinds["bytes"]) == ("continuous", "integer", "continuous")
    assert found == pytest.approx(0.5, abs=0.2)
