"""The demo runs as the README says."""

import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

ROOT = Path(__file__).parents[2]


def run_example(name: str, folder: Path) -> str:
    """Return what an example prints, which is run in a folder."""
    command = [sys.executable, ROOT / "examples" / name]
    finished = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


@pytest.mark.slow
def test_demo_prints_its_table_and_leaves_pictures(tmp_path: Path) -> None:
    """It prints a row and leaves a picture for every release, and with little noise graphs are the clean ones."""
    printed = run_example("demo.py", tmp_path)
    little = [line.split("│") for line in printed.splitlines() if "mu = 100," in line or "mu = 25," in line]
    assert len(little) == 2
    assert all(float(cells[5]) > 0.9 and float(cells[6]) > 0.9 for cells in little), printed  # AUC and F1
    assert len(list((tmp_path / "demo").glob("*.graph/graph.png"))) == printed.count(", cell")


@pytest.mark.long
def test_series_finds_the_year_in_which_the_network_changed(tmp_path: Path) -> None:
    """The closed borders and the new road are what is said to change, between the right years."""
    run_example("series.py", tmp_path)
    changes = pd.read_csv(tmp_path / "series" / "years" / "changes.csv")
    assert set(zip(changes["from"], changes["to"], strict=True)) == {(2022, 2023)}
    pairs = {(source[-1], target[-1]) for source, target in zip(changes.source, changes.target, strict=True)}
    assert pairs >= {("C", "D"), ("I", "J"), ("A", "L")}
    assert len(pairs) <= 4
