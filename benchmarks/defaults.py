"""What the plain commands give on public tables: errors, intervals, histograms, and the graph that is shown first.

    OPENBLAS_NUM_THREADS=1 DPGRAPH_DATA=... python benchmarks/defaults.py [--tables adult] [--mu 1] [--draws 3]

Tables are scikit-learn's, those in $DPGRAPH_DATA, and statsmodels's where it is installed. Every draw publishes
the table by `dp-publish TABLE --mu MU --unit row` and learns from the file as `dp-learn` does. What is estimated is
known from the table, as releases state it: correlations of values, pulled in to the ends that the release has, or of
normal scores by the cells of its histograms (with --ranks, by the table's own ranks, which no reader can know). Links
are those of values, and of the normal variables behind scores.

A line has the columns that noise drowned, the root mean square error of correlations of the default, and over that of
noisy rows, of values and of scores by themselves; the share of 95 % intervals of links (clean |partial correlation| of
.1 and more) that hold, of a table drawn from this one with as many rows; the share of significant wrong signs; F1 of
the edges that are shown first against clean |partial correlations| above .1; the share of all edges whose clean one is
below .03; the error of the drawn table over what was forecast; the largest Kolmogorov distance of a histogram, with the
share of intervals of quantiles that hold; and the share of columns of synthetic rows that have an impossible value:
negative, a fraction or a third value where the table has none.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats
from sklearn import datasets

from dp_bundle import Bundle, DpGraphError, open_bundle
from dp_bundle.data.latent import Steps, latent_correlations, linear_coefficients
from dp_bundle.data.margin_summary import QUANTILES, summarize_margin
from dp_bundle.data.margins import Scores, middle_scores
from dp_bundle.manifest.columns import Column
from dp_bundle.synthetic.files import write_synthetic
from dp_learn import learn_graph
from dp_learn.output.reader import correlations
from dp_publish.cli.main import cli
from dp_publish.forecast.plan import make_plan
from dp_publish.policy.file import load_policy

Floats = NDArray[np.float64]
DATA = Path(os.environ.get("DPGRAPH_DATA", "."))
OTHERS = {"rows": ["--release", "rows"], "raw": ["--scale", "raw"], "scores": ["--scale", "scores"]}
MEASURES = [
    "refused",
    "drowned",
    "rms",
    "rows",
    "raw",
    "scores",
    "held",
    "wrong",
    "f1",
    "false",
    "forecast",
    "kolmogorov",
    "quantiles",
    "impossible",
]
BY_RANKS = "--ranks" in sys.argv
LINK, NONE = 0.1, 0.03  # of clean partial correlations
LEAST_SHOWN = 0.3  # of a column's variance, by its scores: with less, dp-learn tells links of scores


def _sklearn(name: str) -> pd.DataFrame:
    return pd.DataFrame(getattr(datasets, f"load_{name}")(as_frame=True).frame)


def _csv(name: str) -> pd.DataFrame:
    return pd.read_csv(DATA / name)


def _statsmodels(name: str) -> pd.DataFrame:
    from statsmodels import datasets as of_statsmodels  # type: ignore[import-not-found]

    return pd.DataFrame(getattr(of_statsmodels, name).load_pandas().data)


TABLES: dict[str, Callable[[], pd.DataFrame]] = {
    "adult": lambda: pd.read_parquet(DATA / "adult" / "adult.parquet"),
    "airfoil": lambda: _csv("airfoil/airfoil.csv"),
    "sachs": lambda: _csv("sachs/sachs.csv"),
    "ionosphere": lambda: _csv("ionosphere/ionosphere.csv"),
    "chickenpox": lambda: _csv("chickenpox/hungary_chickenpox.csv").drop(columns="Date"),
    "congress": lambda: _csv("congress_les/les_house_93_102_long.csv"),
    **{name: lambda name=name: _sklearn(name) for name in ("iris", "wine", "breast_cancer", "diabetes", "digits")},
    **{
        name: lambda name=name: _statsmodels(name)
        for name in ("fair", "randhie", "anes96", "modechoice", "star98", "macrodata", "grunfeld")
    },
}


@contextmanager
def released(table: pd.DataFrame, *words: str) -> Iterator[Bundle]:
    """Publish a table by the plain command, and open its bundle."""
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        os.environ["DPGRAPH_HOME"] = f"{folder}/home"
        table.to_csv(f"{folder}/t.csv", index=False)
        command = ["publish", f"{folder}/t.csv", "--out", f"{folder}/t.tar", "--unit", "row", *words]
        cli.main(command, standalone_mode=False)
        with open_bundle(f"{folder}/t.tar") as bundle:
            yield bundle


def truth(bundle: Bundle, table: pd.DataFrame) -> Floats:
    """Return the clean rows as they are published, shape (n, p): pulled in, or in scores, with gaps at the center."""
    release, sources = bundle.release, {each.name: each for each in bundle.release.sources}
    margins = {each.name: each for each in (bundle.margins() if release.margins is not None else ())}
    clip = release.second_moments.column_clip or 1.0 if release.second_moments else 1.0
    found = []
    for column in release.columns:
        raw, source = table[column.source_name], sources.get(column.source_name)
        if source is not None and source.has_gap_column and column.name == source.columns[1]:
            values = raw.isna().to_numpy(float)
        elif source is not None and source.levels:
            values = _levels(raw, column, source)
        else:
            values = pd.to_numeric(raw, errors="coerce").to_numpy(float)
        values, known = values.copy(), ~np.isnan(values)
        if column.transform is not None:
            if BY_RANKS:
                values[known] = stats.norm.ppf((stats.rankdata(values[known]) - 0.5) / known.sum())
            else:
                margin = margins[column.source_name]
                shares = margin.shares(release.n_rows, release.margin_variance**0.5)[: margin.n_filled]
                values = Scores(margin.edges, middle_scores(shares, release.n_rows)).of(values)
            values[~known] = 0.0
        elif column.bounds and not column.standards:
            values = np.clip(np.where(known, values, np.mean(column.bounds)), *column.bounds)
        elif column.standards:
            center, away = column.standards[0].center, clip * column.standards[0].scale
            values = np.clip(np.where(known, values, center), center - away, center + away)
        found.append(values)
    return np.array(found).T


def _levels(raw: pd.Series[Any], column: Column, source: Any) -> Floats:
    texts = raw.map(lambda value: str(value).strip() if pd.notna(value) else source.gaps or "")
    texts = texts.where(texts.isin(source.levels), source.other or "")
    if not source.has_level_columns:
        places = {level: float(place) for place, level in enumerate(source.levels)}
        return np.array(texts.map(places).to_numpy(float))
    return np.array((texts == source.levels[source.columns.index(column.name)]).to_numpy(float))


def measure(bundle: Bundle, table: pd.DataFrame) -> dict[str, float]:
    """Return how far correlations of a release are from the clean ones of what it holds, and how many columns drown."""
    names = np.array([column.source_name for column in bundle.release.columns])
    first, second = np.triu_indices(len(names), 1)
    pairs = tuple(each[names[first] != names[second]] for each in (first, second))
    clean, told = _correlations(truth(bundle, table)), correlations(bundle, of_scores=True).values
    seen = np.isfinite(told).any(axis=1)
    return {
        "columns": len({*names[seen]}),
        "drowned": table.shape[1] - len({*names[seen]}),
        "rms": float(np.sqrt(np.nanmean((np.nan_to_num(told) - clean)[pairs] ** 2))),
    }


def _correlations(rows: Floats) -> Floats:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.nan_to_num(np.corrcoef(rows.T))


def behind(bundle: Bundle, rows: Floats) -> Floats:
    """Return the clean correlations that links are told of: of values, and of the normal variables behind scores."""
    coefficients = []
    for column, values in zip(bundle.release.columns, rows.T, strict=True):
        steps, counts = np.unique(values, return_counts=True)
        own = Steps.of_shares(counts / counts.sum(), steps).coefficients()
        is_latent = column.transform is not None and own[0] ** 2 >= LEAST_SHOWN
        coefficients.append(own if is_latent else linear_coefficients())
    return latent_correlations(_correlations(rows), np.array(coefficients))


def judge_graph(bundle: Bundle, table: pd.DataFrame) -> dict[str, float]:
    """Return what the graph that is shown has of the clean one, and how its intervals do."""
    graph = learn_graph(bundle).estimate
    names = [column.name for column in bundle.release.columns]
    if graph.inference is None or any(name not in names for name in graph.columns):
        return {}
    kept = [names.index(name) for name in graph.columns]
    clean = behind(bundle, truth(bundle, table))[np.ix_(kept, kept)]
    precision = np.linalg.pinv(clean, rcond=1e-8, hermitian=True)
    roots = np.sqrt(np.maximum(np.diagonal(precision), 1e-300))
    upper = np.triu_indices(len(kept), 1)
    partial = (-precision / np.outer(roots, roots))[upper]
    weight = np.zeros((len(kept), len(kept)))
    for edge in graph.edges().to_dict("records"):
        pair = [graph.columns.index(edge[end]) for end in ("source", "target")]
        weight[min(pair), max(pair)] = abs(edge["partial_correlation"])
    weights = weight[upper]
    shown, link = weights >= LINK, np.abs(partial) >= LINK
    bars = graph.inference.error_bars_at(upper)
    held = (bars["ci_low"] <= partial) & (partial <= bars["ci_high"])
    wrong = (bars["ci_low"] * partial < 0) & (bars["ci_high"] * partial < 0) & (np.abs(partial) > 1e-3)
    return {
        "held": float(held[link].mean()) if link.any() else np.nan,
        "wrong": float(wrong.mean()),
        "f1": 2.0 * float((shown & link).sum()) / max(1, int(shown.sum() + link.sum())),
        "false": float((np.abs(partial[weights > 0]) < NONE).mean()) if (weights > 0).any() else np.nan,
    }


def judge_histograms(bundle: Bundle, table: pd.DataFrame) -> dict[str, float]:
    """Return the largest Kolmogorov distance from the table, and the share of intervals of quantiles that hold."""
    release, distances, held = bundle.release, list[float](), list[bool]()
    if release.margins is None:
        return {}
    bounds = {column.source_name: column.bounds for column in reversed(release.columns)}
    for margin in bundle.margins():
        if margin.labels or not len(margin.edges):
            continue
        values = np.sort(pd.to_numeric(table[margin.name], errors="coerce").dropna().to_numpy(float))
        shares = margin.shares(release.n_rows, release.margin_variance**0.5)[: margin.n_filled]
        below = np.searchsorted(values, margin.edges, side="left") / len(values)
        distances.append(float(np.abs(np.cumsum(shares)[:-1] / shares.sum() - below).max()))
        for each in summarize_margin(margin, release.n_rows, release.margin_variance, bounds[margin.name]):
            if each.name in QUANTILES:
                low, high = (
                    np.searchsorted(values, end, side) for end, side in ((each.low, "left"), (each.high, "right"))
                )
                held.append(bool(low <= QUANTILES[each.name] * len(values) <= high))
    return {"kolmogorov": max(distances, default=np.nan), "quantiles": float(np.mean(held)) if held else np.nan}


def judge_synthetic(bundle: Bundle, table: pd.DataFrame) -> dict[str, float]:
    """Return the share of columns of synthetic rows with a value that the table's column cannot have."""
    path = Path(bundle.path).with_name("s.csv")
    write_synthetic(bundle, path, 5000, 1)
    rows, bad = pd.read_csv(path), list[bool]()
    for name in rows.columns.intersection(table.columns):
        found, true = (pd.to_numeric(each[name], errors="coerce").dropna() for each in (rows, table))
        below = bool(true.min() >= 0 > found.min())
        fractions = bool((true % 1 == 0).all() and (found % 1 != 0).any())
        bad.append(below or fractions or (true.nunique() == 2 and not found.isin(true.unique()).all()))
    return {"impossible": float(np.mean(bad))}


