"""The tutorials as they were run last, in docs/tutorials/executed: a build of the site runs those that changed since.

python docs/executed.py      keep what the last build has run
"""

from __future__ import annotations

import base64
import hashlib
import io
import sys
from pathlib import Path

import nbformat
from jupyter_cache import get_cache
from jupyter_cache.base import CacheBundleIn
from PIL import Image

DOCS = Path(__file__).resolve().parent
CACHE = DOCS / "_build" / "notebooks"  # where MyST-NB looks a notebook up by its code
KEPT = DOCS / "tutorials" / "executed"


def digest() -> str:
    """Return a digest of the files that the pages' code uses."""
    files = [*(DOCS / "tutorials").glob("*.py"), *(DOCS / "tutorials" / "files").iterdir()]
    return hashlib.sha256(b"".join(path.read_bytes() for path in sorted(files))).hexdigest()


def offer() -> None:
    """Put the kept notebooks where the build finds them, unless what their code uses has changed."""
    cache = get_cache(CACHE)
    for path in sorted(KEPT.glob("*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        if notebook.metadata.pop("uses", "") == digest():
            found = CacheBundleIn(notebook, str(DOCS / "tutorials" / f"{path.stem}.md"))
            cache.cache_notebook_bundle(found, check_validity=False, overwrite=True)


def keep() -> None:
    """Keep the notebooks of the last build, with small pictures and without the times at which they were run."""
    KEPT.mkdir(exist_ok=True)
    cache = get_cache(CACHE)
    newest = {
        Path(record.uri).stem: record.pk for record in sorted(cache.list_cache_records(), key=lambda each: each.pk)
    }
    for path in KEPT.glob("*.ipynb"):
        path.unlink()
    for name, pk in sorted(newest.items()):
        notebook = cache.get_cache_bundle(pk).nb
        notebook.metadata["uses"] = digest()
        for number, cell in enumerate(notebook.cells):
            cell.id = f"{number}"
            cell.metadata.pop("execution", None)
            for output in cell.get("outputs", []):
                if "image/png" in output.get("data", {}):
                    output.data["image/png"] = smaller(output.data["image/png"])
        nbformat.write(notebook, KEPT / f"{name}.ipynb")
        sys.stdout.write(f"kept {name}\n")


def smaller(picture: str) -> str:
    """Return a picture of 64 colours."""
    packed = io.BytesIO()
    Image.open(io.BytesIO(base64.b64decode(picture))).convert("RGB").quantize(64).save(packed, "PNG", optimize=True)
    return base64.b64encode(packed.getvalue()).decode("ascii")


if __name__ == "__main__":
    keep()
