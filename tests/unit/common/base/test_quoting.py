"""Foreign text shown to a person: quoted, on one line, inert."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_bundle.base.quoting import (
    escape,
    guard_cell,
    name_columns,
    quote,
    quote_name,
    quote_path,
    require_one_line,
    unguard_cell,
)


@given(st.text(max_size=400))
def test_quotations_are_printable_lines_between_quotation_marks(text: str) -> None:
    """Whatever the text, its quotation is printable, and only its own two marks are bare."""
    shown = quote(text)
    assert shown.isprintable()
    assert (shown[0], shown[-1]) == ('"', '"')
    assert '"' not in shown[1:-1].replace("\\\\", "").replace('\\"', "")


@given(st.text(max_size=100))
def test_only_single_words_are_shown_without_quotation_marks(text: str) -> None:
    """A name without marks is the text itself, and has neither spaces nor anything unprintable."""
    shown = quote_name(text)
    if not shown.startswith('"'):
        assert shown == text
        assert shown
        assert shown.isprintable()
        assert not any(each.isspace() or each in "\"'`:;,|()[]{}<>" for each in shown)


def test_escapes_show_what_they_stand_for() -> None:
    """Line breaks, escape sequences and overrides of direction are spelt out, and long texts are cut."""
    assert escape("a\nb\x1b[2J\u202e") == "a\\nb\\x1b[2J\\u202e"
    assert quote('say "a\\b"') == '"say \\"a\\\\b\\""'
    assert quote("x" * 301) == f'"{"x" * 300}…"'
    assert quote("x" * 301, longest=None) == f'"{"x" * 301}"'


def test_names_of_files_that_could_pass_for_sentences_are_quoted() -> None:
    """A file may be called anything by whoever made it; a plain path is shown as it is."""
    assert quote_path("/data/wine-1.bundle.tar") == "/data/wine-1.bundle.tar"
    assert quote_path("a.tar: release 1, verified") == '"a.tar: release 1, verified"'
    assert quote_path("a\nb\udcff.tar") == '"a\\nb\\udcff.tar"'


@pytest.mark.parametrize(
    "each", ["\n", "\r", "\t", "\x00", "\x1b", "\x7f", "\x9b", "\u2028", "\u202e", "\u2066", "\udc80"]
)
def test_text_that_would_act_is_refused(each: str) -> None:
    """Control characters, line separators, overrides of direction and lone surrogates are named and refused."""
    with pytest.raises(ValueError, match="write it on one line") as caught:
        require_one_line(f"a{each}b")
    assert str(caught.value).isprintable()


@given(st.one_of(st.text(max_size=20), st.text("'=+-@ x", max_size=8)))
def test_cells_that_spreadsheets_would_evaluate_are_guarded_and_come_back(text: str) -> None:
    """No guarded text begins a formula, others stay as they are, and every text comes back."""
    guarded = guard_cell(text)
    assert not guarded.lstrip().startswith(("=", "+", "-", "@"))
    assert guarded in (text, f"'{text}")
    assert unguard_cell(guarded) == text


def test_formulas_are_guarded_and_names_are_not() -> None:
    """What begins with a sign of a formula gets an apostrophe; what holds one further on does not."""
    for formula in ('=HYPERLINK("https://evil")', "+1+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", " =1", "\uff1d1", "'=1"):
        assert guard_cell(formula) == f"'{formula}"
    for name in ("height", "a=b", "log-odds", "'quoted'", "", "x@y"):
        assert guard_cell(name) == name


def test_names_in_a_sentence_are_cut_and_counted() -> None:
    """A long name is quoted and ends in an ellipsis; names beyond the first ones are counted."""
    assert name_columns(["age", "a" * 61, "b", "c"], 3) == f'age, "{"a" * 60}…", b and 1 more'
    assert name_columns(["age", "a" * 60]) == f"age, {'a' * 60}"
