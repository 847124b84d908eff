"""Synthetic rows of a release of normal scores against those of MST and AIM: correlations, margins, and a model.

python benchmarks/synthetic.py [--peers PYTHON] [--mu 1 3] [--seeds 3] [--tables NAME ...] [--methods mst mst-tree aim]

Tables are public: those of the folder DPGRAPH_DATA, those that scikit-learn has, and those that statsmodels has if it
is installed. PYTHON is one that has dpmm and pyarrow (pip install dpmm "pyarrow<17", in an environment of its own);
without it, ours alone are measured. Bounds are alike: levels are declared, and numbers get bounds three times as wide
as their range.

Of 10 n rows (200,000 at most), against the clean table: the median and the largest error of correlations of all pairs,
by Pearson, by ranks (Spearman) and by normal scores of ranks; the Kolmogorov distance of columns, mean and largest, and
of numbers at the ends of our cells alone. With --models, for tables with a target: the loss on a third of the clean
rows of gradient boosting that was trained on as many synthetic rows as the others are (squared error over the variance,
or log loss), beside that of one trained on the others themselves; there the release is of the others alone.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import NDArray
from scipy.stats import norm
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_diabetes
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.metrics import log_loss, mean_squared_error
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder

from dp_bundle import open_bundle
from dp_bundle.synthetic.files import write_synthetic
from dp_bundle.trust.judging import UnsafeTrustAnyone
from dp_publish import publish
from dp_publish.policy.model import Policy

_DATA = Path(os.environ.get("DPGRAPH_DATA", "data"))
_MOST_ROWS = 200_000
_FEW = 64  # whole numbers, which are levels in an order
_WIDER = 3.0
_LEAST_SHARE = 0.05  # of a level whose indicator has correlations
_SCALES: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "pearson": lambda frame: frame,
    "spearman": lambda frame: frame.rank(),
    "scores": lambda frame: ((frame.rank() - 0.5) / len(frame)).apply(norm.ppf),
}
_PEERS = Path(__file__).with_name("synthetic_peers.py")


@dataclass(frozen=True)
class Table:
    """A public table, with the column that a model predicts, if any."""

    name: str
    rows: pd.DataFrame
    target: str | None = None

    @property
    def n_columns(self) -> int:
        """How many columns are published."""
        words = self.rows.select_dtypes(exclude="number")
        levels = words.nunique()
        return self.rows.shape[1] - len(levels) + int(levels.where(levels > 2, 1).sum())

    def section(self, name: str) -> dict[str, Any]:
        """Return what a policy says of a column."""
        column = self.rows[name]
        if column.dtype == object:
            return {"kind": "category", "categories": sorted(column.unique())}
        low, high = float(column.min()), float(column.max())
        if self._is_few(column):
            return {"kind": "integer", "bounds": [low, high]}
        width = 0.5 * (_WIDER - 1) * (high - low)
        return {"kind": "integer" if column.dtype.kind == "i" else "continuous", "bounds": [low - width, high + width]}

    def domain(self, name: str) -> dict[str, Any]:
        """Return the same for dpmm, with few whole numbers as categories."""
        section = self.section(name)
        if "categories" in section:
            return {"categories": section["categories"]}
        low, high = section["bounds"]
        if self._is_few(self.rows[name]):
            return {"categories": [str(each) for each in range(int(low), int(high) + 1)]}
        return {"lower": low, "upper": high}

    @staticmethod
    def _is_few(column: pd.Series[Any]) -> bool:
        return column.dtype.kind == "i" and float(column.max() - column.min()) < _FEW


def tables() -> Iterator[Table]:
    """Yield the public tables that are at hand, as far as they have rows enough at mu = 3."""
    yield Table("airfoil", pd.read_csv(_DATA / "airfoil/airfoil.csv"), "scaled_sound_pressure_level_db")
    yield Table("sachs", pd.read_csv(_DATA / "sachs/sachs.csv"))
    house = pd.read_csv(_DATA / "congress_les/les_house_93_102_long.csv")
    yield Table("house", house[["congress", "district", "dem", "majority", "les"]].dropna(), "les")
    adult = pd.read_parquet(_DATA / "adult/adult.parquet").drop(columns=["split", "fnlwgt"], errors="ignore")
    yield Table("adult", adult, "income")
    yield Table("diabetes", load_diabetes(as_frame=True, scaled=False).frame.astype({"sex": int, "age": int}), "target")
    try:
        from statsmodels import datasets
    except ImportError:
        return
    fair = datasets.fair.load_pandas().data
    yield Table("fair", fair, "affairs")
    yield Table("randhie", datasets.randhie.load_pandas().data, "mdvis")
    yield Table("anes96", datasets.anes96.load_pandas().data.drop(columns="logpopul"), "vote")


def tidied(table: Table) -> Table:
    """Return the table with whole numbers as integers, and words as such."""
    rows = table.rows.copy()
    for name in rows:
        if rows[name].dtype.kind not in "if":
            rows[name] = rows[name].astype(str).astype(object)
        elif (rows[name] % 1 == 0).all():
            rows[name] = rows[name].astype("int64")
    return Table(table.name, rows.reset_index(drop=True), table.target)


Ends = dict[str, NDArray[np.float64]]


def ours(table: Table, mu: float, seed: int, n_rows: int) -> tuple[pd.DataFrame, Ends]:
    """Return rows from a release of the table, and the ends of the cells of its histograms."""
    policy = Policy.model_validate(
        {
            "dataset": {"name": table.name},
            "privacy": {"scale": "scores", "unit": "row", "mu": mu},
            "columns": {name: table.section(name) for name in table.rows},
        }
    )
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        os.environ["DPGRAPH_HOME"] = str(place / "home")
        publish(table.rows, policy, out=place / "t.tar", key=Ed25519PrivateKey.generate())
        with open_bundle(place / "t.tar", UnsafeTrustAnyone()) as bundle:
            write_synthetic(bundle, place / "rows.parquet", n_rows, seed)
            ends = {margin.name: margin.edges for margin in bundle.margins()}
        return as_in(table, pd.read_parquet(place / "rows.parquet")), ends


def theirs(table: Table, method: str, mu: float, seed: int, n_rows: int, python: str, limit: float) -> pd.DataFrame:
    """Return rows by dpmm, which another Python runs."""
    rows = table.rows.copy()
    for name in rows:
        if "categories" in table.domain(name):
            rows[name] = rows[name].astype(str)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        rows.to_parquet(place / "table.parquet")
        (place / "domain.json").write_text(json.dumps({name: table.domain(name) for name in rows}))
        words = [method, place / "table.parquet", place / "domain.json", mu, seed, n_rows, place / "rows.parquet"]
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        subprocess.run(
            [python, str(_PEERS), *map(str, words)], check=True, timeout=limit, env=environment, capture_output=True
        )
        return as_in(table, pd.read_parquet(place / "rows.parquet"))


def as_in(table: Table, rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows with the columns and the types of the table."""
    return pd.DataFrame(
        {
            name: rows[name].astype(str)
            if pd.api.types.is_object_dtype(dtype)
            else pd.to_numeric(rows[name].astype(str))
            for name, dtype in table.rows.dtypes.items()
        }
    )


