"""The whole path on one made-up table: publish it by one command, learn from the file, draw rows, build a portal.

Run it with `make demo`. It keeps everything, keys included, under `demo/`, calls the commands as a user does, and opens
the portal's page where it runs on a terminal.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
import webbrowser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import norm

ROOT = Path("demo")
N_ROWS, SEED, SHOWN = 5000, 7, 3
NUMBERS = ["age", "hours_a_week", "income", "bmi", "blood_pressure"]


def make_people() -> pd.DataFrame:
    """Return a made-up health survey of words, numbers, dates and gaps."""
    rng = np.random.default_rng(SEED)
    age = rng.normal(47, 16, N_ROWS).clip(18, 95).round()
    own = rng.standard_normal((N_ROWS, 6))
    studied = own[:, 0] - (age - 47) / 60
    school = np.select([studied > 0.8, studied > -0.5], ["university", "secondary"], "primary")
    hours = (38 + 6 * own[:, 1] - 0.25 * (age - 60).clip(0)).clip(0).round(1)
    income = np.exp(9.6 + 0.55 * (school == "university") + 0.02 * (hours - 38) + 0.5 * own[:, 2]).round()
    smokes = own[:, 3] - 0.5 * (school == "university") > 0.6
    bmi = (25 + 0.08 * (age - 47) - 0.75 * smokes + 3.5 * own[:, 4]).round(1)
    pressure = (118 + 0.45 * (age - 47) + 1.1 * (bmi - 25) + 9 * own[:, 5]).round()
    days = pd.to_timedelta(rng.integers(0, 300, N_ROWS), unit="D")
    return pd.DataFrame(
        {
            "age": age.astype(int),
            "school": school,
            "hours_a_week": hours,
            "income": np.where(rng.random(N_ROWS) < 0.12, np.nan, income),
            "smokes": np.where(smokes, "yes", "no"),
            "bmi": bmi,
            "blood_pressure": pressure,
            "seen": (pd.Timestamp("2025-01-02") + days).strftime("%Y-%m-%d"),
        }
    )


def run(*command: str) -> dict[str, Any]:
    """Run one of the commands in the demo's folder, and return its JSON answer."""
    program = Path(sys.executable).with_name(command[0])
    finished = subprocess.run(  # noqa: S603
        [program.absolute(), *command[1:], "--json"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if finished.returncode:
        sys.exit(f"{' '.join(command)}\n{finished.stderr}")
    found: dict[str, Any] = json.loads(finished.stdout)
    return found


def clean_partial_correlations(people: pd.DataFrame) -> pd.DataFrame:
    """Return what the table itself shows of its numbers, given all else: of incomes by ranks, as they are published."""
    seen = pd.to_datetime(people["seen"]).astype("int64")
    income = pd.Series(norm.ppf((people["income"].rank() - 0.5) / people["income"].count())).fillna(0.0)
    words = pd.get_dummies(people[["school", "smokes"]], drop_first=True)
    numbers = people[NUMBERS].assign(income=income, seen=seen, no_income=people["income"].isna())
    precision = np.linalg.inv(np.corrcoef(numbers.join(words).to_numpy(float).T))
    roots = np.sqrt(np.diagonal(precision))
    partial = -precision / np.outer(roots, roots)
    return pd.DataFrame(partial[: len(NUMBERS), : len(NUMBERS)], NUMBERS, NUMBERS)


def compare_links(people: pd.DataFrame) -> list[str]:
    """Return a line for each of the strongest links of numbers: as it was learned, and in the table itself."""
    clean, edges = clean_partial_correlations(people), pd.read_csv(ROOT / "people.graph" / "edges.csv")
    edges = edges[edges["source"].isin(NUMBERS) & edges["target"].isin(NUMBERS) & edges["ci_low"].notna()]
    strongest = edges.sort_values("partial_correlation", key=np.abs, ascending=False).head(SHOWN)
    return [
        f"  {edge.source} -- {edge.target}: {edge.partial_correlation:+.2f} "
        f"({edge.ci_low:+.2f} to {edge.ci_high:+.2f}); in the table itself {clean.loc[edge.source, edge.target]:+.2f}"
        for edge in strongest.itertuples()
    ]


def main() -> None:
    """Run the demo, and print nine lines."""
    shutil.rmtree(ROOT, ignore_errors=True)
    ROOT.mkdir()
    os.environ["DPGRAPH_HOME"] = str((ROOT / "state").absolute())
    people = make_people()
    people.to_csv(ROOT / "people.csv", index=False)
    print(f"1. a made-up survey: {N_ROWS:,} people, {people.shape[1]} columns of words, numbers, dates and gaps")

    published = run("dp-publish", "people.csv")["release"]
    columns, mu = len(published["columns"]), published["guarantee"]["mu"]
    print(
        f"2. dp-publish people.csv: {columns} columns, as words become several; every row protected at mu = {mu:.3g},"
    )
    right = math.ceil(1000 * norm.cdf(mu / 2)) / 10
    print(f"   of two candidates for a row, a guess picks the right one in at most {right} % of cases")
    run("dp-bundle", "verify", "people.bundle.tar")
    learned = run("dp-learn", "people.bundle.tar")
    print(f"3. dp-learn people.bundle.tar: {learned['n_edges']} links; the strongest of numbers, and in the table:")
    print(*compare_links(people), sep="\n")

    run("dp-bundle", "synthesize", "people.bundle.tar", "--out", "people.synthetic.csv")
    print("4. dp-bundle synthesize: as many synthetic rows, of nobody, in demo/people.synthetic.csv")
    run("dp-bundle", "catalog", ".", "--out", "portal")
    page = ROOT / "portal" / "index.html"
    print(f"5. dp-bundle catalog: a portal, at {page}; graph and tables are in {ROOT}/people.graph/")
    if sys.stdout.isatty():
        webbrowser.open(page.absolute().as_uri())


if __name__ == "__main__":
    main()
