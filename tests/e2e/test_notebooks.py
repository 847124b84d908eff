"""Notebooks run from an installed dpgraph, in any folder."""

import json
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))
SECONDS = 300  # for one cell; the whole takes less than two minutes on an idle machine


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_is_stored_without_outputs(path: Path) -> None:
    """A stored notebook holds no result of any run."""
    cells = [cell for cell in json.loads(path.read_bytes())["cells"] if cell["cell_type"] == "code"]

    assert cells
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in cells)


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every cell runs, those that check what the text says among them, and nothing is left in the folder."""
    import nbformat
    from nbclient import NotebookClient

    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    work = tmp_path / "work"
    work.mkdir()
    notebook = nbformat.read(path, as_version=4)

    place = {"metadata": {"path": str(work)}}
    NotebookClient(notebook, timeout=SECONDS, kernel_name="python3", resources=place).execute()

    assert list(work.iterdir()) == []
    assert any(cell.get("outputs") for cell in notebook.cells)
