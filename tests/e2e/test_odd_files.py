"""Small files that other tools were found to fail on: each is published, and the bundle has the right values."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from dp_bundle import open_bundle

Command = Callable[..., Any]


def publish_copy(folder: Path, file: str, command: Command) -> tuple[pd.Series[float], dict[str, Any]]:
    """Publish a file with its policy; return the mean of every published column, and what the command says."""
    source = folder.parent / "reports" / file
    copy = shutil.copytree if source.is_dir() else shutil.copyfile
    copy(source, file)
    policy = f"{file.partition('.')[0]}.policy.toml"
    shutil.copyfile(source.parent / policy, policy)
    done = command("dp-publish", file, "--out", "out.tar", "--anyway", "--json")
    assert done.returncode == 0, done.stderr
    with open_bundle("out.tar") as bundle:
        rows = pa.Table.from_batches(list(bundle.batches())).to_pandas()
    return rows.mean(), json.loads(done.stdout)


@pytest.mark.data
@pytest.mark.parametrize(
    ("file", "n_rows", "values"),
    [
        ("country.csv", 600, {"country=NA": (125 / 600, 0.05), "country=(no value)": (0, 0.05)}),
        ("alcohol.csv", 600, {"alcohol": ("levels", 0.15)}),
        ("e_trail.csv", 200, {"x": (49, 5)}),
        ("catfloat.parquet", 600, {f"k={code}": ("codes", 0.02) for code in (1, 2, 3)}),
        ("tz_iso_z.csv", 600, {"when": ("instants", 86_400)}),
        ("order", 600, {"x": (49.41, 0.3), "y": (24.53, 0.3)}),
        ("hive", 600, {"x": (49.41, 0.3), "y": (24.53, 0.3), "year": (2025.5, 0.05)}),
    ],
)
def test_files_of_reports_are_published(
    file: str, n_rows: int, values: dict[str, Any], data_folder: Path, command: Command, home: Path
) -> None:
    """With the mean of every column that was read wrongly, and all of their rows."""
    means, told = publish_copy(data_folder, file, command)
    raw = _clean(data_folder.parent / "reports" / file)
    assert told["release"]["n_rows"] == n_rows
    for name, (expected, near) in values.items():
        value = raw[name] if isinstance(expected, str) else expected
        assert means[name] == pytest.approx(value, abs=near)
    assert told["for_the_publisher_only"].get("entities") == (200 if file == "e_trail.csv" else None)


def _clean(path: Path) -> dict[str, float]:
    """Return what pandas makes of the columns that it is told how to read."""
    if path.suffix == ".parquet":
        codes = pd.read_parquet(path)["k"]
        return {f"k={code}": float((codes == code).mean()) for code in (1, 2, 3)}
    if path.name.startswith("alcohol"):
        words = pd.read_csv(path, keep_default_na=False)["alcohol"]
        return {"alcohol": float(words.map({"None": 0, "Some": 1, "Much": 2}).mean())}
    if path.name.startswith("tz"):
        instants = pd.to_datetime(pd.read_csv(path)["when"], utc=True)
        return {"when": float((instants - pd.Timestamp(0, tz="UTC")).dt.total_seconds().mean())}
    return {}
