"""Which rule should choose the graph, and by what should edges be ranked? All of them on real tables and simulations.

    DPGRAPH_DATA=... OPENBLAS_NUM_THREADS=1 python benchmarks/rules.py [--tables NAME,...] [--repetitions 2]

Eleven real tables (seven from the folder of public tables, the others scikit-learn's) and four simulations get Gaussian
noise at 40, 20, 10 and 0 dB, and at cell-level mu = 30 on their ranges, where columns differ in their noise. It prints

* F1 of every rule's graph against the same rule's graph without noise, and against the truth in simulations; on real
  tables against the clean table's partial correlations above 0.1;
* the slope of the reported weights against those reported without noise, over the edges that both graphs have;
* AUC of candidate rankings of all pairs, against the truth, and against the default's graph without noise;
* how often a rule sees edges where there are none;
* last, the two figures that the defaults are held to, on the real tables.

It takes about five minutes of one processor.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import networkx as nx
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn import datasets
from sklearn.metrics import roc_auc_score

from dp_bundle.base.errors import DpGraphError
from dp_learn.covariance.collinear import clear_columns
from dp_learn.covariance.estimate import PooledCovariance, keep_columns
from dp_learn.covariance.sample import Sample, effective_rows
from dp_learn.covariance.sources import table_rows
from dp_learn.covariance.standard_errors import null_standard_errors
from dp_learn.inference.edges import error_forms, fit_for_inference, infer_edges, score_pairs
from dp_learn.output.estimator_results import ESTIMATORS, refit_estimate
from dp_learn.pipeline.fit import fit_graph
from dp_learn.pipeline.graph import partial_correlations
from dp_learn.pipeline.selection import alpha_grid, select_ebic
from dp_learn.pipeline.settings import Settings

Floats = NDArray[np.float64]
Graph = tuple[NDArray[np.bool_], Floats]  # which pairs are edges, and their weights
Rule = Callable[[Sample], Graph]

P_SIMULATED, N_SIMULATED = 30, 1000
LEVELS: dict[str, float] = {"40 dB": 40.0, "20 dB": 20.0, "10 dB": 10.0, "0 dB": 0.0}
MU = "mu = 30"  # of a cell, whose bounds are the range of its column
LITTLE_NOISE = 0.3  # the median share of the published variances
CLEAN = "none"
STRONG = 0.1  # of a partial correlation


@dataclass(frozen=True)
class Table:
    """Standardised rows, and their graph where it is known."""

    rows: Floats
    truth: NDArray[np.bool_] | None = None


def real_tables(folder: Path) -> dict[str, Table]:
    """Return the real tables, their columns standardised; of a wide one the columns that vary most."""
    adult = pd.read_parquet(folder / "adult" / "adult.parquet").iloc[:20_000]
    counts = adult[["age", "education_num", "capital_gain", "capital_loss", "hours_per_week"]].astype(float)
    coded = pd.get_dummies(adult[["sex", "income", "marital_status", "relationship"]]).astype(float)
    les = pd.read_csv(folder / "congress_les" / "les_house_93_102_long.csv").drop_duplicates(["icpsr", "congress"])
    lagged = les
    for lag in (1, 2, 3):
        earlier = les[["icpsr", "congress", "les"]].rename(columns={"les": f"lag{lag}"})
        lagged = lagged.merge(earlier.assign(congress=earlier["congress"] + lag), on=["icpsr", "congress"])
    raw = {
        "adult": np.column_stack([np.log1p(counts), coded.loc[:, coded.mean().between(0.05, 0.95)].iloc[:, 1::2]]),
        "airfoil": pd.read_csv(folder / "airfoil" / "airfoil.csv"),
        "colon": _widest(np.log(pd.read_csv(folder / "colon" / "colon.csv").drop(columns="class"))),
        "congress": np.column_stack([np.log(0.05 + lagged.filter(regex="^l(es|ag)")), lagged[["dem", "majority"]]]),
        "ionosphere": pd.read_csv(folder / "ionosphere" / "ionosphere.csv").iloc[:, 2:-1],
        "sachs": np.log(pd.read_csv(folder / "sachs" / "sachs.csv")),
        "soil": _widest(np.log(pd.read_csv(folder / "soil" / "soil_116_pseudocount1.csv").iloc[:, 1:])),
        "wine": datasets.load_wine().data,
        "breast_cancer": np.log1p(datasets.load_breast_cancer().data),
        "diabetes": datasets.load_diabetes().data,
        "digits": datasets.load_digits().data[:, (datasets.load_digits().data > 0).mean(axis=0) > 0.3],
    }
    return {name: Table(_standardize(np.asarray(values, dtype=float))) for name, values in raw.items()}


def simulations(rng: np.random.Generator) -> dict[str, Table]:
    """Return rows with a known graph: a chain, random edges, hubs, and six blocks of five columns."""
    p = P_SIMULATED
    upper = np.triu_indices(p, 1)
    random, hubs = np.zeros((p, p)), np.zeros((p, p))
    chosen = rng.random(upper[0].size) < 2.5 / (p - 1)
    random[upper] = chosen * rng.choice([-1, 1], chosen.size) * rng.uniform(0.3, 0.6, chosen.size)
    tree = nx.to_numpy_array(nx.barabasi_albert_graph(p, 1, seed=int(rng.integers(2**31))))
    hubs[upper] = 0.35 * tree[upper] * rng.choice([-1, 1], upper[0].size)
    block = np.linalg.inv(0.6 * np.kron(np.eye(p // 5), np.ones((5, 5))) + 0.4 * np.eye(p))
    precisions = {
        "chain": np.eye(p) + 0.45 * (np.eye(p, k=1) + np.eye(p, k=-1)),
        "random": _definite(random + random.T, 0.3),
        "hubs": _definite(hubs + hubs.T, 0.25),
        "blocks": np.where(np.abs(block) > 1e-9, block, 0.0),
    }
    made = {}
    for name, precision in precisions.items():
        rows = rng.multivariate_normal(np.zeros(p), np.linalg.inv(precision), N_SIMULATED)
        made[name] = Table(_standardize(rows), precision != 0.0)
    return made


def _widest(table: pd.DataFrame, n_columns: int = 25) -> pd.DataFrame:
    return table[table.var().nlargest(n_columns).index]


def _standardize(rows: Floats) -> Floats:
    standardised: Floats = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    return standardised


def _definite(precision: Floats, smallest: float) -> Floats:
    lifted: Floats = precision + (smallest - np.linalg.eigvalsh(precision)[0]) * np.eye(len(precision))
    return lifted


def noise_of(level: str, rows: Floats) -> Floats:
    """Return the standard deviation of every column's noise."""
    if level == MU:
        spread: Floats = np.ptp(rows, axis=0) / 30.0
        return spread
    return np.full(rows.shape[1], 0.0 if level == CLEAN else 10.0 ** (-LEVELS[level] / 20.0))


