"""The archives that are distributed: the same bytes wherever and whenever they are built, and complete."""

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = ("common", "consumer", "publisher", "tests", "docs")
FILES = ("CHANGELOG.md", "LICENSE", "README.md", "SECURITY.md", "pyproject.toml")


def build(folder: Path, *, seconds: int, mode: int) -> dict[str, bytes]:
    """Build both archives from a copy of the sources whose files have this age and mode."""
    clean = shutil.ignore_patterns("__pycache__", ".*")
    for name in SOURCES:
        shutil.copytree(ROOT / name, folder / name, ignore=clean)
    for name in FILES:
        shutil.copy(ROOT / name, folder / name)
    for path in folder.rglob("*"):
        os.utime(path, (seconds, seconds))
        if path.is_file():
            path.chmod(mode)

    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", folder / "dist", folder],
        check=True,
        capture_output=True,
        env={**os.environ, "SOURCE_DATE_EPOCH": "1700000000"},
    )
    return {path.name: path.read_bytes() for path in (folder / "dist").iterdir()}


@pytest.mark.slow
def test_archives_depend_on_the_sources_alone(tmp_path: Path) -> None:
    """Two folders whose files differ in age and mode give the same archives, with all packages, commands and tests."""
    first = build(tmp_path / "first", seconds=1_600_000_000, mode=0o600)
    second = build(tmp_path / "second" / "deeper", seconds=1_650_000_001, mode=0o644)

    assert first == second
    (wheel,) = (tmp_path / "first" / "dist").glob("*.whl")
    (sdist,) = (tmp_path / "first" / "dist").glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (commands,) = (archive.read(name).decode() for name in names if name.endswith("entry_points.txt"))
    assert {name for name in names if name.endswith("py.typed")} == {
        "dp_audit/py.typed",
        "dp_bundle/py.typed",
        "dp_learn/py.typed",
        "dp_publish/py.typed",
    }
    assert {f"dp_bundle/base/assets/{name}" for name in ("base.html", "parts.html", "page.css", "page.js")} <= set(
        names
    )
    assert {f"dp_learn/output/page/templates/{name}" for name in ("report.html", "graph.js")} <= set(names)
    assert all(command in commands for command in ("dp-bundle", "dp-learn", "dp-publish"))
    with tarfile.open(sdist) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "SECURITY.md", "tests/conftest.py", "publisher/dp_publish/py.typed"} <= inside
