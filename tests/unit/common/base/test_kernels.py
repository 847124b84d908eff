"""Where compiled kernels are kept, and that a command runs wherever they cannot be."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

KERNEL = """
from dp_bundle.base.machine import before_compiling, njit

before_compiling(lambda kept: print("compiling", kept))

@njit()
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


def _run(module: Path, **settings: str | None) -> str:
    chosen = {**os.environ, **NO_PLACE, "NUMBA_CACHE_DIR": "", **settings}
    environment = {name: value for name, value in chosen.items() if value is not None}
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
def test_kept_kernels_that_a_crash_damaged_are_made_anew(module: Path, tmp_path: Path) -> None:
    """A file that lost its content in a power cut costs one compilation, not the command."""
    assert _run(module, NUMBA_CACHE_DIR=str(tmp_path / "kept")) == "compiling True\n"
    for pattern in ("*.nbi", "*.nbc"):
        for path in (tmp_path / "kept").rglob(pattern):
            path.write_bytes(path.read_bytes()[:10])
        assert _run(module, NUMBA_CACHE_DIR=str(tmp_path / "kept")) == "compiling True\n"
        assert _run(module, NUMBA_CACHE_DIR=str(tmp_path / "kept")) == ""


PLANTED = """
import pickle, sys
from pathlib import Path
import numba.core.caching as caching

class Planted:
    def __reduce__(self):
        return print, ("the code of another user ran",)

content = Path(sys.argv[1]).read_bytes()
version = pickle.loads(content)
Path(sys.argv[1]).write_bytes(pickle.dumps(version) + pickle.dumps(Planted()))
"""


def _plant(folder: Path) -> None:
    """Put an index with code of another's into a folder of kernels that were kept."""
    (index,) = folder.rglob("*.nbi")
    subprocess.run([sys.executable, "-c", PLANTED, index], check=True)


@pytest.fixture
def planted(module: Path, tmp_path: Path) -> Path:
    """Return a private folder of kernels with code of another's."""
    kept = tmp_path / "around" / "kept"
    kept.parent.mkdir()
    assert _run(module, NUMBA_CACHE_DIR=str(kept)) == "compiling True\n"
    _plant(kept)
    return kept


@pytest.mark.slow
def test_kernels_that_others_may_have_written_are_not_run(module: Path, planted: Path, tmp_path: Path) -> None:
    """A folder of kernels, one around it, or a file in it that another user could change is passed over.

    A private one is not: what was planted there runs, so that this test can fail.
    """
    (index,) = planted.rglob("*.nbi")
    link = tmp_path / "link"
    link.symlink_to(planted)
    places = {"folder": planted, "inner": index.parent, "around": planted.parent, "file": index, "link": planted}
    assert "another user" in _run(module, NUMBA_CACHE_DIR=str(planted), TMPDIR=str(tmp_path))
    _plant(planted)
    said = "compiling True\n"  # into the private folder, where the other runs find it
    for name, place in places.items():
        mode = place.stat().st_mode
        place.chmod(mode | 0o022)
        chosen = link if name == "link" else planted
        assert _run(module, NUMBA_CACHE_DIR=str(chosen), TMPDIR=str(tmp_path)) == said, name
        place.chmod(mode)
        said = ""
    assert list(tmp_path.glob("dpgraph-kernels-*/*/*.nbi"))


@pytest.mark.slow
def test_settings_in_the_current_folder_choose_no_cache(
    module: Path, planted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that numba reads where a command runs, which may have come with a stranger's data, names no cache."""
    (tmp_path / ".numba_config.yaml").write_text(f"cache_dir: {planted}\n")
    monkeypatch.chdir(tmp_path)
    assert _run(module, NUMBA_CACHE_DIR=None, TMPDIR=str(tmp_path)) == "compiling True\n"