def by_alpha(**settings: object) -> Rule:
    """Return a rule of the graphical lasso, as `dp-learn` applies it."""

    def find(sample: Sample) -> Graph:
        fit = fit_graph(sample, Settings(**settings))  # type: ignore[arg-type]
        return _spread(fit.kept, sample, fit.solution.precision != 0.0, partial_correlations(fit.precision))

    return find


def by_ebic(gamma: float) -> Rule:
    """Return EBIC on the whole path, down to a hundredth of the alpha that empties the graph."""

    def find(sample: Sample) -> Graph:
        kept, pooled = _clear(sample)
        matrix, units = pooled.correlation, np.outer(pooled.deviations, pooled.deviations)
        rows_left = lambda theta: effective_rows(pooled, theta / units)  # noqa: E731
        alpha = select_ebic(matrix, rows_left, alpha_grid(matrix), gamma=gamma, solver="auto").alpha
        fit = fit_graph(sample, Settings(alpha=alpha))
        return _spread(kept, sample, fit.solution.precision != 0.0, partial_correlations(fit.precision))

    return find


def by_estimator(name: str, **options: object) -> Rule:
    """Return another estimator with its own default penalty, its weights fitted again where it has any."""

    def find(sample: Sample) -> Graph:
        kept, pooled = _clear(sample)
        fitted = ESTIMATORS[name](**options).fit_covariance(pooled, np.zeros(len(kept)))
        if name == "thresholded-covariance":
            return _spread(kept, sample, fitted.thresholded_ != 0.0, np.zeros_like(fitted.thresholded_))
        precision, _ = refit_estimate(fitted, pooled)
        return _spread(kept, sample, fitted.precision_ != 0.0, partial_correlations(precision))

    return find


