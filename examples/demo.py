"""The whole path on two real tables: publish with noise, verify, learn, and compare with the clean table's graph.

Run it with `make demo`. It keeps everything, keys included, under `demo/`, and calls the commands as a user does.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.metrics import f1_score, roc_auc_score

from dp_learn import graphical_lasso
from dp_learn.pipeline.graph import partial_correlations

ROOT = Path("demo")
STRENGTHS = {"breast_cancer": (100, 10), "digits": (25, 10)}  # mu of a cell: little noise, and more

# Ranges that the measurements are known to keep to: the extremes printed in the data set's own documentation, rounded
# outwards, for the mean over a nucleus, its standard error, and the worst of the nuclei.
BREAST_CANCER_BOUNDS = {
    "radius": ([5, 30], [0, 3], [5, 40]),
    "texture": ([5, 45], [0, 5], [10, 55]),
    "perimeter": ([40, 200], [0, 25], [40, 260]),
    "area": ([100, 2600], [0, 600], [100, 4500]),
    "smoothness": ([0.05, 0.175], [0, 0.035], [0.05, 0.25]),
    "compactness": ([0, 0.4], [0, 0.15], [0, 1.1]),
    "concavity": ([0, 0.5], [0, 0.4], [0, 1.3]),
    "concave points": ([0, 0.25], [0, 0.06], [0, 0.3]),
    "symmetry": ([0.1, 0.35], [0, 0.08], [0.1, 0.7]),
    "fractal dimension": ([0.04, 0.1], [0, 0.03], [0.05, 0.25]),
}


def breast_cancer() -> tuple[pd.DataFrame, dict[str, list[float]]]:
    """Return the table and its public bounds."""
    table = load_breast_cancer(as_frame=True).data
    bounds: dict[str, list[float]] = {}
    for measure, (mean, error, worst) in BREAST_CANCER_BOUNDS.items():
        bounds |= {f"mean {measure}": mean, f"{measure} error": error, f"worst {measure}": worst}
    return table, bounds


def digits() -> tuple[pd.DataFrame, dict[str, list[float]]]:
    """Return the table of pixel counts, 0 to 16 by construction; pixels that no digit touches are left out."""
    table = load_digits(as_frame=True).data.astype(int)
    blank = ["pixel_0_0", "pixel_4_0", "pixel_4_7"]
    return table, {name: [0, 16] for name in table.columns if name not in blank}


def write_policy(path: Path, name: str, columns: list[str], bounds: dict[str, list[float]]) -> None:
    """Write the policy as a publisher would: bounds for what is published, drop for the rest."""
    lines = ["[dataset]", f'name = "{name}"', "[privacy]", 'unit = "cell"', "mu = 10.0"]
    for column in columns:
        entry = f"bounds = {bounds[column]}" if column in bounds else "drop = true"
        lines += [f"[columns.{json.dumps(column)}]", entry]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def run(*command: str) -> dict[str, object]:
    """Run one of the commands and return its JSON answer."""
    program = Path(sys.executable).with_name(command[0])
    finished = subprocess.run([program, *command[1:], "--json"], capture_output=True, text=True, check=False)  # noqa: S603
    if finished.returncode:
        sys.exit(f"{' '.join(command)}\n{finished.stderr}")
    return json.loads(finished.stdout)


def clean_partial_correlations(table: pd.DataFrame, bounds: dict[str, list[float]], alpha: float) -> pd.DataFrame:
    """Return the clean table's graph: the same estimator, penalty and clipping, without noise."""
    clipped = table[list(bounds)].clip(*np.array(list(bounds.values()), dtype=float).T, axis=1)
    solution = graphical_lasso(clipped.corr().to_numpy(), alpha)
    return pd.DataFrame(partial_correlations(solution.precision), clipped.columns, clipped.columns)


def compare(clean: pd.DataFrame, folder: Path) -> tuple[float, float, int]:
    """Return AUC and F1 of the learned edges against the clean ones, and the number of edges."""
    precision = pd.read_csv(folder / "precision.csv", index_col=0)
    learned = pd.DataFrame(partial_correlations(precision.to_numpy()), precision.index, precision.columns)
    learned = learned.reindex(index=clean.index, columns=clean.columns, fill_value=0.0)
    upper = np.triu_indices(len(clean), 1)
    truth = clean.to_numpy()[upper] != 0
    score = np.abs(learned.to_numpy()[upper])
    return roc_auc_score(truth, score), f1_score(truth, score > 0), int(np.count_nonzero(score))


def main() -> None:
    """Run the demo and print one table."""
    shutil.rmtree(ROOT, ignore_errors=True)
    ROOT.mkdir()
    os.environ["DPGRAPH_HOME"] = str(ROOT / "state")
    summary = Table(title="Edges of noisy bundles (--select ebic), against the clean table's graph at the same alpha")
    for heading in ("table", "rows x columns", "published at", "alpha", "AUC", "F1", "edges / clean", "guarantee"):
        summary.add_column(heading)
    for name, load in {"breast_cancer": breast_cancer, "digits": digits}.items():
        table, bounds = load()
        data = ROOT / f"{name}.parquet"
        table.to_parquet(data)
        write_policy(ROOT / f"{name}.policy.toml", name, list(table.columns), bounds)
        for number, mu in enumerate(STRENGTHS[name], start=1):
            bundle, folder = ROOT / f"{name}-{number}.bundle.tar", ROOT / f"{name}-{number}.graph"
            receipt = run("dp-publish", str(data), "--mu", str(mu), "--out", str(bundle))
            run("dp-bundle", "verify", str(bundle))
            found = run("dp-learn", str(bundle), "--select", "ebic", "--out", str(folder))
            alpha = float(found["alpha"])
            judged = [*found["columns"], *found["drowned_columns"]]  # but for those that others determine
            clean = clean_partial_correlations(table, {column: bounds[column] for column in judged}, alpha)
            auc, f1, n_edges = compare(clean, folder)
            size = f"{len(table)} x {len(bounds)}"
            n_clean = int(np.count_nonzero(np.triu(clean.to_numpy(), 1)))
            cells = [
                f"{alpha:.3g}",
                f"{auc:.3f}",
                f"{f1:.3f}",
                f"{n_edges} / {n_clean}",
                _guarantee(receipt["release"]),
            ]
            summary.add_row(name, size, f"mu = {mu}, cell", *cells)
    Console(width=120).print(summary)
    print(f"bundles, graphs (graph.png) and this demo's keys are under {ROOT}/")


def _guarantee(release: dict[str, object]) -> str:
    guarantee = release["guarantee"]
    return f"{guarantee['unit']}, rho = {guarantee['rho']:.3g}"


if __name__ == "__main__":
    main()