def errors(table: Table, rows: pd.DataFrame, ends: Ends) -> dict[str, float]:
    """Return how far rows are from the table; `ks_cells` at the ends of cells alone, where there are any."""
    clean, drawn = indicators(table.rows, table), indicators(rows, table)
    pairs = np.triu_indices(clean.shape[1], 1)
    sources = np.array([name.split("=")[0] for name in clean.columns])
    apart = sources[pairs[0]] != sources[pairs[1]]
    found = {}
    for method, change in _SCALES.items():
        one, other = change(clean), change(drawn)
        with np.errstate(invalid="ignore", divide="ignore"):
            missed = np.abs(np.nan_to_num(np.corrcoef(one.T)) - np.nan_to_num(np.corrcoef(other.T)))[pairs][apart]
        found |= {method: float(np.median(missed)), f"{method}_most": float(missed.max())}
    numbers = list(table.rows.select_dtypes("number"))
    distances = {name: distance(table.rows[name], rows[name]) for name in table.rows}
    found |= {"ks": float(np.mean([*distances.values()])), "ks_most": max(distances.values())}
    found["ks_numbers"] = float(np.mean([distances[name] for name in numbers]))
    if ends:
        cells = [distance(table.rows[name], rows[name], ends.get(name)) for name in numbers]
        found |= {"ks_cells": float(np.mean(cells)), "ks_cells_most": max(cells)}
    return found


def indicators(rows: pd.DataFrame, table: Table) -> pd.DataFrame:
    """Return numbers, and a column of 0 and 1 for each frequent level."""
    parts = dict[str, Any]()
    for name, column in table.rows.items():
        if column.dtype != object:
            parts[str(name)] = rows[name].to_numpy(dtype=float)
            continue
        shares = column.value_counts(normalize=True)
        for level in shares.index[shares >= _LEAST_SHARE]:
            parts[f"{name}={level}"] = (rows[name] == level).to_numpy(dtype=float)
    return pd.DataFrame(parts)


