"""The level and power of the tests of `dp-learn compare`, on releases whose networks are known.

    OPENBLAS_NUM_THREADS=1 python benchmarks/compare.py [--tables 100] [--only KINDS]

Random graphs of 12 and 30 columns, partial correlations of 0.12 to 0.45 of both signs, Gaussian rows or rows of
Student's t with 6 degrees of freedom. "rows" are rows with the noise of a cell's mu and bounds of four standard
deviations to either side, "moments" releases of second moments in two rounds, by the publisher's own code, and
"categories" both, of tables with six numbers and four categories of 2 to 5 levels, published by it too, "scores"
releases by normal scores of skewed columns, counts and cubes. In every line two releases are compared, of the row
counts and strengths that it names, once with equal networks and once with some links that differ: others have no link,
or another one. Printed are

* how often pairs that are equal are rejected at 5 %, all and those with partial correlations above 0.15;
* how often the two global tests reject equal networks at 5 %;
* where networks differ, the share of false ones among the pairs found at a false discovery rate of 5 %; how often the
  differences are found at 5 %, and how often a test would that knows the standard deviation of each difference, which
  is that over all tables of the line;
* how many comparisons were refused, and which share of pairs the others left out.

Behind every rate is its standard error, over tables.

Last comes a permutation test of the largest difference of partial correlations, and of each pair, on clean rows: how
often it and ours agree. With 60 tables it takes about seven minutes of one processor.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import NDArray
from scipy import stats

from dp_bundle import Bundle, open_bundle
from dp_bundle.base.errors import EstimationError
from dp_bundle.trust.judging import UnsafeTrustAnyone
from dp_learn.covariance.sample import Sample
from dp_learn.covariance.sources import bundle_source, table_rows
from dp_learn.pipeline.compare import Comparison, compare_samples
from dp_publish import Policy, publish
from dp_publish.sampling.keystream import insecure_keystream

Floats = NDArray[np.float64]
Masks = NDArray[np.bool_]

LEVEL, FDR, STRONG, N_DRAWS = 0.05, 0.05, 0.15, 400
QUANTILE = 1.96
BOUND = 4.0  # standard deviations, of rows
WIDE = 10.0  # and of second moments, which do not depend on it
FAR = 1000.0  # of columns that are skewed
N_LEVELS = {"g2": 2, "g3": 3, "g4": 4, "g5": 5}
N_PERMUTATIONS = 400
SEED = 1


@dataclass(frozen=True)
class Arm:
    """The number of rows of a release, and its mu."""

    n_rows: int
    mu: float


@dataclass(frozen=True)
class Line:
    """What is compared."""

    kind: str
    p: int
    degrees: int | None
    first: Arm
    second: Arm

    def __str__(self) -> str:
        arms = " | ".join(f"{arm.n_rows:>5} mu {arm.mu:<3g}" for arm in (self.first, self.second))
        return f"{self.kind:<18} {self.p:>2} {'t6' if self.degrees else 'N':<2} {arms}"


ARMS: dict[str, list[tuple[int, float, int, float]]] = {  # rows and mu of the first release, and of the second
    "rows": [(1000, 20, 1000, 20), (1000, 20, 3000, 8), (10000, 5, 10000, 5), (3000, 5, 10000, 5)],
    "moments": [(1000, 5, 1000, 5), (3000, 1, 3000, 1), (10000, 0.5, 3000, 2), (10000, 5, 3000, 1)],
    "scores": [(3000, 2, 3000, 2), (10000, 1, 10000, 1), (10000, 2, 3000, 4)],
    "categories rows": [(10000, 20, 10000, 20), (3000, 20, 10000, 10)],
    "categories moments": [(10000, 1, 10000, 1), (3000, 3, 10000, 1)],
}
HARD = {"rows": (10000, 1.0, 10000, 1.0), "moments": (1000, 0.5, 1000, 0.5)}  # Gaussian rows alone


def lines() -> list[Line]:
    """Return the lines of the table."""
    found = []
    for kind, sizes in ARMS.items():
        few = kind.startswith(("categories", "scores"))
        shapes = [(10, None)] if few else [(p, t) for p in (12, 30) for t in (None, 6)]
        for p, degrees in shapes:
            hard = [HARD[kind]] if kind in HARD and degrees is None else []
            found += [Line(kind, p, degrees, Arm(n, mu), Arm(m, nu)) for n, mu, m, nu in (*sizes, *hard)]
    return found


def make_networks(p: int, seed: int) -> tuple[Floats, Floats]:
    """Return two precision matrices of unit diagonal, of which some links differ."""
    rng = np.random.default_rng(seed)
    upper = np.triu_indices(p, 1)
    n_pairs = len(upper[0])
    linked = rng.random(n_pairs) < 3.0 / (p - 1)
    first = np.where(linked, rng.choice([-1, 1], n_pairs) * rng.uniform(0.12, 0.45, n_pairs), 0.0)
    second = first.copy()
    n_changed = max(2, int(0.15 * linked.sum()))
    second[rng.choice(np.flatnonzero(linked), n_changed, replace=False)] = 0.0
    fresh = rng.choice(np.flatnonzero(~linked), n_changed, replace=False)
    second[fresh] = rng.choice([-1, 1], n_changed) * rng.uniform(0.15, 0.35, n_changed)

    def build(values: Floats) -> Floats:
        matrix = np.zeros((p, p))
        matrix[upper] = -values
        return matrix + matrix.T + np.eye(p)

    factor = 1.0
    while min(np.linalg.eigvalsh(build(factor * each))[0] for each in (first, second)) < 0.2:
        factor *= 0.97
    return build(factor * first), build(factor * second)


def draw_rows(precision: Floats, n_rows: int, degrees: int | None, rng: np.random.Generator) -> Floats:
    """Return rows with this precision matrix, up to units: every column has variance 1."""
    covariance = np.linalg.inv(precision)
    root = np.linalg.cholesky(covariance / np.sqrt(np.outer(covariance.diagonal(), covariance.diagonal())))
    rows: Floats = rng.normal(size=(n_rows, len(root))) @ root.T
    return rows if degrees is None else rows * np.sqrt((degrees - 2) / rng.chisquare(degrees, (n_rows, 1)))


def categorise(rows: Floats) -> pd.DataFrame:
    """Return a table of which the last columns are cut into levels of unequal frequency."""
    p = rows.shape[1]
    table: dict[str, object] = {f"x{place}": rows[:, place] for place in range(p - len(N_LEVELS))}
    for place, (name, n_levels) in enumerate(N_LEVELS.items(), start=p - len(N_LEVELS)):
        shares = np.cumsum(0.7 ** np.arange(n_levels))
        cuts = stats.norm.ppf(shares[:-1] / shares[-1])
        table[name] = [f"l{level}" for level in np.searchsorted(cuts, rows[:, place])]
    return pd.DataFrame(table)


def distort(rows: Floats, n_rows: int) -> pd.DataFrame:
    """Return a table of skewed columns, counts and cubes of them, skewed as the number of rows says."""
    skew, mean = (0.5, 1.5) if n_rows > 5000 else (1.0, 3.0)
    table: dict[str, Floats] = {}
    for place, column in enumerate(rows.T):
        skewed = np.exp(skew * column), stats.poisson.ppf(stats.norm.cdf(column), mean), column**3
        table[f"{('x', 'count', 'y')[place % 3]}{place}"] = np.clip(skewed[place % 3], -FAR, FAR)
    return pd.DataFrame(table)


class Maker:
    """Makes samples of releases."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.key, self.count = folder, Ed25519PrivateKey.generate(), 0
        self.opened: list[Bundle] = []

    def sample(self, line: Line, precision: Floats, arm: Arm, rng: np.random.Generator) -> Sample:
        """Return what a release of fresh rows holds."""
        rows = draw_rows(precision, arm.n_rows, line.degrees, rng)
        if line.kind == "rows":
            sigma = 2.0 * BOUND / arm.mu
            names = [f"x{place}" for place in range(line.p)]
            return Sample([table_rows(rows + sigma * rng.normal(size=rows.shape), names, sigma**2)])
        if line.kind == "scores":
            return self._published(distort(rows, arm.n_rows), arm, "scores")
        if line.kind == "moments":
            return self._published(pd.DataFrame(rows, columns=[f"x{place}" for place in range(line.p)]), arm, "moments")
        return self._published(categorise(rows), arm, line.kind.split()[1])

    def _published(self, table: pd.DataFrame, arm: Arm, kind: str) -> Sample:
        bound = {"moments": WIDE, "scores": FAR}.get(kind, BOUND)
        columns = {
            name: {"kind": "category", "categories": [f"l{level}" for level in range(N_LEVELS[name])]}
            if name in N_LEVELS
            else {"bounds": [-bound, bound]} | ({"kind": "integer"} if name.startswith("count") else {})
            for name in table
        }
        privacy = {
            "rows": {"unit": "cell"},
            "moments": {"release": "covariance", "mechanism": "two-round"},
            "scores": {"release": "copula"},
        }[kind]
        document = {"dataset": {"name": "t"}, "privacy": {"mu": arm.mu, **privacy}, "columns": columns}
        self.count += 1
        path = self.folder / f"{self.count}.tar"
        policy = Policy.model_validate(document)
        publish(table, policy, out=path, key=self.key, keystream=insecure_keystream(self.count))
        self.opened.append(open_bundle(path, UnsafeTrustAnyone()))
        return Sample([bundle_source(self.opened[-1])])

    def clear(self) -> None:
        """Close what was opened, and remove it."""
        for bundle in self.opened:
            bundle.close()
        self.opened.clear()
        for path in self.folder.glob("*.tar*"):
            path.unlink()


