"""Tables 1 and 2: the distance of private graphical lassos from the one without noise, all at the penalty 0.001.

The noise is drawn in floating point, as the paper's is; two of the mechanisms are not private (`printed_forms.py`).
Where the problem with noise has no solution at that penalty, the smallest penalty that has one is measured instead.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dp_learn import graphical_lasso, smallest_solvable_alpha
from dp_learn.glasso.problem import make_problem
from dp_learn.glasso.solving import solve
from printed_forms import insecure_output_perturbation, insecure_wishart_pure
from reproduction.pieces import Piece
from reproduction.setting import Setting, seed
from reproduction.simulation import Floats, into_the_ball, symmetric_noise
from reproduction.tables import markdown_table, number, short

PENALTY, DELTA, N_COLUMNS = 0.001, 1e-4, 400
EPSILONS = (0.5, 1.0, 1.5)
TABLES = {
    "synthetic_r0.5": "simulated, n = 0.5 d",
    "synthetic_r1.0": "simulated, n = d",
    "synthetic_r1.5": "simulated, n = 1.5 d",
    "colon": "colon",
    "parkinsons": "like Parkinson's",
}
MECHANISMS = (
    ("pure", "wishart"), ("pure", "output"), ("pure", "laplace"),
    ("approximate", "wishart"), ("approximate", "sulq"), ("approximate", "gaussian"),
)  # fmt: skip
PRINTED = Path(__file__).parents[1] / "printed" / "wang18_errors.csv"


def _jobs(setting: Setting) -> Iterator[tuple[str, int, str]]:
    tables = [table for table in TABLES if table != "colon" or setting.has("colon")]
    tables = ["parkinsons"] if setting.quick else tables  # the others take minutes
    return ((table, index, str(setting.data)) for table in tables for index in setting.repetitions(2, 2))


def _measure(table: str, repetition: int, data: str) -> list[dict[str, Any]]:
    """Return the distances of one table of rows for every mechanism and epsilon."""
    rng = np.random.default_rng(seed("wang18_errors", table, repetition))
    rows = into_the_ball(rows_of(table, Path(data), rng))
    n, d = rows.shape
    sample = rows.T @ rows / n
    clean = graphical_lasso(sample, PENALTY, solver="admm", tol=1e-4, max_iter=1000).precision
    size = float(np.linalg.norm(clean))

    records = []
    for epsilon in EPSILONS:
        for guarantee, mechanism in MECHANISMS:
            record: dict[str, Any] = {
                "guarantee": guarantee,
                "mechanism": mechanism,
                "epsilon": epsilon,
                "table": table,
            }
            record |= _lemma_5(sample, clean)
            if mechanism == "output":
                private = insecure_output_perturbation(clean, n, epsilon, PENALTY, rng)
                records.append(record | {"error": float(np.linalg.norm(private - clean)) / size})
                continue
            noise = noise_of(mechanism, guarantee, n, d, epsilon, rng)
            record["noise_over_clean"] = float(np.linalg.norm(noise)) / size
            solution = solve(make_problem(sample + noise, PENALTY), solver="admm", tol=1e-3, max_iter=1000)
            if solution is None:
                least = smallest_solvable_alpha(sample + noise) if repetition == 0 else np.nan
                records.append(record | {"solved": 0.0, "least": least})
                continue
            error = float(np.linalg.norm(solution.precision - clean))
            largest = max(np.linalg.norm(solution.precision, 2), np.linalg.norm(clean, 2))
            bound = float(largest**2 * np.linalg.norm(noise))
            records.append(record | {"solved": 1.0, "error": error / size, "bound_over_error": bound / error})
    return records


def rows_of(table: str, data: Path, rng: np.random.Generator) -> Floats:
    """Return the rows of a table, columns standardised where the paper normalises them."""
    if table.startswith("synthetic"):
        sparse = (rng.random((N_COLUMNS, N_COLUMNS)) < 0.01) * rng.choice([-1.0, 1.0], (N_COLUMNS, N_COLUMNS))
        np.fill_diagonal(sparse, 1.0)
        n = round(float(table.removeprefix("synthetic_r")) * N_COLUMNS)
        solved: Floats = np.linalg.solve(sparse.T, rng.normal(size=(N_COLUMNS, n))).T
        return solved
    if table == "colon":
        rows = pd.read_csv(data / "colon" / "colon.csv").drop(columns="class").to_numpy(dtype=float)[:, :300]
    else:
        rows = _like_parkinsons(rng)
    standardised: Floats = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    return standardised


def _like_parkinsons(rng: np.random.Generator) -> Floats:
    """Return 192 x 22 rows: skewed measures in groups that nearly repeat each other, as those of one recording do.

    The table itself is not in $DPGRAPH_DATA. This one has its size, and groups of columns correlated above 0.9.
    """
    groups = np.repeat(np.arange(5), (3, 5, 6, 4, 4))
    common = rng.normal(size=(192, 1)) * 0.5 + rng.normal(size=(192, 5))
    return np.exp(0.6 * common[:, groups] + 0.15 * rng.normal(size=(192, 22)))


def noise_of(mechanism: str, guarantee: str, n: int, d: int, epsilon: float, rng: np.random.Generator) -> Floats:
    """Return the noise that theorems 3 to 6 add to S, and that of Blum et al. (2005)."""
    if mechanism == "laplace":
        upper = np.triu(rng.laplace(scale=2 * d / (n * epsilon), size=(d, d)))
        laplace: Floats = upper + np.triu(upper, 1).T
        return laplace
    if mechanism == "gaussian":
        return symmetric_noise(d, math.sqrt(2 * math.log(1.25 / DELTA)) / (n * epsilon), rng)
    if mechanism == "sulq":
        return symmetric_noise(d, 2 * d * math.sqrt(math.log(d / DELTA)) / (n * epsilon), rng)
    if guarantee == "pure":
        return insecure_wishart_pure(np.zeros((d, d)), n, epsilon, rng)
    m = d + math.ceil(14 / epsilon**2 * math.log(4 / DELTA))  # stated for epsilon below 1
    draws = rng.normal(size=(m, d)) / math.sqrt(n)
    wishart: Floats = draws.T @ draws
    return wishart


def _lemma_5(sample: Floats, clean: Floats) -> dict[str, float]:
    """Return the extreme eigenvalues of the clean estimate over the bounds of lemma 5: at least 1, and at most 1."""
    d = len(sample)
    lowest = 1.0 / (np.linalg.norm(sample, 2) + PENALTY * d)
    highest = (d - lowest * np.trace(sample)) / PENALTY
    eigenvalues = np.linalg.eigvalsh(clean)
    return {"least_over_alpha": float(eigenvalues[0] / lowest), "largest_over_beta": float(eigenvalues[-1] / highest)}


def _describe(cells: pd.DataFrame) -> Mapping[str, Any]:
    printed = pd.read_csv(PRINTED).rename(columns={"dataset": "table", "relative_error": "printed"})
    keys = ["guarantee", "mechanism", "epsilon", "table"]
    ours = cells.pivot_table(index=keys, columns="measure", values="mean").join(printed.set_index(keys)["printed"])
    tables = {f"table_{guarantee}": _table(ours, guarantee) for guarantee in ("pure", "approximate")}

    wishart = ours.query("mechanism == 'wishart' and table != 'parkinsons' and printed < 1")
    unsolved = ours.query("solved == 0 and mechanism != 'sulq' and table != 'parkinsons'")
    output = ours.query("mechanism == 'output'")["error"]
    laplace = ours.query("mechanism == 'laplace' and table != 'parkinsons'")
    ratio = laplace["noise_over_clean"] / laplace["printed"]
    return {
        **tables,
        "wishart_apart": f"{(wishart['error'] - wishart['printed']).abs().max():.3f}",
        "least_lowest": short(unsolved["least"].min() / PENALTY),
        "least_highest": short(unsolved["least"].max() / PENALTY),
        "output_lowest": short(output.min()),
        "output_highest": short(output.max()),
        "bound_lowest": short(ours["bound_over_error"].min()),
        "bound_highest": short(ours["bound_over_error"].max()),
        "laplace_lowest": short(ratio.min()),
        "laplace_highest": short(ratio.max()),
        "lemma_5_least": f"{ours['least_over_alpha'].min():.2f}",
        "lemma_5_largest": f"{ours['largest_over_beta'].max():.2g}",
    }


def _table(ours: pd.DataFrame, guarantee: str) -> str:
    rows = []
    for (_, mechanism, epsilon, table), cell in ours[ours.index.get_level_values("guarantee") == guarantee].iterrows():
        found = number(cell["error"], 4) if cell.get("error") < 200 else short(cell["error"])
        if cell.get("solved") == 0.0:
            found = f"no solution below {short(cell['least'])}"
        theirs = "NA (above 200)" if np.isnan(cell["printed"]) else f"{cell['printed']:g}"
        rows.append([TABLES[table], mechanism, f"{epsilon:g}", found, theirs])
    order = list(TABLES.values())
    rows.sort(key=lambda row: (order.index(row[0]), row[1], row[2]))
    return markdown_table(["table", "noise", "epsilon", "ours", "printed"], rows, left=2)


PIECE = Piece("wang18_errors", ("guarantee", "mechanism", "epsilon", "table"), _jobs, _measure, _describe)
