"""The demo runs as the README says; CI runs that of the wheel, and these are for before a release."""

import re
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


@pytest.mark.long
def test_demo_finds_the_links_of_the_clean_table(tmp_path: Path) -> None:
    """It prints nine lines, with intervals that hold what the table shows, and leaves rows and a portal."""
    printed = run_example("demo.py", tmp_path)
    links = re.findall(r"[+-]0\.\d\d \((\S+) to (\S+)\); in the table itself (\S+)", printed)
    assert len(links) == 3
    assert all(float(low) - 0.02 < float(clean) < float(high) + 0.02 for low, high, clean in links), printed
    assert len(printed.splitlines()) == 9
    assert (tmp_path / "demo" / "people.synthetic.csv").is_file()
    assert (tmp_path / "demo" / "portal" / "index.html").is_file()


@pytest.mark.long
def test_series_finds_the_year_in_which_the_network_changed(tmp_path: Path) -> None:
    """The closed borders and the new road are what is said to change, between the right years."""
    run_example("series.py", tmp_path)
    changes = pd.read_csv(tmp_path / "series" / "years" / "changes.csv")
    assert set(zip(changes["from"], changes["to"], strict=True)) == {(2022, 2023)}
    pairs = {(source[-1], target[-1]) for source, target in zip(changes.source, changes.target, strict=True)}
    assert pairs >= {("C", "D"), ("I", "J"), ("A", "L")}
