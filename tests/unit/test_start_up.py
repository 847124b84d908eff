"""Help comes at once: no command imports, before it runs, what it may not need."""

import ast
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.conftest import make_policy

from dp_publish import Receipt, publish

ROOT = Path(__file__).resolve().parents[2]
HEAVY = {
    "bokeh",
    "dp_accounting",
    "jinja2",
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
UNUSED = {"dp_accounting", "numba", "pandas", "rich", "scipy", "sklearn"}
FOR_PAGES = {"bokeh", "scipy"}


def loaded_by(package: str, *words: object) -> set[str]:
    """Return the libraries that a process has loaded after it ran one command."""
    line = f"cli.main({[*map(str, words)]}, standalone_mode=False)"
    script = f"import sys\nfrom {package}.cli.main import cli\n{line}\nprint('\\nloaded', *sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in done.stdout.splitlines()[-1].split()}


def test_no_module_does_anything_when_it_is_imported() -> None:
    """A module holds imports, definitions and values: none of its statements is a call or a loop, but for two."""
    harmless = (
        ast.Import,
        ast.ImportFrom,
        ast.FunctionDef,
        ast.AsyncFunctionDef,
        ast.ClassDef,
        ast.Assign,
        ast.AnnAssign,
    )
    effects = []
    for path in sorted(ROOT.glob("*/dp_*/**/*.py")):
        statements = list(ast.parse(path.read_text()).body)
        while statements:
            statement = statements.pop()
            if isinstance(statement, ast.If):
                statements += [*statement.body, *statement.orelse]
            elif not isinstance(statement, harmless) and not isinstance(
                getattr(statement, "value", None), ast.Constant
            ):
                effects.append(ast.unparse(statement))
    assert set(effects) == {"main()", "os.register_at_fork(after_in_child=_count_fork)"}  # of keystreams


@pytest.mark.parametrize("package", ["dp_bundle", "dp_learn", "dp_publish"])
def test_help_loads_no_heavy_library(package: str) -> None:
    """A command's help is printed without numpy, pandas, scipy, numba and whatever else takes a while to import."""
    loaded = loaded_by(package, "--help")
    assert "click" in loaded
    assert not loaded & HEAVY


@pytest.mark.slow
@pytest.mark.parametrize(("option", "unused"), [("--report", UNUSED - FOR_PAGES), ("--no-report", UNUSED | FOR_PAGES)])
def test_a_plain_run_loads_no_library_that_it_has_no_use_for(
    option: str, unused: set[str], bundle: Receipt, tmp_path: Path
) -> None:
    """A small graph is learned and all files but the page written without pandas, bokeh, scipy and others."""
    loaded = loaded_by("dp_learn", bundle.path, "--quiet", "--out", tmp_path / "found", option)
    assert (tmp_path / "found" / "graph.png").is_file()
    assert "matplotlib.pyplot" not in loaded
    assert not loaded & unused


def test_second_moments_are_read_without_pandas(tmp_path: Path, table: pd.DataFrame, key: Ed25519PrivateKey) -> None:
    """A covariance bundle is opened and checked by pyarrow and numpy alone."""
    bounds = {"height": [120, 220], "weight": [20, 140], "visits": [0, 30]}
    publish(table, make_policy(bounds, mu=5.0, release="covariance"), out=tmp_path / "c.tar", key=key)
    loaded = loaded_by("dp_bundle", "verify", tmp_path / "c.tar")
    assert "numpy" in loaded
    assert "pandas" not in loaded


def test_a_forecast_loads_no_compiler(tmp_path: Path, table: pd.DataFrame) -> None:
    """What is planned, and so what is refused, takes none of the 60 to 90 MB that numba and LLVM need."""
    table.to_parquet(tmp_path / "t.parquet")
    assert "numba" not in loaded_by("dp_publish", "plan", tmp_path / "t.parquet", "--mu", "1")
