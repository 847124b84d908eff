"""Thousands of changed files: whatever the bytes, they are refused or read as they say, by our errors, for little."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.parametrize("times", [1, pytest.param(20, marks=pytest.mark.long)])
@pytest.mark.parametrize(("target", "count"), [("archive", 2000), ("manifest", 2000), ("member", 1000)])
def test_changed_files_are_refused_or_sound(target: str, count: int, times: int) -> None:
    """No changed file is accepted that contradicts itself, ends the process, or takes a second or 256 megabytes."""
    command = [sys.executable, "-m", "tests.fuzz.run", target, str(count * times)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert not done.returncode, done.stderr[-3000:]
    tally = json.loads(done.stdout)
    assert tally["wrong"] == {}
    assert tally["outcomes"]["refused"] > 50
    assert tally["outcomes"]["unchanged"] > 5