def by_tests(rate: float) -> Rule:
    """Return the edges found at a false discovery rate, with their desparsified weights."""

    def find(sample: Sample) -> Graph:
        kept, pooled = _clear(sample)
        theta = fit_for_inference(pooled).precision
        inference = infer_edges(pooled, theta, sample.row_errors(pooled, kept, error_forms(pooled, theta)))
        return _spread(kept, sample, inference.q_values <= rate, inference.partial_correlation)

    return find


RULES: dict[str, Rule] = {
    "default": by_alpha(),
    "ebic, whole path": by_ebic(gamma=0.0),
    "ebic, whole path, gamma .5": by_ebic(gamma=0.5),
    "cv": by_alpha(select="cv"),
    "mse": by_alpha(select="mse"),
    "stars (few columns)": by_alpha(select="stars"),
    "default, noise weights": by_alpha(weights="noise"),
    "neighborhood, or": by_estimator("neighborhood"),
    "neighborhood, and": by_estimator("neighborhood", rule="and"),
    "scio": by_estimator("scio"),
    "clime (few columns)": by_estimator("clime"),
    "tests at 5 %": by_tests(0.05),
    "thresholded covariance": by_estimator("thresholded-covariance"),
}
SLOW = {"clime (few columns)": 16, "stars (few columns)": 15, "scio": 32}  # columns above which a rule is left out


def rankings(sample: Sample, noisy: Floats) -> Iterator[tuple[str, Floats]]:
    """Yield every candidate: its name, and its score of all pairs of the clear columns."""
    kept, pooled = _clear(sample)
    penalised, refitted = (fit_graph(sample, Settings(refit=refit)).precision for refit in (False, True))
    yield "penalised weight", np.abs(partial_correlations(penalised))
    yield "refitted weight", np.abs(partial_correlations(refitted))
    theta = fit_for_inference(pooled).precision
    inference = infer_edges(pooled, theta, sample.row_errors(pooled, kept, error_forms(pooled, theta)))
    yield "desparsified", np.nan_to_num(np.abs(inference.partial_correlation))
    yield "desparsified / error", inference.scores
    yield "correlation / error", np.abs(pooled.correlation) / null_standard_errors(pooled)
    yield "evidence", score_pairs(pooled)
    undebiased = _sample(noisy[:, kept], np.zeros(len(kept)))
    if len(noisy) > len(kept) + 5:
        yield "noisy inverse", np.abs(partial_correlations(np.linalg.inv(undebiased.pooled.covariance)))
    yield "noisy pooled", score_pairs(undebiased.pooled)


def _sample(rows: Floats, variance: Floats, n_folds: int = 1) -> Sample:
    names = [str(index) for index in range(rows.shape[1])]
    return Sample([table_rows(rows, names, variance)], n_folds=n_folds)


def _clear(sample: Sample) -> tuple[NDArray[np.int64], PooledCovariance]:
    kept, _ = clear_columns(sample.pooled)
    return kept, keep_columns(sample.pooled, kept)


def _spread(kept: NDArray[np.int64], sample: Sample, edges: NDArray[np.bool_], weights: Floats) -> Graph:
    """Return a graph of the clear columns as pairs of all columns."""
    p = len(sample.pooled.columns)
    everywhere, strength = np.zeros((p, p), dtype=bool), np.zeros((p, p))
    everywhere[np.ix_(kept, kept)], strength[np.ix_(kept, kept)] = edges, weights
    upper = np.triu_indices(p, 1)
    return everywhere[upper], np.where(everywhere, np.nan_to_num(strength), 0.0)[upper]


