"""Help comes at once: no command imports, before it runs, what it may not need."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dp_publish import Receipt

HEAVY = {
    "dp_accounting",
    "matplotlib",
    "networkx",
    "numba",
    "numpy",
    "pandas",
    "pyarrow",
    "pydantic",
    "scipy",
    "sklearn",
}
SCRIPT = """
import sys
from pathlib import Path
from {package}.cli import cli
cli.main(["--help"], standalone_mode=False)
print("loaded", *sorted({{name.partition(".")[0] for name in sys.modules}}))
"""
UNUSED = {"dp_accounting", "networkx", "pandas", "rich", "sklearn"}
RUN = """
import sys
from pathlib import Path
from dp_learn.cli import cli
cli.main([{bundle!r}, "--quiet", "--out", {folder!r}], standalone_mode=False)
print("loaded", *sorted({{name.partition(".")[0] for name in sys.modules}}))
"""


@pytest.mark.parametrize("package", ["dp_bundle", "dp_learn", "dp_publish"])
def test_help_loads_no_heavy_library(package: str) -> None:
    """A command's help is printed without numpy, pandas, scipy, numba and whatever else takes a while to import."""
    script = SCRIPT.format(package=package)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("Usage:")
    loaded = set(done.stdout.splitlines()[-1].split()[1:])
    assert "click" in loaded
    assert not loaded & HEAVY


def test_a_plain_run_loads_no_library_that_it_has_no_use_for(bundle: Receipt, tmp_path: Path) -> None:
    """A graph is learned and all its files written without pandas, networkx and scikit-learn: a second saved."""
    script = RUN.format(bundle=str(bundle.path), folder=str(tmp_path / "found"))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert (tmp_path / "found" / "graph.png").is_file()
    loaded = set(done.stdout.splitlines()[-1].split()[1:])
    assert "matplotlib" in loaded
    assert not loaded & UNUSED
