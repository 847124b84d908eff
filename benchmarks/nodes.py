"""Bias and coverage of the measures of nodes, as `dp-learn` reports them, from many simulated releases.

    PYTHONPATH=. OPENBLAS_NUM_THREADS=1 python benchmarks/nodes.py [REPETITIONS] [--only chain,random,categories]

The releases are of Gaussian rows, or of Student's t with 6 degrees of
freedom, of a random graph or a chain (partial correlations of 0.4 to 0.45), of 12 and 30 columns, or of six numbers and
four categories, as rows with the noise of a cell's mu, or as second moments in two rounds. Every repetition draws rows
and noise anew. Predictability is compared with that of the truth, of categories in a million rows; strength and
expected influence with the sums of the true partial correlations of the edges that were listed. "known" is the share of
nodes that had an interval; all other figures are of these nodes: the mean error, how many intervals cover, and the
standard errors of both, over releases. The last lines are over all.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from benchmarks.compare import N_LEVELS, Arm, Line, Maker, categorise, draw_rows, make_networks
from numpy.typing import NDArray
from tests.statistical.worlds import chain_precision

from dp_bundle.base.errors import EstimationError
from dp_learn.pipeline.learn import learn_sample
from dp_learn.pipeline.measures import unexplained_shares
from dp_learn.pipeline.settings import Settings

SEED = 38
MEASURES = ("predictability", "strength", "expected_influence")
SIZES: dict[str, tuple[tuple[int, float], ...]] = {  # rows and mu
    "rows": ((1000, 20), (3000, 8), (10_000, 5)),
    "moments": ((1000, 0.5), (1000, 5), (3000, 1), (10_000, 0.5), (10_000, 5)),
    "categories rows": ((10_000, 20), (10_000, 10)),
    "categories moments": ((3000, 3), (10_000, 1), (10_000, 5)),
}
SHARE_OF_MANY = 0.6  # of the repetitions, of 30 columns
N_TRUE, N_BATCHES = 100_000, 10  # rows that tell the truth of categories

Floats = NDArray[np.float64]


def lines(wanted: list[str]) -> Iterator[tuple[str, Line]]:
    """Yield the networks and releases."""
    for network in ("random", "chain"):
        for p in (12, 30):
            for degrees in (None, 6):
                for kind in ("rows", "moments"):
                    if network in wanted:
                        yield from ((network, _line(kind, p, degrees, *size)) for size in SIZES[kind])
    for kind in ("categories rows", "categories moments"):
        if "categories" in wanted:
            yield from (("random", _line(kind, 10, None, *size)) for size in SIZES[kind])


def _line(kind: str, p: int, degrees: int | None, n_rows: int, mu: float) -> Line:
    return Line(kind, p, degrees, Arm(n_rows, mu), Arm(n_rows, mu))


def true_predictability(line: Line, precision: Floats) -> dict[str, float]:
    """Return what the others explain of every column."""
    p = len(precision)
    if not line.kind.startswith("categories"):
        shares = unexplained_shares(np.linalg.inv(precision), np.arange(p), precision)
        return {f"x{place}": 1.0 - float(share) for place, share in enumerate(shares)}

    rng, total = np.random.default_rng(SEED), 0.0
    for _ in range(N_BATCHES):
        table = categorise(draw_rows(precision, N_TRUE, line.degrees, rng))
        coded = pd.get_dummies(table, columns=list(N_LEVELS), drop_first=True, dtype=float)
        total = total + np.cov(coded.to_numpy(), rowvar=False) / N_BATCHES
    nodes = [name.split("_")[0] for name in coded]
    names = list(dict.fromkeys(nodes))
    shares = unexplained_shares(np.asarray(total), np.array([names.index(node) for node in nodes], dtype=np.intp))
    return {name: 1.0 - float(share) for name, share in zip(names, shares, strict=True)}


def repeat(network: str, line: Line, repetitions: int, maker: Maker) -> Iterator[dict[str, Floats] | None]:
    """Yield errors, and whether intervals cover, of every node of each release; None without an estimate."""
    precision = chain_precision(line.p) if network == "chain" else make_networks(line.p, line.p)[0]
    explained = true_predictability(line, precision)
    root = np.sqrt(np.diagonal(precision))
    partial = -precision / np.outer(root, root)
    np.fill_diagonal(partial, 0.0)
    rng = np.random.default_rng([SEED, *f"{network} {line}".encode()])
    for _ in range(repetitions):
        try:
            learned = learn_sample(maker.sample(line, precision, line.first, rng), Settings())
        except EstimationError:
            yield None
            continue
        finally:
            maker.clear()
        if learned.measures is None:
            yield None
            continue
        columns = learned.estimate.columns
        places = [list(explained).index(name) for name in columns]
        signs, within = np.sign(learned.estimate.weights), partial[np.ix_(places, places)]
        truth = {
            "predictability": np.array([explained[name] for name in columns]),
            "strength": (signs * within).sum(axis=1),
            "expected_influence": (np.abs(signs) * within).sum(axis=1),
        }
        found: dict[str, Floats] = {}
        for name in MEASURES:
            value, low, high = (np.asarray(learned.measures.columns[f"{name}{end}"]) for end in ("", "_low", "_high"))
            each = np.full((2, line.p), np.nan)
            covers = (low <= truth[name]) & (truth[name] <= high)
            each[:, places] = np.where(np.isnan(low), np.nan, [value - truth[name], covers])
            found[name] = each
        yield found


def main() -> None:
    """Print a line for each setting, and the means over all of them."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("repetitions", type=int, nargs="?", default=50)
    parser.add_argument("--only", default="random,chain,categories")
    options = parser.parse_args()
    everything: dict[str, list[tuple[list[Floats], int]]] = {name: [] for name in MEASURES}
    print(f"{options.repetitions} repetitions; known, mean error and coverage, in %, of {', '.join(MEASURES)}")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["DPGRAPH_HOME"] = folder
        maker = Maker(Path(folder))
        for network, line in lines(options.only.split(",")):
            count = round(options.repetitions * (SHARE_OF_MANY if line.p == 30 else 1.0))
            had = [each for each in repeat(network, line, count, maker) if each is not None]
            text = f"{network:7}{str(line).split(' |')[0]}"
            for name in MEASURES:
                errors = [each[name] for each in had]
                text += describe(errors, count * line.p)
                everything[name].append((errors, count * line.p))
            print(text, flush=True)
    for name, each in everything.items():
        print(f"{name:35}{describe([one for errors, _ in each for one in errors], sum(count for _, count in each))}")


def describe(found: list[Floats], n_nodes: int) -> str:
    """Return the share of nodes with an interval, the mean error and the coverage, with standard errors."""
    known = np.array([np.count_nonzero(~np.isnan(each[0])) for each in found])
    if not known.sum():
        return f"  {0:4}%{'':28}"
    sums = np.array([np.nansum(each, axis=1) for each in found])
    mean = sums.sum(axis=0) / known.sum()
    error = np.sqrt(((sums - known[:, None] * mean) ** 2).sum(axis=0)) / known.sum()
    return (
        f"  {100 * known.sum() / n_nodes:4.0f}% {mean[0]:+.4f} +- {error[0]:.4f} "
        f"{100 * mean[1]:5.1f} +- {100 * error[1]:3.1f}"
    )


if __name__ == "__main__":
    main()
