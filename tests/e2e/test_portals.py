"""What portals run on a bundle, or a folder staged for them: Frictionless and Croissant read it as it is."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.conftest import make_policy, untar

from dp_bundle import open_bundle
from dp_bundle.catalog.staging import stage_bundle
from dp_bundle.data import rows as parts
from dp_publish import Policy, publish

pytestmark = pytest.mark.slow

TEXTS = {
    "title": "Heights and weights ☃",
    "description": "About people.",
    "creator": "A statistics office",
    "license": "CC0-1.0",
    "contact": "data@example.org",
    "url": "https://example.org/people",
    "citation": "Office (2026), People.",
}
READ = """
import sys, mlcroissant
dataset = mlcroissant.Dataset(sys.argv[1])
assert not dataset.metadata.ctx.issues.errors, dataset.metadata.ctx.issues.report()
print(dataset.metadata.ctx.issues.report())
print(sum(1 for _ in dataset.records(sys.argv[2])))
"""


CROISSANT = """
import json, sys, mlcroissant
dataset = mlcroissant.Dataset(sys.argv[1])
issues = dataset.metadata.ctx.issues
assert not issues.errors, issues.report()
print(dataset.metadata.ctx.conforms_to.value, json.dumps([
    {name.rpartition("/")[2]: float(value) for name, value in record.items()} for record in dataset.records("rows")
]), sep="\\n")
"""


N_FILES = {"rows": 2, "covariance": 4, "gaussian": 1}


@pytest.fixture(params=["rows", "covariance", "gaussian"])
def kind(request: pytest.FixtureRequest) -> str:
    """Return the kind of release."""
    return str(request.param)


@pytest.fixture
def unpacked(
    tmp_path: Path, table: pd.DataFrame, key: Ed25519PrivateKey, monkeypatch: pytest.MonkeyPatch, kind: str
) -> Path:
    """Publish the table, in two parts if as rows, and return the folder where its bundle was unpacked."""
    monkeypatch.setattr(parts, "_PART_CELLS", 1)
    monkeypatch.setattr(parts, "_LEAST_ROWS", 256)
    monkeypatch.setattr(parts, "_MOST_ROWS", 256)
    how = {"release": "covariance", "mechanism": kind} if kind == "gaussian" else {"release": kind}
    columns = {"height": {"bounds": [120, 220]}, "body weight": {"bounds": [20, 140]}, "visits": {"bounds": [0, 30]}}
    document = {"dataset": {"name": "people", **TEXTS}, "privacy": {"mu": 5.0, **how}, "columns": columns}
    renamed = table.rename(columns={"weight": "body weight"})
    publish(renamed, Policy.model_validate(document), out=tmp_path / "people.tar", key=key)
    with open_bundle(tmp_path / "people.tar") as opened:
        assert sum(name.startswith("data/") for name in opened.members) == N_FILES[kind]
    untar(tmp_path / "people.tar", tmp_path / "people")
    return tmp_path / "people"


@pytest.fixture
def outside(tmp_path: Path) -> Callable[..., str]:
    """Return a function that runs a program of others in a process of its own, and gives back what it printed."""

    def start(folder: Path, *words: str) -> str:
        environment = os.environ | {"HOME": str(tmp_path)}
        ended = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout

    return start


def test_frictionless_says_valid(unpacked: Path, outside: Callable[..., str], kind: str) -> None:
    """`frictionless validate` reads every data file against the descriptor, and finds nothing wrong."""
    frictionless = str(Path(sys.executable).with_name("frictionless"))
    printed = outside(unpacked, frictionless, "validate", "datapackage.json")
    assert printed.count("VALID") == N_FILES[kind]
    assert "INVALID" not in printed


def test_croissant_gives_the_records(
    unpacked: Path, table: pd.DataFrame, outside: Callable[..., str], kind: str
) -> None:
    """`mlcroissant` finds neither an error nor a warning, and reads every row, entry of the matrix, or cell."""
    records = {"rows": "rows", "covariance": "margins", "gaussian": "covariance"}[kind]
    report, n_records = outside(unpacked, sys.executable, "-c", READ, "croissant.json", records).rsplit("\n", 2)[:2]
    assert "warning" not in report, report
    n_cells = pq.read_metadata(unpacked / "data/margins.parquet").num_rows if kind == "covariance" else 0
    assert int(n_records) == {"rows": len(table), "covariance": n_cells, "gaussian": 10}[kind]


@pytest.fixture
def staged(tmp_path: Path, key: Ed25519PrivateKey) -> tuple[Path, list[dict[str, float]]]:
    """Stage a release for a static site, and return the folder and the rows that open_bundle reads."""
    rng = np.random.default_rng(5)
    table = pd.DataFrame({"height": rng.normal(170, 10, 50), "visits": rng.poisson(4, 50)})
    policy = make_policy({"height": [120, 220], "visits": [0, 30]}, mu=5.0)
    with open_bundle(publish(table, policy, out=tmp_path / "people.tar", key=key).path) as bundle:
        stage_bundle(bundle, "static", tmp_path / "site")
        rows = [row for batch in bundle.batches() for row in batch.to_pylist()]
    return tmp_path / "site", rows


def test_croissant_1_1_is_valid_and_loads_the_rows(
    staged: tuple[Path, list[dict[str, float]]], outside: Callable[..., str]
) -> None:
    """Mlcroissant takes the description for version 1.1, finds no error, and loads the values that open_bundle has."""
    folder, rows = staged
    version, records = outside(folder, sys.executable, "-c", CROISSANT, "croissant.json").splitlines()[-2:]
    assert version == "http://mlcommons.org/croissant/1.1"
    assert json.loads(records) == rows
