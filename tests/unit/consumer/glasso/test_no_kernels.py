"""Graphs of few nodes are learned without compiling anything: the first run is as quick as the next."""

import subprocess
import sys
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parents[3] / "golden"
COMPILED = """
import sys
print("compiled", *sorted(
    f"{name}.{kernel}" for name, module in [*sys.modules.items()] if name.startswith("dp_")
    for kernel, value in vars(module).items() if hasattr(value, "py_func") and value.signatures
))
"""
LEARN = f"""
import os
from dp_bundle.cli.main import cli as bundle
from dp_learn.cli.main import cli as learn
for name in ("rows", "mixed", "copula"):
    os.environ["DPGRAPH_HOME"] = name  # golden bundles are releases of one dataset and number
    bundle.main(["trust", f"{GOLDEN}/test-key.pub", "--name", "Golden"], standalone_mode=False)
    learn.main([f"{GOLDEN}/bundle-{{name}}.tar", "--out", "found"], standalone_mode=False)
"""
SOLVE = """
import numpy as np
from dp_bundle.base.errors import NoSolutionError
from dp_learn import graphical_lasso
for noise in (0.0, 0.3):
    rng = np.random.default_rng(0)
    s = np.cov((rng.normal(size=(300, 3)) @ rng.normal(size=(3, 60)) + rng.normal(size=(300, 60))).T)
    s += noise * np.tril(rng.normal(size=s.shape), -1)
    s = np.tril(s) + np.tril(s, -1).T
    numbers, nodes = {"covariance": s[:50, :50]}, {"covariance": s, "groups": np.repeat(np.arange(20), 3)}
    for problem in (numbers, nodes):
        try:
            graphical_lasso(**problem, alpha=1e-3, solver="auto")
            found = 1e-3
        except NoSolutionError as error:
            found = error.smallest_alpha
        solution = graphical_lasso(**problem, alpha=1.02 * found, solver="auto")
        assert solution.converged
        assert np.count_nonzero(solution.precision) > 1200
"""


@pytest.mark.slow
@pytest.mark.parametrize("script", [LEARN, SOLVE], ids=["learned", "solved"])
def test_few_nodes_compile_nothing(script: str, tmp_path: Path) -> None:
    """Numbers and categories are learned, dense and indefinite problems solved, and no kernel has a signature."""
    words = [sys.executable, "-c", script + COMPILED]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1].split() == ["compiled"]


@pytest.mark.slow
def test_compiled_kernels_would_be_seen() -> None:
    """A solver that is asked for by name loads kernels, which are listed."""
    script = "from dp_learn import graphical_lasso\ngraphical_lasso([[2.0, 1.0], [1.0, 2.0]], 0.1, solver='cd')\n"
    done = subprocess.run([sys.executable, "-c", script + COMPILED], capture_output=True, text=True, check=True)
    assert "sweep_columns" in done.stdout
