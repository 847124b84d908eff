"""The time that a site of 1000 bundles takes, and a second run: `python benchmarks/catalog_speed.py [BUNDLES]`.

Each bundle holds 178 rows of 13 columns, like the wine table, and is a dataset of its own.
"""

from __future__ import annotations

import io
import os
import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

from dp_bundle import open_bundle
from dp_bundle.bundle.writing import write_bundle
from dp_bundle.catalog.making import make_catalog
from dp_bundle.trust.keys import new_key_pair
from dp_publish import Policy, load_key, publish


def main(n_bundles: int) -> None:
    """Write the bundles, make their site twice, add one bundle, and make it again."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        os.environ["DPGRAPH_HOME"] = str(folder / "home")
        new_key_pair()
        _write_bundles(folder, n_bundles)
        for what in ("all are new", "none changed"):
            _measure(what, folder)
        (folder / "bundles" / "0.tar").unlink()
        _measure("one is gone", folder)
        size = sum(path.stat().st_size for path in (folder / "site").rglob("*") if path.is_file())
        print(f"the site takes {size / 1e6:.0f} MB")


def _write_bundles(folder: Path, n_bundles: int) -> None:
    """Write bundles of the same noisy rows, each under another name."""
    table = pd.DataFrame(np.random.default_rng(1).normal(size=(178, 13)), columns=[f"c{place}" for place in range(13)])
    columns = {name: {"bounds": [-4, 4]} for name in table}
    policy = Policy.model_validate({"dataset": {"name": "first"}, "privacy": {"mu": 5.0}, "columns": columns})
    publish(table, policy, out=folder / "first.tar", key=load_key())
    (folder / "bundles").mkdir()
    with open_bundle(folder / "first.tar") as bundle:
        parts = [bundle.open(name).read() for name in bundle.members if name.startswith("data/")]
        release = bundle.release
    for place in range(n_bundles):
        dataset = release.dataset.model_copy(update={"name": f"dataset-{place}", "title": f"Dataset {place}"})
        renamed = release.model_copy(update={"dataset": dataset})
        with (folder / "bundles" / f"{place}.tar").open("w+b") as file:
            write_bundle(file, renamed, [io.BytesIO(part) for part in parts], load_key())


def _measure(what: str, folder: Path) -> None:
    began, spent = time.perf_counter(), time.process_time()
    summary = make_catalog(folder / "bundles", folder / "site")
    took, cpu = time.perf_counter() - began, time.process_time() - spent
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{what}: {cpu:.1f} CPU-s, {took:.1f} s, at most {most:.0f} MB so far; {summary}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
