"""The page of a result in the browser: sound for every result, on paper, and without scripts."""

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page
from tests.browser.judging import LOOKS, axe_violations, faults, outside_the_window
from tests.browser.opening import Opened
from tests.browser.printing import lay_out_for_paper, print_page
from tests.browser.results import HOSTILE_NAMES, Results

pytestmark = pytest.mark.browser


def wait_for_figures(page: Page) -> None:
    """Wait until every figure is drawn, and for one frame more."""
    page.evaluate("async () => { await dpgraph.ready; await new Promise(requestAnimationFrame); }")


@pytest.mark.parametrize("name", ["scores", "hostile"])
def test_page_is_sound_in_light_and_on_a_phone_in_the_dark(
    name: str, results: Results, open_silent: Callable[..., Opened], take_picture: Callable[[Page, str], None]
) -> None:
    """The page is silent, has no violation in axe-core, fits 390 pixels, and shows the focus wherever Tab takes it."""
    for place, look in enumerate(LOOKS):
        page = open_silent(results[name].page, **look).page
        wait_for_figures(page)
        take_picture(page, f"report {name} {place}")
        assert faults(page, keyboard=not place) == []
        assert page.locator(".histograms svg[role=img][aria-label]").count() == (10 if name == "scores" else 0)


def test_page_is_printed_whole(results: Results, tmp_path: Path, open_silent: Callable[..., Opened]) -> None:
    """On paper, light even in a dark room, are the figures, every section, and no content wider than the sheet."""
    page = open_silent(results["hostile"].page, scheme="dark").page
    wait_for_figures(page)
    n_figures = page.locator("figure.drawing").count()
    headings = page.locator("main h2").all_inner_texts()
    printed = print_page(page, tmp_path / "report.pdf")

    assert all(heading in printed.text for heading in headings)
    assert printed.n_pictures >= n_figures
    lay_out_for_paper(page)
    assert outside_the_window(page) == []
    paper = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
    assert paper in {"rgb(255, 255, 255)", "rgba(0, 0, 0, 0)"}


def test_page_without_scripts_has_its_tables_and_words(results: Results, open_silent: Callable[..., Opened]) -> None:
    """Without scripts every edge is in the table, figures are told in words, and no dead control is shown."""
    found = results["breast cancer"]
    page = open_silent(found.page, scripts=False).page

    assert page.locator(":is(#edges-table, #weaker-edges-table) tbody tr:visible").count() == len(found.edges)
    assert page.locator("#graph-says").is_visible()
    assert page.get_by_text("What the publisher guarantees").last.is_visible()
    assert page.locator("button:visible, select:visible, input:visible").count() == 0


def test_names_from_strangers_are_only_text(results: Results, open_silent: Callable[..., Opened]) -> None:
    """Names that are markup, scripts, mathematics or templates elsewhere are shown letter by letter."""
    page = open_silent(results["hostile"].page).page
    wait_for_figures(page)

    shown = set(page.locator("#columns tbody th").all_text_contents())
    assert shown >= {name for name in HOSTILE_NAMES if "&" not in name}
    assert page.locator("img").count() == 0
    assert page.evaluate("() => ({}).constructor === Object && ({}).__proto__ === Object.prototype")


def test_button_changes_the_colours_of_page_and_figures(results: Results, open_silent: Callable[..., Opened]) -> None:
    """The button gives the other scheme's colours, to the figures too, by the keyboard alone, and gives them back."""
    page, wanted = (open_silent(results["hostile"].page, scheme=scheme).page for scheme in ("light", "dark"))
    for each in (page, wanted):
        wait_for_figures(each)
    colours = """() => [getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color,
        ...Bokeh.documents[0].roots().map(root => root.background_fill_color)]"""
    before, after = page.evaluate(colours), wanted.evaluate(colours)

    page.locator("#scheme").focus()
    for key, expected in (("Enter", after), ("Space", before)):
        page.keyboard.press(key)
        page.wait_for_timeout(100)
        assert page.evaluate(colours) == expected
        assert axe_violations(page) == []
