"""Tables: numbers as they are printed, and as they are sorted."""

from __future__ import annotations

from dp_bundle.page.tables import PageTable, TableCell, TableColumn, number


def test_numbers_are_printed_with_a_minus_and_never_as_zero() -> None:
    """A negative number has a minus sign, and one too small for its decimals has one digit."""
    assert number(-0.25, "+.3f") == "\N{MINUS SIGN}0.250"
    assert number(0.0001, "+.3f") == "+0.0001"
    assert number(-1e-9, ".3f") == "-1e-09"
    assert number(0.0, "+.3f") == "+0.000"


def test_cells_carry_what_they_are_sorted_by() -> None:
    """A cell with a number carries it to nine digits, and one without a value is empty."""
    table = PageTable(
        "t", "Rows.", [TableColumn("name", ["a", "b"]), TableColumn("number", [1 / 3, float("nan")], ".2f")]
    )
    assert list(table.rows()) == [[TableCell("a"), TableCell("0.33", "0.333333333")], [TableCell("b"), TableCell("")]]
