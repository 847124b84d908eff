"""The time that a site of bundles takes, a second run, and one bundle less and more.

    python benchmarks/catalog_speed.py [BUNDLES] [RELEASE]

Each bundle is a release of 2,000 rows of 13 columns, each related to the one before it, as second moments, by
default, or as rows, and is a dataset of its own.
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
from dp_bundle.trust.store import new_key_pair
from dp_publish import Policy, load_key, publish


def main(n_bundles: int, release: str) -> None:
    """Write the bundles, make their site twice, then without one, and with it again."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        os.environ["DPGRAPH_HOME"] = str(folder / "home")
        new_key_pair()
        _write_bundles(folder, n_bundles, release)
        for what in ("all are new", "none changed"):
            _measure(what, folder)
        first = (folder / "bundles" / "0.tar").rename(folder / "0.tar")
        _measure("one is gone", folder)
        first.rename(folder / "bundles" / "0.tar")
        _measure("one is new", folder)
        size = sum(path.stat().st_size for path in (folder / "site").rglob("*") if path.is_file())
        print(f"the site takes {size / 1e6:.0f} MB")


def _write_bundles(folder: Path, n_bundles: int, kind: str) -> None:
    """Write bundles of the same noisy numbers, each under another name."""
    rows = np.random.default_rng(1).normal(size=(2000, 13))
    rows[:, 1:] += 0.7 * rows[:, :-1]
    table = pd.DataFrame(rows, columns=[f"c{place}" for place in range(13)])
    columns = {name: {"bounds": [-4, 4]} for name in table}
    privacy = {"mu": 5.0, "release": kind}
    policy = Policy.model_validate({"dataset": {"name": "first"}, "privacy": privacy, "columns": columns})
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
    given = sys.argv[1:]
    main(int(given[0]) if given else 100, given[1] if len(given) > 1 else "covariance")
