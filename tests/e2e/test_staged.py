"""What portals' own readers load from a staged folder: the values that open_bundle has."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.conftest import make_policy

from dp_bundle import open_bundle
from dp_bundle.portals.staging import stage_bundle
from dp_bundle.trust.keys import new_key_pair, private_key_path
from dp_bundle.trust.signing import load_private_key
from dp_publish import publish

pytestmark = pytest.mark.slow

CROISSANT = """
import json, sys, mlcroissant
dataset = mlcroissant.Dataset(sys.argv[1])
issues = dataset.metadata.ctx.issues
assert not issues.errors, issues.report()
print(dataset.metadata.ctx.conforms_to.value, json.dumps([
    {name.rpartition("/")[2]: float(value) for name, value in record.items()} for record in dataset.records("rows")
]), sep="\\n")
"""
FRICTIONLESS = """
import json, sys, frictionless
package = frictionless.Package(sys.argv[1])
report = package.validate()
assert report.valid, report.flatten()
print(json.dumps([{name: float(value) for name, value in row.items()} for resource in package.resources
    for row in resource.read_rows()]))
"""


@pytest.fixture(scope="module")
def staged(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict[str, float]]]:
    """Stage a release for a static site, and return the folder and the rows that open_bundle reads."""
    folder = tmp_path_factory.mktemp("staged")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DPGRAPH_HOME", str(folder / "home"))
        rng = np.random.default_rng(5)
        table = pd.DataFrame({"height": rng.normal(170, 10, 50), "visits": rng.poisson(4, 50)})
        policy = make_policy({"height": [120, 220], "visits": [0, 30]}, mu=5.0)
        new_key_pair()
        key = load_private_key(private_key_path())
        receipt = publish(table, policy, out=folder / "people.bundle.tar", key=key)
        with open_bundle(receipt.path) as bundle:
            stage_bundle(bundle, "static", folder / "site")
            rows = [row for batch in bundle.batches() for row in batch.to_pylist()]
    return folder / "site", rows


def _read(program: str, path: Path) -> str:
    done = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_croissant_1_1_is_valid_and_loads_the_rows(staged: tuple[Path, list[dict[str, float]]]) -> None:
    """Mlcroissant takes the description for version 1.1, finds no error, and loads equal values."""
    folder, rows = staged
    version, records = _read(CROISSANT, folder / "croissant.json").splitlines()[-2:]
    assert version == "http://mlcommons.org/croissant/1.1"
    assert json.loads(records) == rows


def test_data_package_is_valid_and_loads_the_rows(staged: tuple[Path, list[dict[str, float]]]) -> None:
    """Frictionless validates the package with its data, and loads equal values."""
    folder, rows = staged
    assert json.loads(_read(FRICTIONLESS, folder / "datapackage.json")) == rows