def main() -> None:
    """Print a line for each table and strength."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="*", default=[*TABLES], choices=[*TABLES])
    parser.add_argument("--mu", nargs="*", type=float, default=[0.5, 1.0, 3.0, 10.0])
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--ranks", action="store_true")
    given = parser.parse_args()
    pd.set_option("display.width", 200)

    lines = []
    for name in given.tables:
        table = TABLES[name]()
        table.columns = [str(column) for column in table.columns]
        for mu in given.mu:
            draws = [_draw(table, mu, seed) for seed in range(given.draws)]
            means = pd.DataFrame(draws, columns=MEASURES).mean().to_dict()
            lines.append({"table": name, "mu": mu, **means})
            head = (
                ""
                if len(lines) > 1
                else f"{'table':14}{'n x p':>11}{'mu':>5}" + "".join(f"{each:>11}" for each in MEASURES)
            )
            figures = "".join(f"{means[each]:11.4g}" for each in MEASURES)
            print(f"{head}\n{name:14}{f'{len(table)} x {table.shape[1]}':>11}{mu:5g}{figures}".strip(), flush=True)
    print(pd.DataFrame(lines).groupby("mu")[MEASURES].mean(numeric_only=True).round(3).to_string())


def _draw(table: pd.DataFrame, mu: float, seed: int) -> dict[str, float]:
    strength = ["--mu", str(mu)]
    try:
        with released(table, *strength) as bundle:
            found = {
                "refused": 0.0,
                **measure(bundle, table),
                **judge_histograms(bundle, table),
                **judge_graph(bundle, table),
                **judge_synthetic(bundle, table),
            }
    except DpGraphError as error:
        print(f"  {error}"[:160], flush=True)
        return {"refused": 1.0}
    for name, words in OTHERS.items():
        try:
            with released(table, *strength, *words) as bundle:
                other = measure(bundle, table)
            found[name] = found["rms"] / other["rms"] if other["columns"] >= found["columns"] else np.nan
        except DpGraphError:
            found[name] = np.nan
    rows = table.sample(len(table), replace=True, random_state=seed)
    with released(rows, *strength) as bundle:
        found |= {key: value for key, value in judge_graph(bundle, table).items() if key in ("held", "wrong")}
        own = make_plan(Path(bundle.path).with_name("t.csv"), load_policy(None, "t", {"mu": mu})).own
        found["forecast"] = measure(bundle, table)["rms"] / own.moments.error if own else np.nan
    return found


if __name__ == "__main__":
    main()
