"""Do correlated releases pay where the same people are in every period? And what twelve real releases show.

    OPENBLAS_NUM_THREADS=1 python benchmarks/series.py [REPETITIONS]

**Mechanisms.** A series of T periods is released as C x plus Gaussian noise, of which the wanted sums A x are A C^+ of
what was released: A holds the running sums, or the periods themselves. A person has rows in at most k periods, and
moves each of these by at most 1. Printed are standard errors at mu = 1 for that person: the root of the mean square
over running sums, the largest, that of the sum of all, and that of a single period. C is the identity (independent
releases), the tree of Dwork et al. (2010) and Chan et al. (2011) with the best decoder, the root of A of Henzinger et
al. (2023), and independent releases with one more of all periods together at the end, for half of mu^2. The optimum is
the least root of the mean square that any C has; for k = 1 by the fixed point of Denisov et al. (2022), for k = T in
closed form (docs/adr/0052-series.md).

Rows of C count as often as they hold more than zeros; their entries are not negative, and fall with the distance from
the first. So the k first periods are the worst that somebody can be in.

**Releases.** Twelve tables of the same made-up people are published by `publish`, entities as the unit, at
mu / sqrt(12) each, mu = 1: every one on its own, or the later ones like the first, with the centers and scales that it
showed. All twelve together are published once at mu. Then the people are taken for others in every table: all tables
are published at mu, or at mu / sqrt(2) and all rows together once more at mu / sqrt(2). Printed are means of the median
error of a correlation, that of the table against that released: of a month, and of the year, which is pooled from
months as `dp-learn` does, or released as a whole. It takes about three minutes of one processor.
"""

from __future__ import annotations

import math
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import NDArray

from dp_bundle.bundle.reading import open_bundle
from dp_bundle.trust.judging import UnsafeTrustAnyone
from dp_learn.covariance.estimate import ReleasedCovariance
from dp_learn.covariance.sample import pool_sources
from dp_learn.covariance.sources import CovarianceSource, bundle_source
from dp_publish import Policy, publish
from dp_publish.ledger.ledger import Ledger
from dp_publish.sampling.keystream import insecure_keystream

Floats = NDArray[np.float64]

PERIODS = (12, 24, 60)
N_COLUMNS, MONTHS, SHARED = 10, 12, 0.5  # the part of a person's values that stays from month to month
CASES = ((1000, 3.0), (2000, 3.0), (2000, 0.0))  # people, and how many times too wide their bounds are; 0 for none


def strategies(periods: int) -> dict[str, Floats]:
    """Return C by the names of mechanisms."""
    root = [math.prod((2 * j - 1) / (2 * j) for j in range(1, lag + 1)) for lag in range(periods)]
    lags = np.subtract.outer(np.arange(periods), np.arange(periods))
    sizes = [2**level for level in range(periods.bit_length() + 1) if 2**level < 2 * periods]
    nodes = [(start, size) for size in sizes for start in range(0, periods, size)]
    tree = [(start <= np.arange(periods)) & (np.arange(periods) < start + size) for start, size in nodes]
    half = math.sqrt(0.5)
    return {
        "independent": np.eye(periods),
        "tree": np.array(tree, dtype=float),
        "root of A": np.where(lags >= 0, np.array(root)[np.maximum(lags, 0)], 0.0),
        "and the whole": half * np.vstack([np.eye(periods), np.ones(periods)]),
    }


def sensitivity(strategy: Floats, k: int) -> float:
    """Return the length by which somebody in the first k periods moves C x."""
    return float(np.linalg.norm(strategy[:, :k].sum(axis=1)))


def errors(wanted: Floats, strategy: Floats, k: int) -> Floats:
    """Return the standard errors of the wanted sums."""
    spread: Floats = np.linalg.norm(wanted @ np.linalg.pinv(strategy), axis=1) * sensitivity(strategy, k)
    return spread


