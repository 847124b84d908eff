"""Table 1(b) through the commands: 1000 columns, 99 % zeros, 10,000 rows, 20 dB, from a file to a graph.

Not in a quick run. Seconds are those of the processor, each command a process of its own.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from reproduction.pieces import Piece
from reproduction.rules import above, area_under_curve
from reproduction.setting import Setting, seed
from reproduction.simulation import gaussian_rows, noise_deviation, random_precision
from reproduction.tables import markdown_table, number, short

N_COLUMNS, N_ROWS, SPARSITY, SNR_DB = 1000, 10_000, 0.99, "20"
FARTHEST = 6.0  # bounds, in standard deviations of all entries
STEPS = {
    "generate": "draw the rows and write them (pandas would do)",
    "publish": "`dp-publish big.parquet`",
    "verify": "`dp-bundle verify big.bundle.tar`",
    "learn": "`dp-learn big.bundle.tar`",
}


def _jobs(setting: Setting) -> Iterator[tuple[()]]:
    return iter([] if setting.quick else [()])


def _measure() -> list[dict[str, Any]]:
    records = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        environment = {**os.environ, "DPGRAPH_HOME": str(folder / "home")}
        _run(["dp-bundle", "keys", "new"], folder, environment)
        start = time.process_time()
        truth = _write_table(folder)
        records.append({"step": "generate", "processor": time.process_time() - start})
        words = {
            "publish": ["dp-publish", "big.parquet"],
            "verify": ["dp-bundle", "verify", "big.bundle.tar"],
            "learn": ["dp-learn", "big.bundle.tar", "--out", "found"],
        }
        for step, command in words.items():
            records.append({"step": step, "processor": _run(command, folder, environment)})
        records.append({"step": "result", **_judge(folder / "found", truth)})
    return records


def _write_table(folder: Path) -> NDArray[np.bool_]:
    """Write the table and its policy, and return which pairs are linked."""
    rng = np.random.default_rng(seed("guo_commands"))
    theta = random_precision(N_COLUMNS, SPARSITY, rng)
    rows = gaussian_rows(N_ROWS, theta, rng)
    names = [f"c{index}" for index in range(N_COLUMNS)]
    pq.write_table(pa.table(list(np.ascontiguousarray(rows.T)), names=names), folder / "big.parquet")
    bound = float(FARTHEST * rows.std())
    mu = 2.0 * bound / noise_deviation(rows, SNR_DB)  # of a cell: the width of its bounds over sigma
    columns = "".join(f"[columns.{name}]\nbounds = [{-bound!r}, {bound!r}]\n" for name in names)
    (folder / "big.policy.toml").write_text(f'[privacy]\nunit = "cell"\nmu = {mu!r}\n{columns}', encoding="utf-8")
    return theta != 0.0


def _run(words: list[str], folder: Path, environment: dict[str, str]) -> float:
    """Run a command, and return its seconds of the processor."""
    program = str(Path(sys.executable).with_name(words[0]))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([program, *words[1:]], cwd=folder, env=environment, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _judge(found: Path, linked: NDArray[np.bool_]) -> dict[str, float]:
    """Return how well the files of dp-learn rank the pairs; ranking.csv lists the surest, others have evidence 0."""
    truth = above(linked)
    precision = pd.read_csv(found / "precision.csv", index_col=0).to_numpy()
    ranking = pd.read_csv(found / "ranking.csv")
    ends = [ranking[name].str.removeprefix("c").astype(int).to_numpy() for name in ("source", "target")]
    evidence = np.zeros(linked.shape)
    evidence[ends[0], ends[1]] = evidence[ends[1], ends[0]] = ranking["evidence"]
    edges = above(precision) != 0.0
    return {
        "auc_ranking": area_under_curve(truth, evidence),
        "auc_precision": area_under_curve(truth, np.abs(precision)),
        "edges": edges.sum(),
        "true_edges": truth.sum(),
        "hits": (edges & truth).sum(),
    }


def _describe(cells: pd.DataFrame) -> Mapping[str, Any]:
    table = cells.set_index(["step", "measure"])["mean"]
    rows = [[text, number(table[(step, "processor")], 1)] for step, text in STEPS.items()]
    total = sum(table[(step, "processor")] for step in STEPS)
    rows.append(["together", number(total, 1)])
    result = table["result"]
    return {
        "table": markdown_table(["step", "seconds of the processor"], rows),
        "processor": number(total, 0),
        "auc_ranking": number(result["auc_ranking"], 4),
        "auc_precision": number(result["auc_precision"], 4),
        **{name: short(result[name]) for name in ("edges", "true_edges", "hits")},
    }


PIECE = Piece("guo_commands", ("step",), _jobs, _measure, _describe)
