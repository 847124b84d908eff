"""Where nothing is declared, advice holds, whatever the columns turn out to be."""

from __future__ import annotations

import datetime
import decimal
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
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


def of_every_type(n_rows: int) -> pa.Table:
    """Return numbers that differ, and of every type that may be published a column that does not."""
    rng, moment = np.random.default_rng(3), datetime.datetime(2020, 1, 2)
    values: list[tuple[Any, pa.DataType]] = [(1.5, pa.float32()), (True, pa.bool_()), ("a", pa.string_view())]
    values += [(decimal.Decimal("1.5"), pa.decimal256(40, 2)), (moment, pa.timestamp("ns", "UTC"))]
    same = {f"same {place}": pa.array([value] * n_rows, kind) for place, (value, kind) in enumerate(values)}
    words = pa.array(["a"] * n_rows).dictionary_encode()
    gaps = pa.array([1.0, None] * (n_rows // 2))
    return pa.table({"x": rng.normal(size=n_rows), "y": rng.normal(size=n_rows), "gaps": gaps, **same, "same 5": words})


@pytest.mark.parametrize(("suffix", "n_rows"), [("csv", 200), ("parquet", 200), ("csv", 10)])
def test_columns_that_are_all_the_same_are_pointed_out(
    suffix: str, n_rows: int, tmp_path: Path, command: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever plans and looks, or publishes, reads of them, whatever their type; of a few rows nothing is said."""
    monkeypatch.chdir(tmp_path)
    data = write(of_every_type(n_rows).to_pandas(types_mapper=pd.ArrowDtype), tmp_path / f"t.{suffix}")
    for words in (["plan", data, "--look"], [data, "--mu", "30", "--release", "covariance"]):
        said = " ".join(f"{(done := command('dp-publish', *words)).stdout} {done.stderr}".split())
        found = re.findall(r"columns that are the same in all of the first 200 rows: ([^.]*)\. If all", said)
        shown = {f"'same {place}'" for place in range(6)}
        assert [set(each.split(", ")) for each in found] == ([shown] if n_rows == 200 else [])
