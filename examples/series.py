"""One release a year of made-up daily counts, one graph a year, and the year in which the network changed.

Run it with `python examples/series.py`. Cases in twelve counties follow those next door. From the fourth year on two of
these borders are closed, and a new road joins two counties that had none. It keeps everything, keys included, under
`series/`, and calls the commands as a user does.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd

ROOT = Path("series")
COUNTIES = [f"county {letter}" for letter in "ABCDEFGHIJKL"]
YEARS = range(2020, 2026)
CLOSED, ROAD, FROM = ((2, 3), (8, 9)), (0, 11), 2023
POLICY = """[dataset]
name = "cases"
[privacy]
unit = "row"
release = "covariance"
mu = 2
[columns."*"]
bounds = [0, 200]
"""


def draw_year(year: int) -> pd.DataFrame:
    """Return a year of daily counts, whose logarithms have the borders of that year as their graph."""
    precision = np.eye(len(COUNTIES))
    borders = [(place, place + 1) for place in range(len(COUNTIES) - 1)]
    if year >= FROM:
        borders = [border for border in borders if border not in CLOSED] + [ROAD]
    for i, j in borders:
        precision[i, j] = precision[j, i] = -0.4
    covariance = np.linalg.inv(precision)
    deviations = np.sqrt(np.diagonal(covariance))
    rng = np.random.default_rng(year)
    rows = rng.multivariate_normal(np.zeros(len(COUNTIES)), covariance / np.outer(deviations, deviations), size=365)
    return pd.DataFrame(np.round(np.exp(4.0 + 0.35 * rows)).clip(0, 200).astype(int), columns=COUNTIES)


def run(*words: object) -> str:
    """Run a command of the package in the folder, and return what it prints."""
    module = {"dp-publish": "dp_publish", "dp-learn": "dp_learn"}[str(words[0])]
    command = [sys.executable, "-m", module, *map(str, words[1:])]
    home = {**os.environ, "DPGRAPH_HOME": str(ROOT.resolve() / "home")}
    return subprocess.run(command, cwd=ROOT, env=home, check=True, capture_output=True, text=True).stdout  # noqa: S603


def main() -> None:
    """Publish all years, learn them together, and show what changed."""
    ROOT.mkdir(exist_ok=True)
    (ROOT / "cases.policy.toml").write_text(POLICY, encoding="utf-8")
    for year in YEARS:
        draw_year(year).to_parquet(ROOT / f"{year}.parquet")
        bundle = ROOT / f"{year}.bundle.tar"
        bundle.unlink(missing_ok=True)
        run("dp-publish", f"{year}.parquet", "--policy", "cases.policy.toml", "--partition", year, "--out", bundle.name)

    print(run("dp-learn", "joint", *(f"{year}.bundle.tar" for year in YEARS), "--out", "years", "--no-report"))
    print(pd.read_csv(ROOT / "years" / "changes.csv").round(3).to_string(index=False))


if __name__ == "__main__":
    main()
