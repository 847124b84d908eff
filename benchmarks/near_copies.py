"""Whether plain releases tell a near copy and a total, of columns on the border between values and normal scores.

    OPENBLAS_NUM_THREADS=1 PYTHONPATH=. python benchmarks/near_copies.py [--rows 10000] [--mu 1] [--draws 4]

Tables have eight gamma columns of one shape, of which four are related, a copy of the first to .001 of its deviation,
and the sum of two others. A line has a shape, of how many releases the graph leaves out the copy or what it copies, and
the total or a part of it, and in how many the copy is on another scale than what it copies.
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd
from benchmarks.defaults import released
from scipy import stats

from dp_learn import learn_graph

SHAPES = (2.0, 3.0, 4.0, 5.0, 6.0, 8.0)


def make_table(shape: float, n_rows: int, seed: int) -> pd.DataFrame:
    """Return a table of columns "a" to "h", "copy" and "total"."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n_rows, 8))
    z[:, 1:4] += 0.6 * z[:, :1]
    table = pd.DataFrame(stats.gamma.ppf(stats.norm.cdf(z / z.std(axis=0)), shape), columns=list("abcdefgh"))
    return table.assign(copy=table.a + 0.001 * table.a.std() * rng.normal(size=n_rows), total=table.b + table.f)


def main() -> None:
    """Print a line for each shape."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--mu", type=float, default=1.0)
    parser.add_argument("--draws", type=int, default=4)
    given = parser.parse_args()
    for shape in SHAPES:
        counts = np.zeros(3, dtype=int)
        for seed in range(given.draws):
            with released(make_table(shape, given.rows, seed), "--mu", str(given.mu)) as bundle:
                gone = learn_graph(bundle).fit.nodes.columns.determined
                scored = {column.name for column in bundle.release.columns if column.transform is not None}
            counts += (
                bool({"a", "copy"} & {*gone}),
                bool({"b", "f", "total"} & {*gone}),
                len({"a", "copy"} & scored) == 1,
            )
        print(f"shape {shape:g}: of {given.draws}, copy told {counts[0]}, total {counts[1]}, on two scales {counts[2]}")


if __name__ == "__main__":
    main()
