"""Commands where names cannot be printed, and where the user has no home: an exit code and a sentence, as elsewhere."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

pytestmark = pytest.mark.slow

POLICY = '[dataset]\nname = "tä"\n[privacy]\nmu = 20\n[columns."*"]\nbounds = [-9, 9]\n'
NO_ENTRY = "import pwd\ndef none(*_):\n    raise KeyError\npwd.getpwuid = none\n"  # of this user, for a home


def _run(words: str, folder: Path, changed: Mapping[str, str | None]) -> tuple[int, bytes, str]:
    """Run a command in a process with another environment; return its exit code, its answer and what else it says."""
    environment = {name: value for name, value in {**os.environ, **changed}.items() if value is not None}
    package, *others = words.split(" ")
    line = [sys.executable, "-m", package.replace("-", "_"), *others]
    ended = subprocess.run(line, cwd=folder, env=environment, capture_output=True, check=False)
    said = ended.stderr.decode("latin-1")
    assert "Traceback" not in said, said
    assert "fault" not in said, said
    return ended.returncode, ended.stdout, said


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Make a table whose names no old terminal has."""
    rng = np.random.default_rng(0)
    columns = rng.multivariate_normal([0, 0], [[1, 0.5], [0.5, 1]], 5_000)
    pd.DataFrame(columns, columns=["größe", "🙂 laune"]).to_parquet(tmp_path / "t.parquet")
    (tmp_path / "t.policy.toml").write_text(POLICY, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("encoding", [pytest.param("ascii", marks=pytest.mark.long), "latin-1"])
def test_a_terminal_without_the_letters_of_a_name_gets_their_numbers(encoding: str, folder: Path) -> None:
    """Every command ends as it does elsewhere, and a machine can read its JSON."""
    for words in (
        "dp-publish plan t.parquet --look",
        "dp-publish t.parquet --out a.tar",
        "dp-publish ledger --json",
        "dp-bundle inspect a.tar",
        "dp-bundle inspect a.tar --json",
        "dp-learn a.tar --out found --no-report",
        "dp-learn a.tar --out found2 --no-report --json",
    ):
        code, printed, said = _run(words, folder, {"PYTHONIOENCODING": encoding})
        assert code == 0, said
        if words.endswith("--json"):
            assert "tä" in str(json.loads(printed))
        elif encoding == "latin-1" and "inspect" in words:
            assert b"gr\xf6\xdfe" in printed
            assert rb"\U0001f642 laune" in printed


def test_without_a_home_all_works_that_needs_none(folder: Path) -> None:
    """What needs keys or the ledger says which folder to name; nobody is trusted, and the rest is done."""
    assert _run("dp-publish t.parquet --out a.tar", folder, {})[0] == 0
    (folder / "sitecustomize.py").write_text(NO_ENTRY)
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    for changed in (
        {"HOME": None, "XDG_CONFIG_HOME": None, "DPGRAPH_HOME": None, "PYTHONPATH": path},
        {"HOME": "/proc", "XDG_CONFIG_HOME": None, "DPGRAPH_HOME": None},  # where nobody can write
    ):
        for words in (
            "dp-publish policy t.parquet --out t.toml",
            "dp-publish plan t.parquet --report t.html",
            "dp-publish ledger",
            "dp-bundle inspect a.tar",
            "dp-bundle verify a.tar --any-signer",
        ):
            code, _, said = _run(words, folder, changed)
            assert code == 0, said
        (folder / "t.html").unlink()
        (folder / "t.toml").unlink()
        assert _run("dp-learn a.tar --no-report", folder, changed)[0] == 3
        for more in ("", " --key home/keys/publisher.key", " --key home/keys/publisher.key --ledger books/"):
            code, _, said = _run(f"dp-publish t.parquet --out b.tar{more}", folder, changed)
            assert (code, (folder / "b.tar").exists()) == (1, False)
            assert said.splitlines()[-1].startswith("error: ")
            assert "set DPGRAPH_HOME to a folder of yours" in said