@dataclass
class Found:
    """What came of all comparisons of a line; arrays have one row for each table and one column for each pair."""

    difference: Floats
    error: Floats
    p_value: Floats
    q_value: Floats
    largest: Floats
    squares: Floats
    strengths: Floats
    values: Floats
    n_refused: int


def compare_often(make: Callable[[], list[Sample]], n_tables: int, maker: Maker) -> Found | None:
    """Return what comparisons find, None where all are refused."""
    done: list[Comparison] = []
    refused = 0
    for _ in range(n_tables):
        try:
            done.append(compare_samples(make(), FDR, 1.0 - LEVEL, n_draws=N_DRAWS))
        except EstimationError:
            refused += 1
        maker.clear()
    n_nodes = max((len(each.nodes) for each in done), default=0)
    whole = [each for each in done if len(each.nodes) == n_nodes]
    refused += len(done) - len(whole)
    if not whole:
        return None
    each = [one.differences for one in whole]
    return Found(
        np.array([one.each[0].difference for one in each]),
        np.array([one.each[0].standard_error for one in each]),
        np.array([one.each[0].p_value for one in each]),
        np.array([one.q_values[0] for one in each]),
        np.array([one.each[0].largest.p_value for one in each]),
        np.array([one.each[0].squares.p_value for one in each]),
        np.array([_ratio(one.each[0].strength, one.each[0].strength_error) for one in each]),
        np.mean([one.estimates[0].value for one in each], axis=0),
        refused,
    )


