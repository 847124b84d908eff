"""Runs pieces, stores their results, draws their pictures and writes the pages: see the package's docstring."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy: there is a process for every core

from reproduction.pages import draw_pictures, note_run, stored_seconds, write_pages
from reproduction.pieces import Piece, all_pieces
from reproduction.results import compare, load, store, summarize
from reproduction.running import run_pieces
from reproduction.setting import Setting

ROOT = Path(__file__).parents[2]
STORED = ROOT / "docs" / "reproduction"
QUICK = ROOT / "build" / "reproduction"


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(prog="make reproduce", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a part of the repetitions, compared with what is stored")
    parser.add_argument(
        "--only", nargs="*", default=[], metavar="PIECE", help="pieces to run, or `none` to write the pages alone"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes; a core each by default")
    options = parser.parse_args()
    pieces, setting = all_pieces(), Setting.from_environment(quick=options.quick)
    chosen = _choose(pieces, options.only)
    folder = STORED
    if options.quick:  # what is not run is shown as it is stored
        folder = QUICK
        shutil.rmtree(QUICK, ignore_errors=True)
        shutil.copytree(STORED, QUICK)

    n_compared = n_apart = 0
    start, processor = time.perf_counter(), 0.0
    for run in run_pieces(_with_needs(chosen, setting), setting, options.jobs, stored_seconds(STORED)):
        name = run.piece.name
        if not run.records:
            why = "a quick run leaves it out" if options.quick else "$DPGRAPH_DATA has none of its data"
            print(f"{name}: skipped, as {why}", flush=True)
            continue
        cells = summarize(run.records, run.piece.keys)
        store(cells, folder / f"{name}.csv")
        print(f"{name}: {len(cells)} numbers in {run.seconds:.0f} s of the processor", flush=True)
        note_run(folder, name, run.seconds)
        processor += run.seconds
        if options.quick:
            n_cells, n_differ = _report_difference(run.piece, folder)
            n_compared, n_apart = n_compared + n_cells, n_apart + n_differ

    draw_pictures(pieces.values(), folder)
    for name, text in write_pages(pieces.values(), folder).items():
        (folder / f"{name}.md").write_text(text, encoding="utf-8")
    minutes = (time.perf_counter() - start) / 60
    print(
        f"results are in {folder.relative_to(ROOT)}, after {minutes:.1f} minutes and {processor:.0f} s of the processor"
    )
    if options.quick:
        print(f"{n_compared - n_apart} of {n_compared} numbers came out as stored, within their error bars")
    sys.exit(1 if n_apart else 0)


def _choose(pieces: dict[str, Piece], names: list[str]) -> list[Piece]:
    """Return the pieces to run: all, those that are named, or none."""
    if names == ["none"]:
        return []
    unknown = sorted(set(names) - set(pieces))
    if unknown:
        sys.exit(f"there is no piece {', '.join(unknown)}; there are: {', '.join(pieces)}")
    return [pieces[name] for name in names] if names else list(pieces.values())


def _with_needs(pieces: list[Piece], setting: Setting) -> list[Piece]:
    """Return the pieces whose data and packages are there, and say which are not."""
    found = []
    for piece in pieces:
        missing = piece.missing(setting)
        if missing:
            print(f"{piece.name}: skipped, as {' and '.join(missing)}", flush=True)
        else:
            found.append(piece)
    return found


def _report_difference(piece: Piece, folder: Path) -> tuple[int, int]:
    """Say whether the stored results came out again; return how many were compared, and how many did not."""
    stored = STORED / f"{piece.name}.csv"
    if not stored.exists():
        return 0, 0
    n_cells, apart = compare(load(folder / stored.name), load(stored))
    print(f"  {n_cells - len(apart)} of {n_cells} numbers as stored, within their error bars", flush=True)
    if len(apart):
        print(json.dumps(apart.head(20).to_dict("records"), indent=1, default=str), flush=True)
    return n_cells, len(apart)


if __name__ == "__main__":
    main()
