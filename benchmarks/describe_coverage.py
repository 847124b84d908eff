"""Coverage of the 95 % intervals of `dp-learn describe`, over eight tables and every kind of release.

    OPENBLAS_NUM_THREADS=1 DPGRAPH_DATA=... python benchmarks/describe_coverage.py [REPETITIONS] [ROWS]

Rows are drawn from a table with replacement, so that the table itself is the population, and its numbers are the truth.
Every repetition draws rows and noise anew, and publishes them. Bounds are those of the table.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_wine

from dp_bundle import open_bundle
from dp_bundle.trust.signing import load_private_key
from dp_bundle.trust.store import new_key_pair, private_key_path
from dp_learn.output.description import describe_columns
from dp_publish import Policy, publish

SEED = 62
RELEASES: dict[str, dict[str, Any]] = {
    "rows": {"release": "rows", "mu": 20.0},
    "levels replaced": {"release": "rows", "mu": 8.0, "unit": "cell"},
    "one round": {"release": "covariance", "mechanism": "gaussian", "mu": 2.0},
    "laplace": {"release": "covariance", "mechanism": "laplace", "epsilon": 20.0},
    "row count hidden": {"release": "covariance", "mechanism": "gaussian", "mu": 2.0, "neighbours": "add-remove"},
    "two rounds": {"release": "covariance", "mechanism": "two-round", "mu": 2.0},
}
QUANTILES = {"5 %": 0.05, "25 %": 0.25, "median": 0.5, "75 %": 0.75, "95 %": 0.95}


def tables() -> dict[str, pd.DataFrame]:
    """Return the populations: four of scikit-learn, three of numbers and levels, and one that is drawn."""
    rng = np.random.default_rng(SEED)
    adult = pd.read_parquet(Path(os.environ["DPGRAPH_DATA"]) / "adult" / "adult.parquet")
    people = pd.DataFrame(
        {"age": rng.normal(45, 12, 20_000).round(1), "school": rng.choice(["low", "mid", "high"], 20_000)}
    )
    people["smokes"] = np.where(rng.random(20_000) < np.where(people["school"] == "high", 0.15, 0.4), "yes", "no")
    people["income"] = np.exp(9.5 + 0.01 * people["age"] + rng.normal(0, 0.4, 20_000)).round()
    numbers = adult.select_dtypes("number")
    words = adult[[name for name in adult if adult[name].nunique() <= 16 and name not in numbers]]
    return {
        "iris": load_iris(as_frame=True).data,
        "wine": load_wine(as_frame=True).data.iloc[:, :8],
        "diabetes": load_diabetes(as_frame=True).data.iloc[:, [0, 2, 3, 4, 8]],
        "breast cancer": load_breast_cancer(as_frame=True).data.iloc[:, :6],
        "adult, numbers": numbers.iloc[:, :5],
        "adult, words": words.iloc[:, :3].astype("string"),
        "adult, mixed": pd.concat([numbers.iloc[:, :2], words.iloc[:, :3].astype("string")], axis=1),
        "people": people,
    }


def policy_of(table: pd.DataFrame, name: str, privacy: dict[str, Any]) -> Policy:
    """Return a policy with the bounds and the levels of the table."""
    columns: dict[str, Any] = {}
    for column in table:
        if pd.api.types.is_numeric_dtype(table[column]):
            columns[column] = {"bounds": [float(table[column].min()), float(table[column].max())]}
        else:
            columns[column] = {"kind": "category", "categories": sorted(table[column].dropna().unique().tolist())}
    privacy = {"unit": "row"} | privacy
    return Policy.model_validate({"dataset": {"name": name}, "privacy": privacy, "columns": columns})


def truth_of(table: pd.DataFrame, row: Any) -> float:
    """Return the number of the population that a line of the description is about."""
    values = table[row.column]
    if row.quantity == "share":
        return float((values == row.level).mean())
    if row.quantity in QUANTILES:
        return float(np.quantile(values, QUANTILES[row.quantity], method="inverted_cdf"))
    return float(values.mean() if row.quantity == "mean" else values.std(ddof=0))


def cover(table: pd.DataFrame, policy: Policy, n_rows: int, number: int, folder: Path) -> Iterator[tuple[str, bool]]:
    """Yield of one draw and release of a table whether each interval holds the truth, by the kind of the number."""
    drawn = table.sample(n_rows, replace=True, random_state=SEED + number).reset_index(drop=True)
    receipt = publish(drawn, policy, out=folder / "published.tar", key=load_private_key(private_key_path()))
    with open_bundle(receipt.path) as bundle:
        found = describe_columns(bundle)
    receipt.path.unlink()
    for row in found.columns.itertuples():
        if row.level != "(no value)" and not np.isnan(row.ci_low):
            kind = "quantile" if row.quantity in QUANTILES else row.quantity
            yield kind, row.ci_low <= truth_of(table, row) <= row.ci_high
    for row in found.crosstabs.itertuples():
        if not np.isnan(row.ci_low):
            truth = ((table[row.column] == row.level) & (table[row.other] == row.other_level)).mean()
            yield "two levels", row.ci_low <= truth <= row.ci_high


def main() -> None:
    """Print the coverage of each kind of number, by release and over all tables."""
    given = dict(enumerate(sys.argv))
    repetitions, n_rows = int(given.get(1, 40)), int(given.get(2, 2000))
    with tempfile.TemporaryDirectory() as folder:
        os.environ["DPGRAPH_HOME"] = f"{folder}/home"
        new_key_pair()
        for release, privacy in RELEASES.items():
            covered: dict[str, dict[str, list[bool]]] = {}
            for name, table in tables().items():
                for number in range(repetitions):
                    policy = policy_of(table, f"{name} {release} {number}", privacy)
                    for kind, holds in cover(table, policy, n_rows, number, Path(folder)):
                        covered.setdefault(kind, {}).setdefault(name, []).append(holds)
            print(release)
            for kind, each in sorted(covered.items()):
                shares = ", ".join(f"{name} {np.mean(values):.1%}" for name, values in each.items())
                print(f"  {kind:20}{np.mean([*chain(*each.values())]):8.1%}   {shares}", flush=True)


if __name__ == "__main__":
    main()