def find_all(rules: dict[str, Rule], rows: Floats, sigma: Floats) -> dict[str, Graph]:
    """Return the graph of every rule that finds one."""
    sample, found = _sample(rows, sigma**2, n_folds=5), {}
    for name, rule in rules.items():
        if rows.shape[1] > SLOW.get(name, rows.shape[1]):
            continue
        try:
            found[name] = rule(sample)
        except DpGraphError as error:
            print(f"    {name}: {error}", file=sys.stderr)
    return found


def f1(found: NDArray[np.bool_], truth: NDArray[np.bool_]) -> float:
    """Return the F1 of edges, 1 for two empty graphs."""
    size = int(found.sum() + truth.sum())
    return 2.0 * float((found & truth).sum()) / size if size else 1.0


def slope(found: Graph, clean: Graph) -> float:
    """Return the slope, through the origin, of the weights of one graph against another's, over their common edges."""
    both = found[0] & clean[0]
    square = float(clean[1][both] @ clean[1][both])
    return float(found[1][both] @ clean[1][both]) / square if square else np.nan


def measure(tables: dict[str, Table], rules: dict[str, Rule], repetitions: int, seed: int = 0) -> pd.DataFrame:
    """Return one row for each table, level of noise, repetition and rule."""
    rng, measured = np.random.default_rng(seed), []
    for name, table in tables.items():
        clean = find_all(rules, table.rows, noise_of(CLEAN, table.rows))
        for level in (CLEAN, *LEVELS, MU):
            sigma = noise_of(level, table.rows)
            share = float(np.median(sigma**2 / (1.0 + sigma**2)))
            for _ in range(1 if level == CLEAN else repetitions):
                noisy = table.rows + sigma * rng.normal(size=table.rows.shape)
                for rule, graph in (clean if level == CLEAN else find_all(rules, noisy, sigma)).items():
                    if rule not in clean:
                        continue
                    row = {"table": name, "level": level, "share": share, "rule": rule, "edges": int(graph[0].sum())}
                    row |= {"F1": f1(graph[0], clean[rule][0]), "slope": slope(graph, clean[rule])}
                    truth = strong_links(table.rows) if table.truth is None else table.truth
                    row["F1 truth"] = f1(graph[0], truth[np.triu_indices(len(truth), 1)])
                    measured.append(row)
        print(f"  {name}: {len(table.rows)} x {table.rows.shape[1]}", file=sys.stderr, flush=True)
    return pd.DataFrame(measured)


def strong_links(rows: Floats) -> NDArray[np.bool_]:
    """Return which partial correlations of clean rows are above 0.1 in size."""
    inverse = np.linalg.inv(np.corrcoef(rows.T))
    root = np.sqrt(np.diagonal(inverse))
    return np.abs(inverse) > STRONG * np.outer(root, root)


def measure_rankings(tables: dict[str, Table], repetitions: int, seed: int = 1) -> pd.DataFrame:
    """Return the AUC of every ranking for each table, level and repetition."""
    rng, measured = np.random.default_rng(seed), []
    for name, table in tables.items():
        p = table.rows.shape[1]
        truth = table.truth
        if truth is None:
            truth = np.zeros((p, p), dtype=bool)
            truth[np.triu_indices(p, 1)] = RULES["default"](_sample(table.rows, np.zeros(p)))[0]
        for level in LEVELS:
            for _ in range(repetitions):
                sigma = noise_of(level, table.rows)
                noisy = table.rows + sigma * rng.normal(size=table.rows.shape)
                try:
                    sample = _sample(noisy, sigma**2)
                    kept, _ = _clear(sample)
                    upper = np.triu_indices(len(kept), 1)
                    edges = (truth | truth.T)[np.ix_(kept, kept)][upper]
                    for score, values in rankings(sample, noisy):
                        auc = roc_auc_score(edges, values[upper]) if edges.any() and not edges.all() else np.nan
                        measured.append({"table": name, "level": level, "score": score, "AUC": auc})
                except DpGraphError as error:
                    print(f"    {name}, {level}: {error}", file=sys.stderr)
    return pd.DataFrame(measured)


