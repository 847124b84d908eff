"""The demo runs as the README says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_demo_prints_its_table_and_leaves_pictures(tmp_path: Path) -> None:
    """The demo finishes, prints a row for every release, and leaves a picture for each."""
    finished = subprocess.run(
        [sys.executable, ROOT / "examples" / "demo.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.count("20 dB, cell") == 2
    assert len(list((tmp_path / "demo").glob("*.graph/graph.png"))) == finished.stdout.count(", cell")
