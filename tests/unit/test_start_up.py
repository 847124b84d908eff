"""Help comes at once: no command imports, before it runs, what it may not need."""

from __future__ import annotations

import subprocess
import sys

import pytest

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
from {package}.cli import cli
cli.main(["--help"], standalone_mode=False)
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
