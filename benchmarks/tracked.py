"""Ratios against peers that are kept from commit to commit: `make bench`, about a minute.

    python benchmarks/tracked.py            measure, append to docs/benchmarks/history.csv, write the page
    python benchmarks/tracked.py --page     the page alone, from the stored figures

Every ratio is ours over a peer's from one run, measured in turn on one thread, in processor seconds: below 1, ours is
faster. Peers that are not installed are left out; R's package glasso adds its own.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from itertools import cycle
from pathlib import Path

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))  # before numpy

import numpy as np
import pandas as pd

from dp_learn.glasso.problem import make_problem
from dp_publish.sampling.gaussian import sample_discrete_gaussian, sample_rounded_gaussian
from release import NAMES, publish_in_turn
from reproduction.figures import new_figure, save
from reproduction.tables import markdown_table, short
from sampling import N_VALUES_OPENDP, median_seconds, opendp_mechanism
from solver_problems import choose_alpha, sample_covariance
from solver_runners import Runner, our_runner, r_runner, r_version, run_scikit_learn
from solvers import LOOSEST, find_tolerance

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "benchmarks"
HISTORY = FOLDER / "history.csv"
PROBLEMS = (("chain", 100), ("random", 200))
SIGMA, N_VALUES, N_ROWS, REPETITIONS = 30.0, 1 << 20, 500_000, 3
Row = tuple[str, str, float, float]  # what, the peer, our seconds, the peer's


def compare_solvers() -> Iterator[Row]:
    """Yield the times of the graphical lasso, everybody to the same certified gap."""
    peers: dict[str, tuple[Runner, float]] = {
        f"scikit-learn {version('scikit-learn')}": (run_scikit_learn, LOOSEST["scikit-learn"])
    }
    with contextlib.suppress(ImportError):
        peers[f"R's glasso {r_version('glasso')}"] = r_runner("glasso"), 0.1
    for kind, p in PROBLEMS:
        covariance = sample_covariance(kind, p, 4 * p)
        alpha = choose_alpha(covariance)
        problem = make_problem(covariance, alpha, penalize_diagonal=False)
        for peer, (runner, loosest) in peers.items():
            found = find_tolerance(problem, runner, loosest)
            if not found.certified:
                continue
            ours = statistics.median(our_runner("cd")(covariance, alpha, 0.0)[2] for _ in range(REPETITIONS))
            theirs = statistics.median(runner(covariance, alpha, found.tolerance)[2] for _ in range(REPETITIONS))
            yield f"graphical lasso, {kind}, {p} columns", peer, ours, theirs


def processor_seconds(draw: Callable[[], object]) -> float:
    """Return the median of a call's processor seconds, after a first call."""
    return median_seconds(draw, REPETITIONS, time.process_time)


def compare_samplers() -> Iterator[Row]:
    """Yield the times of a million values of noise; numpy's floating-point normal is not safe to publish."""
    rng = np.random.default_rng()
    peers: list[tuple[str, Callable[[], object], int]] = [
        (f"numpy {version('numpy')}, unsafe", lambda: rng.normal(0.0, SIGMA, N_VALUES), N_VALUES)
    ]
    mechanism = opendp_mechanism(SIGMA)
    if mechanism is not None:
        peers.append((f"OpenDP {version('opendp')}", mechanism, N_VALUES_OPENDP))
    for name, sample in (("discrete", sample_discrete_gaussian), ("rounded", sample_rounded_gaussian)):
        for peer, draw, n_values in peers:
            ours = processor_seconds(lambda sample=sample: sample(SIGMA, N_VALUES))
            yield f"{name} Gaussian noise, a million values", peer, ours, processor_seconds(draw) * N_VALUES / n_values


def compare_publishing() -> Iterator[Row]:
    """Yield the times of a release of rows, as commands, and of the pandas script that a user would write."""
    with tempfile.TemporaryDirectory() as name:
        ours, theirs = (
            statistics.median(cpu for _, cpu, _ in times) for times in publish_in_turn(Path(name), N_ROWS, REPETITIONS)
        )
        yield f"publish {N_ROWS:,} rows x {len(NAMES)}", f"pandas {version('pandas')}, unsafe", ours, theirs


def append() -> None:
    """Measure everything, and add it to the history under this commit."""
    words = ["git", "log", "-1", "--format=%h %cs"]
    commit, day = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    rows = []
    for compared in (compare_solvers, compare_samplers, compare_publishing):
        for what, peer, ours, theirs in compared():
            rows.append([commit, day, what, peer, ours, theirs, ours / theirs])
            print(f"{what}: {ours:.4g} s, {peer}: {theirs:.4g} s, ratio {ours / theirs:.3g}", flush=True)
    new = pd.DataFrame(rows, columns=["commit", "day", "what", "peer", "ours", "theirs", "ratio"])
    FOLDER.mkdir(exist_ok=True)
    before = pd.read_csv(HISTORY) if HISTORY.exists() else new[:0]
    before = before[before["commit"] != commit]
    pd.concat([each for each in (before, new) if len(each)]).to_csv(HISTORY, index=False, float_format="%.4g")


def write_page() -> None:
    """Write the page and its picture from the history."""
    history = pd.read_csv(HISTORY)
    commits = list(dict.fromkeys(history["commit"]))
    places = {commit: index for index, commit in enumerate(commits)}
    figure = new_figure(9.0, 4.2)
    axes = figure.subplots()
    rows = []
    groups = history.groupby(["what", "peer"], sort=False)
    for ((what, peer), each), marker in zip(groups, cycle("osd^vP*X<"), strict=False):
        name = peer.split()[0].rstrip(",") if not peer.startswith("R's") else peer
        axes.plot(each["commit"].map(places), each["ratio"], "-", marker=marker, ms=6, label=f"{what} / {name}")
        last = each.iloc[-1]
        rows.append([what, peer, *(short(last[column]) for column in ("ours", "theirs", "ratio")), last["commit"]])
    axes.axhline(1.0, color="black", lw=0.8)
    axes.set_xticks(range(len(commits)), commits)
    axes.set(yscale="log", ylabel="our time / the peer's", xlabel="commit", xlim=(-0.5, len(commits) - 0.5))
    figure.legend(loc="outside right center", fontsize=7)
    save(figure, FOLDER / "history.png")
    table = markdown_table(["what", "peer", "ours, s", "peer's, s", "ratio", "commit"], rows, left=2)
    (FOLDER / "index.md").write_text(PAGE.format(table=table, n_commits=len(commits)), encoding="utf-8")


PAGE = """# Speed beside peers, from commit to commit

`make bench` measures ours and a peer's in turn, on one thread, in processor seconds, and appends the ratios to
`docs/benchmarks/history.csv`. Below 1, ours is faster. It takes about a minute. Compare ratios, not seconds:
machines differ.

<!-- not run: it takes a minute -->
```console
$ make bench
```

```{{image}} history.png
:alt: Ratio of our time to the peer's by commit, on a logarithmic scale.
:width: 100%
```

Solvers reach the same certified duality gap of 1e-6 for each column. numpy's normal noise, and the script with pandas
that uses it, are not safe to publish: floating-point noise leaks, and there is no ledger, signature or manifest. Peers
that are not installed are left out. The last figures (commits so far: {n_commits}):

{table}

Larger problems and more peers: `python benchmarks/solvers.py`, `sampling.py` and `release.py`, in the same folder.
"""

if __name__ == "__main__":
    if "--page" not in sys.argv:
        append()
    write_page()