def _ratio(value: Floats, error: Floats) -> Floats:
    return value / np.where(error > 0.0, error, np.nan)


def tally(found: Masks | Floats) -> Floats:
    """Return how often something was found and how often it could be, in each table."""
    each = np.reshape(np.asarray(found, dtype=float), (len(found), -1))
    return np.array([np.nansum(each, axis=1), np.count_nonzero(~np.isnan(each), axis=1)])


def rate(counts: Floats) -> str:
    """Return a rate with its standard error, in percent."""
    found, possible = counts
    if not possible.sum():
        return "     -     "
    mean = found.sum() / possible.sum()
    return f"{100 * mean:6.1f} {100 * np.sqrt(((found - mean * possible) ** 2).sum()) / possible.sum():4.1f}"


def below(p_values: Floats) -> Floats:
    """Return 1 where a p-value is below the level, 0 where it is not, NaN where there is none."""
    return np.where(np.isnan(p_values), np.nan, p_values < LEVEL)


def beyond(scores: Floats) -> Floats:
    """Return the same of normal scores."""
    return np.where(np.isnan(scores), np.nan, np.abs(scores) > QUANTILE)


def run_line(line: Line, n_tables: int, maker: Maker, pooled: dict[str, list[Floats]]) -> str:
    """Return a line of the table, and keep what counts for the sums over lines."""
    rng = np.random.default_rng([SEED, *str(line).encode()])
    first, second = make_networks(line.p, line.p)
    upper = np.triu_indices(line.p, 1)
    truth = [-each[upper] for each in (first, second)]

    def make(networks: tuple[Floats, Floats]) -> Callable[[], list[Sample]]:
        arms = line.first, line.second
        return lambda: [maker.sample(line, each, arm, rng) for each, arm in zip(networks, arms, strict=True)]

    equal = compare_often(make((first, first)), n_tables, maker)
    if equal is None:
        return f"{line}   refused"
    rejected = below(equal.p_value)
    strong = np.abs(equal.values) > STRONG
    cells = [rejected, rejected[:, strong], below(equal.largest), below(equal.squares), beyond(equal.strengths)]
    refused, left_out = equal.n_refused / n_tables, float(np.isnan(equal.p_value).mean())

    other = None if line.kind.startswith("categories") else compare_often(make((first, second)), n_tables, maker)
    if other is not None:
        apart = truth[1] - truth[0]
        null, same_and_strong = apart == 0.0, (apart == 0.0) & (np.abs(truth[0]) > STRONG)
        found = np.nan_to_num(other.q_value, nan=1.0) <= FDR
        false = (found & null).sum(axis=1) / np.maximum(found.sum(axis=1), 1)
        deviation = np.nanstd(other.difference, axis=0) if len(found) > 1 else np.full(len(null), np.nan)
        known = beyond(other.difference / deviation)
        changed = below(other.p_value)
        cells += [changed[:, null], changed[:, same_and_strong], false, changed[:, ~null], known[:, ~null]]
    else:
        cells += [np.full(1, np.nan)] * 5
    counts = [tally(cell) for cell in cells]
    for name, each in zip(COLUMNS, counts, strict=True):
        pooled.setdefault(name, []).append(each)
    return f"{line} " + " ".join(map(rate, counts)) + f"  {100 * refused:5.0f} {100 * left_out:6.1f}"


