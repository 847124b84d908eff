"""What cells look like, one by one, and what they become once their column is one of a kind."""

import datetime

import pyarrow as pa
import pytest

from dp_publish.data.cells import Written
from dp_publish.discovery.looks import LOOKS, Look, best_look, count_looks
from dp_publish.forecast.first_rows import as_they_look

CELLS = {
    Look.GAP: ["", " NA ", "n/a", "-", "?", None],
    Look.TRUTH: ["yes", "No", "TRUE"],
    Look.CODE: ["01067", "007"],
    Look.WHOLE: ["12", " -3", "+4", "0", "-1 234", "1'234'567", "1\u00a0234", "€5"],
    Look.DOUBTFUL: ["1.234", "-12.345", "1,234", "1,234 EUR"],
    Look.WHOLE_POINT: ["30000.0", "-1.00", "0.0"],
    Look.POINT: ["1.5", ".5", "2e-3", "-1.", "007.5", "12,345.5", "1,234,567", "12.5\u202f%", "$1,234.50"],
    Look.COMMA: ["1,5", "-,5", "0,123", "1.234,5", "1.234.567", "1 234,5", "1.234,50 zł", "R$ 12,5"],
    Look.DATE: ["2024-10-05"],
    Look.TIME: ["2024-10-05 12:30", "2024-10-05T12:30:00Z", "2024-10-05 12:30:00.5+02:00"],
    Look.DOTTED: ["05.10.2024", "5.1.2024"],
    Look.DAY_FIRST: ["13/10/2024"],
    Look.MONTH_FIRST: ["10/13/2024"],
    Look.SLASHED: ["05/10/2024"],
    Look.DOTTED_TIME: ["05.10.2024 12:30", "5.1.2024T12:30:05.5"],
    Look.DAY_FIRST_TIME: ["13/10/2024 9:30"],
    Look.MONTH_FIRST_TIME: ["10/13/2024, 2:30:00 PM"],
    Look.SLASHED_TIME: ["05/10/2024 12:30pm"],
    Look.WORD: ["blue", "12 kg", "1.2.3", "2024-13-45x", "x1", "1,23,456", "<2.5"],
}


@pytest.mark.parametrize("look", LOOKS, ids=lambda look: look.value)
def test_every_cell_has_one_look(look: Look) -> None:
    """Each cell counts for its own look and for no other, whatever else is in the column."""
    cells = pa.array(CELLS[look], pa.string())
    counts = dict(zip(LOOKS, count_looks(cells, ()).tolist(), strict=True))
    assert counts == {**dict.fromkeys(LOOKS, 0), look: len(cells)}


def test_declared_words_for_gaps_are_gaps() -> None:
    """A number among them too, however it is written."""
    counts = count_looks(pa.array(["-999", "-999.0", "none of these", "5"]), ("-999", "none of these"))
    assert counts[LOOKS.index(Look.GAP)] == 3


@pytest.mark.parametrize(
    ("look", "decimal", "cells", "values"),
    [
        (
            Look.WHOLE,
            ".",
            ["2,047", "1 630.5", "12\u00a0%", "$1,234.5", "1.234,5"],
            [2047.0, 1630.5, 12.0, 1234.5, None],
        ),
        (Look.WHOLE, ",", ["2,047", "1.234", "R$ 1.234,50", "12,5%", "1,234.5"], [2.047, 1234.0, 1234.5, 12.5, None]),
        (Look.TRUTH, "", ["yes", "FALSE", "5", ""], [1.0, 0.0, None, None]),
        (Look.WORD, "", [" a ", "NA", ""], ["a", "NA", None]),
        (
            Look.MONTH_FIRST_TIME,
            "",
            ["10/13/2024 02:30:00 PM", "10/05/2024 12:30 am", "10/13/2024", "10/13/2024 14:30 PM", "13/10/2024 14:30"],
            [
                datetime.datetime(2024, 10, 13, 14, 30),
                datetime.datetime(2024, 10, 5, 0, 30),
                datetime.datetime(2024, 10, 13),
                None,
                None,
            ],
        ),
        (
            Look.TIME,
            "",
            ["2026-03-27T23:30:00Z", "2026-03-28 01:30:00+02:00", "2026-03-27 23:30", "2026-02-30 12:00", "soon"],
            [*[datetime.datetime(2026, 3, 27, 23, 30)] * 3, None, None],
        ),
    ],
)
def test_cells_become_values_or_gaps(look: Look, decimal: str, cells: list[str], values: list[object]) -> None:
    """What does not fit what most cells are is no value, and refuses nothing; moments are put into UTC."""
    found, read = as_they_look(pa.array([*cells, *cells[:1] * 9]), Written(decimal))
    assert (found, read.to_pylist()[: len(cells)]) == (look, values)


def test_a_column_is_what_most_of_its_cells_are() -> None:
    """Whole numbers and others are one group; slashes are read the way that stands out."""
    noisy = dict.fromkeys(LOOKS, 0.0)
    assert best_look(noisy | {Look.WHOLE: 60.0, Look.POINT: 50.0, Look.WORD: 90.0}) is Look.WHOLE
    assert best_look(noisy | {Look.SLASHED: 90.0, Look.DAY_FIRST: 5.0, Look.WORD: 40.0}) is Look.DAY_FIRST
    assert best_look(noisy | {Look.SLASHED: 90.0, Look.MONTH_FIRST: 5.0}) is Look.MONTH_FIRST
