"""The papers' tables, run again: how results are summed up, compared and shown."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from reproduction.pages import write_pages
from reproduction.pieces import all_pieces
from reproduction.results import compare, load, store, summarize

STORED = Path(__file__).parents[2] / "docs" / "reproduction"
RECORDS = [
    {"n": 50, "snr_db": "none", "auc": 0.8, "edges": 4},
    {"n": 50, "snr_db": "none", "auc": 0.9, "edges": 6},
    {"n": 50, "snr_db": "20", "auc": 0.7, "edges": float("nan")},
]


def test_repetitions_are_summed_up() -> None:
    """A cell's mean and standard deviation are those of its repetitions, and what is missing is left out."""
    cells = summarize(RECORDS, ("n", "snr_db")).set_index(["snr_db", "measure"])

    assert cells.loc[("none", "auc"), "mean"] == pytest.approx(0.85)
    assert cells.loc[("none", "auc"), "sd"] == pytest.approx(0.1 / 2**0.5)
    assert cells.loc[("none", "edges"), "repetitions"] == 2
    assert ("20", "edges") not in cells.index


def test_a_quick_run_is_compared_with_what_is_stored(tmp_path: Path) -> None:
    """Numbers within the error bars of the stored ones agree, others are named, and cells of one side are left out."""
    cells = summarize(RECORDS, ("n", "snr_db"))
    store(cells, tmp_path / "cells.csv")
    stored = load(tmp_path / "cells.csv")

    assert compare(cells, stored)[0] == 3
    assert compare(cells, stored)[1].empty
    n_cells, apart = compare(cells[1:].assign(mean=cells["mean"] + 1.0), stored)
    assert n_cells == 2
    assert list(apart["snr_db"]) == ["20"]  # the sd of the edges over two repetitions is more than 1


def test_pages_are_what_the_stored_results_say() -> None:
    """The committed pages are those that the committed results make."""
    pages = write_pages(all_pieces().values(), STORED)

    assert {name: (STORED / f"{name}.md").read_text(encoding="utf-8") for name in pages} == pages


def test_stored_results_are_those_of_the_pieces() -> None:
    """Every stored table belongs to a piece, and names its cells by the piece's keys."""
    pieces = all_pieces()
    for path in STORED.glob("*.csv"):
        columns = list(pd.read_csv(path, nrows=1).columns)
        assert columns == [*pieces[path.stem].keys, "measure", "mean", "sd", "repetitions"]
