"""Where compiled kernels are kept, and that a command runs wherever they cannot be."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

KERNEL = """
from dp_bundle.startup.kernels import before_compiling, njit

before_compiling(lambda kept: print("compiling", kept))

@njit(nogil=True)
def double(x):
    return 2 * x

assert double(21) == 42
"""
NO_PLACE = {"HOME": "/dev/null", "XDG_CACHE_HOME": "/dev/null"}


@pytest.fixture
def module(tmp_path: Path) -> Path:
    """Write a module with a kernel into a folder whose `__pycache__` is a file: root may write wherever it likes."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "__pycache__").touch()
    (tmp_path / "code" / "kernel.py").write_text(KERNEL)
    return tmp_path / "code" / "kernel.py"


def _run(module: Path, **settings: str) -> str:
    environment = {**os.environ, **NO_PLACE, "NUMBA_CACHE_DIR": "", **settings}
    ended = subprocess.run([sys.executable, module], env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr == ""
    return ended.stdout


@pytest.mark.slow
def test_kernels_go_to_a_temporary_folder_where_there_is_no_other(module: Path, tmp_path: Path) -> None:
    """Without a writable folder of code or a home a kernel is compiled once, into a folder that nobody else can use."""
    assert _run(module, TMPDIR=str(tmp_path)) == "compiling True\n"
    assert _run(module, TMPDIR=str(tmp_path)) == ""
    (folder,) = tmp_path.glob("dpgraph-kernels-*")
    assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.slow
def test_a_temporary_folder_that_others_made_is_not_used(module: Path, tmp_path: Path) -> None:
    """Kernels are code: what others may have put there is not run, and each run compiles."""
    folder = tmp_path / f"dpgraph-kernels-{os.geteuid()}"
    folder.mkdir()
    folder.chmod(0o777)
    for _ in range(2):
        assert _run(module, TMPDIR=str(tmp_path)) == "compiling False\n"
    assert list(folder.iterdir()) == []


@pytest.mark.slow
def test_kept_kernels_that_a_crash_damaged_are_made_anew(module: Path, tmp_path: Path) -> None:
    """A file that lost its content in a power cut costs one compilation, not the command."""
    assert _run(module, NUMBA_CACHE_DIR=str(tmp_path / "kept")) == "compiling True\n"
    for pattern in ("*.nbi", "*.nbc"):
        for path in (tmp_path / "kept").rglob(pattern):
            path.write_bytes(path.read_bytes()[:10])
        assert _run(module, NUMBA_CACHE_DIR=str(tmp_path / "kept")) == "compiling True\n"
        assert _run(module, NUMBA_CACHE_DIR=str(tmp_path / "kept")) == ""


@pytest.mark.slow
def test_kernels_beside_the_code_serve_those_who_may_only_read_them(tmp_path: Path) -> None:
    """What the one who installed the software compiled, nobody else has to compile."""
    module = tmp_path / "kernel.py"
    module.write_text(KERNEL)
    (tmp_path / "__pycache__").mkdir()
    assert _run(module) == "compiling True\n"
    module.with_name("sitecustomize.py").write_text("import os\nos.access = lambda *_, **__: False\n")
    other = {"NUMBA_CACHE_DIR": str(tmp_path / "own"), "PYTHONPATH": str(tmp_path)}
    assert _run(module, **other) == ""
    assert list((tmp_path / "own").rglob("*.nbi")) == []