def empty_graphs(rules: dict[str, Rule], n_tables: int = 20) -> pd.DataFrame:
    """Return in how many of some tables without edges every rule sees none, and how many edges it sees on average."""
    counts: dict[str, list[int]] = {}
    for seed in range(n_tables):
        rng = np.random.default_rng(1000 + seed)
        sigma = 10.0 ** (-rng.uniform(-3.0, 25.0, 25) / 20.0)
        rows = rng.normal(size=(2000, 25)) + sigma * rng.normal(size=(2000, 25))
        for rule, graph in find_all(rules, rows, sigma).items():
            counts.setdefault(rule, []).append(int(graph[0].sum()))
    table = {rule: (np.mean(np.equal(each, 0)), np.mean(each)) for rule, each in counts.items()}
    return pd.DataFrame(table, index=["share without edges", "mean edges"]).T


def print_done(real: pd.DataFrame) -> None:
    """Print the figures that the defaults are held to."""
    little = real[(real["level"] != CLEAN) & (real["share"] < LITTLE_NOISE)]
    slopes = little[little["rule"] == "default"].groupby("table")["slope"].mean()
    by_rule = little.groupby(["rule", "table"])["F1 truth"].mean().unstack().dropna().mean(axis=1)
    best = by_rule.drop("default").idxmax()
    print(f"\nWhere the noise is less than {LITTLE_NOISE:.0%} of the variance, on {len(slopes)} real tables:")
    print(f"slope of the default's weights against the clean ones: mean {slopes.mean():.3f}, by table")
    print(slopes.round(3).to_string())
    print(
        f"F1 against the clean table's strong links: default {by_rule['default']:.3f}; the best rule, {best}, "
        f"{by_rule[best]:.3f}"
    )
    met = 0.9 <= slopes.mean() <= 1.1 and by_rule["default"] >= by_rule[best]
    print("met" if met else "NOT met", "(slope .9 to 1.1, and F1 at least the best rule's)")


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", default="", help="some of the tables, by name")
    parser.add_argument("--repetitions", type=int, default=2)
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    if not os.environ.get("DPGRAPH_DATA"):
        sys.exit("set DPGRAPH_DATA to the folder that holds the public tables")
    real, made = real_tables(Path(os.environ["DPGRAPH_DATA"])), simulations(np.random.default_rng(0))
    tables = {name: table for name, table in (real | made).items() if name in (chosen.tables or name).split(",")}

    measured = measure(tables, RULES, chosen.repetitions)
    is_real = measured["table"].isin(list(real))
    order = [*LEVELS, MU]
    print("F1 against the same rule's graph without noise, mean over the real tables; edges without noise")
    shown = measured[is_real].pivot_table(index="rule", columns="level", values="F1")[order]
    shown["edges"] = measured[is_real & (measured["level"] == CLEAN)].groupby("rule")["edges"].mean()
    print(shown.round(3).to_string())
    for title, some in (("the truth, mean over the simulations", ~is_real), ("strong links, real tables", is_real)):
        print(f"\nF1 against {title}")
        shown = measured[some].pivot_table(index="rule", columns="level", values="F1 truth")
        print(shown[[CLEAN, *order]].round(3).to_string())
    print("\nSlope of the weights against those without noise, mean over the real tables")
    print(measured[is_real].pivot_table(index="rule", columns="level", values="slope")[order].round(3).to_string())
    print("\nTables of unrelated columns, with unequal noise")
    print(empty_graphs({name: rule for name, rule in RULES.items() if name not in SLOW}).round(2).to_string())

    auc = measure_rankings(tables, chosen.repetitions)
    for title, some in (("the truth, simulations", made), ("the default's graph without noise, real tables", real)):
        print(f"\nAUC of rankings of all pairs, against {title}")
        shown = auc[auc["table"].isin(list(some))].pivot_table(index="score", columns="level", values="AUC")
        print(shown[list(LEVELS)].round(3).to_string())
    print_done(measured[is_real])


if __name__ == "__main__":
    main()