def optimum(periods: int, k: int) -> float:
    """Return the least root of the mean square error of running sums, for somebody in one period, or in all."""
    sums = np.tril(np.ones((periods, periods)))
    gram, weights = sums.T @ sums, np.ones(periods)
    if k == periods:
        return float(np.sqrt(np.diagonal(gram)).sum()) / math.sqrt(periods)
    for _ in range(2000):
        scaled = np.sqrt(weights)[:, None] * gram * np.sqrt(weights)
        values, vectors = np.linalg.eigh(scaled)
        weights = np.diagonal((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)
    return math.sqrt(float(weights.sum()) / periods)


def compare(periods: int) -> Iterator[str]:
    """Yield the lines on the mechanisms."""
    sums, each = np.tril(np.ones((periods, periods))), np.eye(periods)
    for k in (1, 2, 4, periods):
        best = f"optimum {optimum(periods, k):.2f}" if k in (1, periods) else ""
        yield f"{periods:>3} periods, in {k:>2} of them {best}"
        for name, strategy in strategies(periods).items():
            running, single = errors(sums, strategy, k), errors(each, strategy, k)
            numbers = (sensitivity(strategy, k), np.sqrt(np.mean(running**2)), running.max(), running[-1], single.max())
            yield f"    {name:<16}" + "".join(f"{number:10.2f}" for number in numbers)


def draw_months(n_people: int, rng: np.random.Generator) -> list[pd.DataFrame]:
    """Return twelve tables of the same people: normal rows of a chain of columns, each with its own place and unit."""
    lags = np.abs(np.subtract.outer(np.arange(N_COLUMNS), np.arange(N_COLUMNS)))
    factor = np.linalg.cholesky(0.5**lags).T
    units, places = np.geomspace(0.1, 100.0, N_COLUMNS), np.linspace(-3.0, 3.0, N_COLUMNS)
    stays = rng.standard_normal((n_people, N_COLUMNS))
    months = []
    for _ in range(MONTHS):
        moves = rng.standard_normal((n_people, N_COLUMNS))
        rows = (math.sqrt(SHARED) * stays + math.sqrt(1 - SHARED) * moves) @ factor
        month = pd.DataFrame((rows + places) * units, columns=[f"x{j}" for j in range(N_COLUMNS)])
        months.append(month.assign(person=np.arange(n_people)))
    return months


def bounds_of(month: pd.DataFrame, times: float) -> dict[str, dict[str, Any]]:
    """Return columns with bounds so many times wider than the central 99 % of normal values; without for 0."""
    columns: dict[str, dict[str, Any]] = {name: {"kind": "continuous"} for name in month.columns[:-1]}
    for name in columns if times else ():
        middle, width = float(month[name].mean()), 2 * 2.576 * times * float(month[name].std())
        columns[name]["bounds"] = [middle - 0.65 * width, middle + 0.35 * width]
    return columns


class Releases:
    """Our releases: bundles in a folder of their own, with a ledger and a key of their own."""

    def __init__(self, folder: Path) -> None:
        self._out, self._ledger = folder / "release.tar", Ledger(folder / "ledger.sqlite")
        self._key, self._number = Ed25519PrivateKey.generate(), 0

    def publish(
        self, rows: pd.DataFrame, columns: dict[str, dict[str, Any]], mu: float, max_rows: int = 1
    ) -> tuple[ReleasedCovariance, Floats]:
        """Publish second moments and return what `dp-learn` makes of them, with the means that they show."""
        self._number += 1
        entity = {"entity": "person", "max_rows": max_rows}
        privacy = {"release": "covariance", "unit": entity, "mu": mu}
        policy = Policy.model_validate({"dataset": {"name": "series"}, "privacy": privacy, "columns": columns})
        keystream = insecure_keystream(self._number)
        publish(rows, policy, out=self._out, key=self._key, ledger=self._ledger, keystream=keystream)
        with open_bundle(self._out, UnsafeTrustAnyone()) as bundle:
            source = bundle_source(bundle)
            means = np.array([column.standards[-1].center for column in bundle.release.columns])
        self._out.unlink()
        if not isinstance(source, CovarianceSource):
            raise TypeError("second moments were published")
        return source.released, means


def error_of(rows: pd.DataFrame, *released: ReleasedCovariance) -> float:
    """Return the median error of a correlation, of releases that are pooled."""
    names = list(rows.columns[:-1])
    upper = np.triu_indices(len(names), 1)
    found, truth = pool_sources(names, released).correlation, np.corrcoef(rows[names].to_numpy().T)
    return float(np.median(np.abs(np.nan_to_num(found) - truth)[upper]))


def like_the_first(
    columns: dict[str, dict[str, Any]], first: ReleasedCovariance, means: Floats
) -> dict[str, dict[str, Any]]:
    """Return columns with the centers and scales that a release shows; as they were where it shows no variance."""
    known = {}
    for (name, entry), mean, variance in zip(columns.items(), means, np.diagonal(first.debiased), strict=True):
        shown = {"center": float(mean), "scale": math.sqrt(variance)} if variance > 0 else {}
        known[name] = {**entry, **shown}
    return known


def repeat(n_people: int, times: float, releases: Releases, rng: np.random.Generator) -> list[float]:
    """Return the errors of one repetition, of the same people and then of others in every month."""
    months = draw_months(n_people, rng)
    year, columns = pd.concat(months), bounds_of(months[0], times)

    def in_months(columns: dict[str, dict[str, Any]], mu: float) -> list[ReleasedCovariance]:
        return [releases.publish(month, columns, mu)[0] for month in months]

    def errors_of(series: list[ReleasedCovariance]) -> list[float]:
        each = [error_of(month, released) for month, released in zip(months[1:], series[1:], strict=True)]
        return [float(np.mean(each)), error_of(year, *series)]

    apart = 1 / math.sqrt(MONTHS)
    first, means = releases.publish(months[0], columns, apart)
    known = like_the_first(columns, first, means)
    later = [releases.publish(month, known, apart)[0] for month in months[1:]]
    whole, _ = releases.publish(year, columns, 1.0, MONTHS)
    found = [*errors_of(in_months(columns, apart)), *errors_of([first, *later]), error_of(year, whole)]

    others = year.assign(person=np.arange(len(year)))
    whole, _ = releases.publish(others, columns, math.sqrt(0.5))
    half = errors_of(in_months(columns, math.sqrt(0.5)))[0]
    return [*found, *errors_of(in_months(columns, 1.0)), half, error_of(year, whole)]


def main() -> None:
    """Print both tables."""
    heads = ("sensitivity", "rms", "largest", "of all", "single")
    print(" " * 20 + "".join(f"{head[-9:]:>10}" for head in heads))
    for periods in PERIODS:
        print("\n".join(compare(periods)))

    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    print(f"\nmedian error of a correlation, mu = 1, {repetitions} repetitions")
    print("people  bounds  the same people: months, like the first, whole   others: months, and the whole")
    with tempfile.TemporaryDirectory() as folder:
        releases, rng = Releases(Path(folder)), np.random.default_rng(52)
        for n_people, times in CASES:
            found = np.mean([repeat(n_people, times, releases, rng) for _ in range(repetitions)], axis=0)
            print(f"{n_people:>6}  x{times:<6g}" + "".join(f"{number:8.4f}" for number in found), flush=True)


if __name__ == "__main__":
    main()
