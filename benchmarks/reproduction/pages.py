"""Pages from stored results: a template for each paper, filled with what its pieces say of theirs."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from reproduction.data_sets import describe_data_sets
from reproduction.pieces import PAPERS, Piece
from reproduction.results import load

TEMPLATES = Path(__file__).with_name("templates")
_MADE = "<!-- Made by make reproduce: words of benchmarks/reproduction/templates, tables of stored results -->\n\n"
VERSIONED = ("dpgraph", "numpy", "scipy", "scikit-learn", "matplotlib")


def note_run(folder: Path, name: str, seconds: float) -> None:
    """Note what a piece took of the processors, and with what it was run."""
    path = folder / "runs.json"
    runs = _stored_runs(path)
    versions = {"python": platform.python_version()} | {each: version(each) for each in VERSIONED}
    runs[name] = {"seconds": round(seconds), "versions": versions}
    path.write_text(json.dumps(runs, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def stored_seconds(folder: Path) -> dict[str, float]:
    """Return what was noted of the processor's time, by piece."""
    return {name: run["seconds"] for name, run in _stored_runs(folder / "runs.json").items()}


def draw_pictures(pieces: Iterable[Piece], folder: Path) -> None:
    """Draw the pictures of all results that are in a folder."""
    for piece in pieces:
        path = folder / f"{piece.name}.csv"
        if piece.draw is not None and path.exists():
            piece.draw(load(path), folder / piece.name)


def write_pages(pieces: Iterable[Piece], folder: Path) -> dict[str, str]:
    """Return a page for each paper, one for them all and the errata, by name, from the results that are in a folder."""
    stored = {piece: folder / f"{piece.name}.csv" for piece in pieces}
    found = {piece.name: piece.describe(load(path)) for piece, path in stored.items() if path.exists()}
    runs = folder / "runs.json"
    context = {
        "papers": PAPERS,
        "runs": _stored_runs(runs),
        "minutes": round(sum(run["seconds"] for run in _stored_runs(runs).values()) / 60),
        "command": _command,
        "data_sets": describe_data_sets(),
        **found,
    }
    environment = Environment(  # noqa: S701  of Markdown, and of numbers
        loader=FileSystemLoader(TEMPLATES), undefined=StrictUndefined, keep_trailing_newline=True
    )
    names = ("index", "errata", *PAPERS)
    return {name: _MADE + environment.get_template(f"{name}.md.j2").render(context) for name in names}


def _stored_runs(path: Path) -> dict[str, dict[str, Any]]:
    """Return what was noted of runs, by piece."""
    runs: dict[str, dict[str, Any]] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return runs


def _command(*names: str) -> str:
    """Return the command that runs pieces, as a block of the page."""
    quoted = names[0] if len(names) == 1 else '"' + " ".join(names) + '"'
    return f"<!-- not run: it takes a while -->\n```console\n$ make reproduce ONLY={quoted}\n```"
