"""The digest of the code: what a shell computes of the sources, and no bare name to install."""

import re
import subprocess
from pathlib import Path

from dp_bundle.describe import descriptors
from dp_publish.release.preparing import code_digest

ROOT = Path(__file__).parents[4]
FOLDERS = ("common", "consumer", "publisher", "docs", "examples", ".ci")
ENDS = {".py", ".md", ".html", ".js", ".yml", ".json"}
TOLD = re.compile(r"(pip|pipx|uv|uvx|conda)\b[^.\n]*\sdpgraph\b|dpgraph\[")


def test_the_line_in_every_readme_prints_the_digest() -> None:
    """A shell that knows nothing of our code finds the same digest in the folders of the source archive."""
    done = subprocess.run(["sh", "-c", descriptors._PRINT_DIGEST], cwd=ROOT, check=True, capture_output=True, text=True)
    assert done.stdout.split()[0] == code_digest()


def test_nobody_is_told_to_install_a_name_that_we_do_not_own() -> None:
    """No text tells anybody to have an index find dpgraph."""
    places = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*")]
    texts = [*places, *(ROOT / name for name in ("README.md", "SECURITY.md", "RELEASE.md", "Makefile"))]
    texts = [path for path in texts if path.suffix in ENDS and not {"_build", "node_modules"} & {*path.parts}]
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in texts
        for line in path.read_text(encoding="utf-8").splitlines()
        if TOLD.search(line)
    ]
    assert found == []