def distance(clean: pd.Series[Any], drawn: pd.Series[Any], at: NDArray[np.float64] | None = None) -> float:
    """Return the Kolmogorov distance, at certain points or at all; of words, over the levels by the alphabet."""
    if clean.dtype == object:
        levels = sorted(clean.unique())
        one, other = (each.value_counts(normalize=True).reindex(levels, fill_value=0.0) for each in (clean, drawn))
        return float(np.abs(np.cumsum(one.to_numpy() - other.to_numpy())).max())
    one, other = np.sort(clean.to_numpy(dtype=float)), np.sort(drawn.to_numpy(dtype=float))
    side: Literal["left", "right"] = "right" if at is None else "left"  # a cell ends before the next one begins
    at = np.concatenate([one, other]) if at is None else at
    gap = np.searchsorted(one, at, side) / len(one) - np.searchsorted(other, at, side) / len(other)
    return float(np.abs(gap).max(initial=0.0))


def loss(train: pd.DataFrame, test: pd.DataFrame, target: str) -> float:
    """Return the loss on test rows of gradient boosting: log loss, or squared error over the variance."""
    inputs = train.drop(columns=target)
    words = list(inputs.select_dtypes(exclude="number"))
    encoder = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    prepare = make_column_transformer((encoder, words), remainder="passthrough")
    is_class = test[target].nunique() == 2
    model: Any = HistGradientBoostingClassifier if is_class else HistGradientBoostingRegressor
    fitted = make_pipeline(prepare, model(random_state=0, max_iter=100)).fit(inputs, train[target])
    if not is_class:
        return float(mean_squared_error(test[target], fitted.predict(test.drop(columns=target))) / test[target].var())
    labels = sorted(test[target].unique())
    shares = np.full((len(test), 2), 1e-3)
    for place, label in enumerate(fitted.classes_):
        shares[:, labels.index(label)] += fitted.predict_proba(test.drop(columns=target))[:, place]
    return float(log_loss(test[target], shares / shares.sum(axis=1, keepdims=True), labels=labels))


def main() -> None:
    """Print a line for each table, mu and method."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", help="a Python that has dpmm")
    parser.add_argument("--methods", nargs="*", default=["mst", "mst-tree", "aim"], help="of dpmm")
    parser.add_argument("--mu", nargs="+", type=float, default=[1.0, 3.0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--tables", nargs="*", help="all by default")
    parser.add_argument("--limit", type=float, default=1200.0, help="seconds for each run of a peer")
    parser.add_argument("--models", action="store_true", help="train models instead of measuring correlations")
    given = parser.parse_args()

    methods = ["ours", *(given.methods if given.peers else [])]
    for table in map(tidied, tables()):
        if given.tables and table.name not in given.tables:
            continue
        for mu in given.mu:
            n, p = len(table.rows), table.n_columns
            print(
                f"{table.name}: {n} rows, {p} published columns, mu = {mu:g}, n mu / p = {n * mu / p:.0f}", flush=True
            )
            for method in methods:
                report(table, method, mu, given)


def report(table: Table, method: str, mu: float, given: argparse.Namespace) -> None:
    """Print the mean of what is measured over seeds."""
    found, began = [], time.perf_counter()
    for seed in range(given.seeds):
        whole, test = table, pd.DataFrame()
        if given.models:
            if table.target is None:
                return
            shuffled = table.rows.sample(frac=1.0, random_state=seed)
            cut = 2 * len(shuffled) // 3
            whole, test = Table(table.name, shuffled[:cut].reset_index(drop=True), table.target), shuffled[cut:]
        n_rows = len(whole.rows) if given.models else min(10 * len(whole.rows), _MOST_ROWS)
        try:
            if method == "ours":
                rows, ends = ours(whole, mu, seed, n_rows)
            else:
                ends = {}
                rows = theirs(whole, method, mu, seed, n_rows, given.peers, given.limit)
        except (subprocess.SubprocessError, OSError) as error:
            said = (getattr(error, "stderr", None) or b"").decode(errors="replace").strip().splitlines()[-1:]
            print(f"  {method:8}  failed: {type(error).__name__} {' '.join(said)[:150]}", flush=True)
            return
        if given.models:
            target = str(table.target)
            found.append({"loss": loss(rows, test, target), "clean": loss(whole.rows, test, target)})
        else:
            found.append(errors(table, rows, ends))
    means = pd.DataFrame(found).mean()
    figures = "  ".join(f"{name} {value:.4f}" for name, value in means.items())
    seconds = (time.perf_counter() - began) / given.seeds
    print(f"  {method:8}  {figures}  ({seconds:.0f} s each)", flush=True)


if __name__ == "__main__":
    main()