COLUMNS = ("equal", "strong", "largest", "squares", "nodes", "same", "& strong", "false", "power", "known")


def permute(n_tables: int) -> None:
    """Print how often permutation tests on clean rows and our tests agree."""
    p, n_rows = 12, 1000
    upper = np.triu_indices(p, 1)
    rng = np.random.default_rng(5)
    networks = make_networks(p, p)

    def partial(rows: Floats) -> Floats:
        theta = np.linalg.inv(np.cov(rows, rowvar=False))
        values: Floats = (-theta / np.sqrt(np.outer(theta.diagonal(), theta.diagonal())))[upper]
        return values

    ours, theirs, both = [], [], []
    for table in range(n_tables):
        rows = [draw_rows(networks[0 if table % 2 else arm], n_rows, None, rng) for arm in (0, 1)]
        names = [f"x{place}" for place in range(p)]
        found = compare_samples([Sample([table_rows(each, names)]) for each in rows], FDR, 1.0 - LEVEL)
        joined, seen = np.vstack(rows), np.abs(partial(rows[1]) - partial(rows[0]))
        drawn = []
        for _ in range(N_PERMUTATIONS):
            order = rng.permutation(2 * n_rows)
            drawn.append(np.abs(partial(joined[order[n_rows:]]) - partial(joined[order[:n_rows]])))
        permuted = (1 + (np.array(drawn) >= seen).sum(axis=0)) / (1 + N_PERMUTATIONS)
        largest = (1 + (np.max(drawn, axis=1) >= seen.max()).sum()) / (1 + N_PERMUTATIONS)
        ours.append(found.differences.each[0].p_value)
        theirs.append(permuted)
        both.append((found.differences.each[0].largest.p_value < LEVEL, largest < LEVEL))
    a, b = np.concatenate(ours), np.concatenate(theirs)
    agree = np.array(both)
    print(
        f"permutation, {n_tables} clean tables of {n_rows} x {p} and {N_PERMUTATIONS} permutations: at 5 % "
        f"{100 * np.mean((a < LEVEL) == (b < LEVEL)):.1f} % of pairs have the same answer, rank correlation of "
        f"p-values {stats.spearmanr(a, b).statistic:.3f}; the tests of the largest difference agree in "
        f"{100 * np.mean(agree[:, 0] == agree[:, 1]):.1f} %",
        flush=True,
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument(
        "--tables", type=int, default=100, help="tables of 12 columns in every line, half of 30 columns"
    )
    parser.add_argument("--only", default="rows,moments,categories,scores,permutation", help="kinds, by commas")
    options = parser.parse_args()
    wanted = options.only.split(",")
    print(f"{'':51} " + " ".join(f"{name:>11}" for name in COLUMNS)[1:] + " refused left out, all in %")
    pooled: dict[str, dict[str, list[Floats]]] = {}
    with tempfile.TemporaryDirectory() as name:
        os.environ["DPGRAPH_HOME"] = name
        maker = Maker(Path(name))
        for line in lines():
            kind = line.kind.split()[0]
            if kind in wanted:
                n_tables = options.tables // 2 if line.p == 30 else options.tables
                print(run_line(line, n_tables, maker, pooled.setdefault(kind, {})), flush=True)
        for kind, columns in pooled.items():
            print(f"{'all lines of ' + kind:50}" + " ".join(rate(np.hstack(each)) for each in columns.values()))
    if "permutation" in wanted:
        permute(options.tables)


if __name__ == "__main__":
    main()
