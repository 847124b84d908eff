"""The page of a result in the browser: sound for every result, on paper, without scripts, small and soon made."""

import resource
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page
from tests.browser.judging import axe_violations, keyboard_complaints, outside_the_window
from tests.browser.opening import DESKTOP, PHONE, Opened
from tests.browser.printing import lay_out_for_paper, print_page
from tests.browser.results import HOSTILE_NAMES, Results

pytestmark = pytest.mark.browser

RESULTS = [
    "breast cancer",
    "digits",
    pytest.param("cell signalling", marks=pytest.mark.data),
    "500 columns",
    "covariance",
    "no edge",
    "drowned",
    "hostile",
]
_MOVING = """() => [...document.querySelectorAll("*")].filter(element => {
  const style = getComputedStyle(element);
  return style.scrollBehavior === "smooth" || style.animationName !== "none"
      || style.transitionDuration.split(",").some(duration => parseFloat(duration) > 0);
}).map(element => element.tagName)"""


def wait_for_figures(page: Page) -> None:
    """Wait until every figure is drawn, and for one frame more."""
    page.evaluate("async () => { await dpgraph.ready; await new Promise(requestAnimationFrame); }")


@pytest.mark.parametrize("name", RESULTS)
def test_page_is_sound_in_light_and_on_a_phone_in_the_dark(
    name: str, results: Results, open_silent: Callable[..., Opened], take_picture: Callable[[Page, str], None]
) -> None:
    """The page is silent, has no violation in axe-core, fits 390 pixels, and shows the focus wherever Tab takes it."""
    for kind, size, scheme in (("light", DESKTOP, "light"), ("phone", PHONE, "dark")):
        page = open_silent(results[name].page, size=size, scheme=scheme).page
        wait_for_figures(page)
        take_picture(page, f"report {name} {kind}")

        assert axe_violations(page) == []
        assert outside_the_window(page) == []
        if kind == "light":
            assert keyboard_complaints(page) == []


@pytest.mark.parametrize("name", ["breast cancer", "drowned", "hostile", "no edge"])
def test_page_is_printed_whole(name: str, results: Results, tmp_path: Path, open_silent: Callable[..., Opened]) -> None:
    """On paper, light even in a dark room, are the figures, every section, and no content wider than the sheet."""
    page = open_silent(results[name].page, scheme="dark").page
    wait_for_figures(page)
    n_figures = page.locator("figure.drawing").count()
    headings = page.locator("main h2").all_inner_texts()
    printed = print_page(page, tmp_path / "report.pdf")

    assert all(heading in printed.text for heading in headings)
    assert printed.n_pictures >= n_figures
    lay_out_for_paper(page)
    assert outside_the_window(page) == []
    assert page.evaluate("() => getComputedStyle(document.body).backgroundColor") in {
        "rgb(255, 255, 255)",
        "rgba(0, 0, 0, 0)",
    }


def test_page_without_scripts_has_its_tables_and_words(results: Results, open_silent: Callable[..., Opened]) -> None:
    """Without scripts every edge is in the table, figures are told in words, and no dead control is shown."""
    found = results["breast cancer"]
    page = open_silent(found.page, scripts=False).page

    assert page.locator("#edges-table tbody tr:visible").count() == len(found.edges)
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


@pytest.mark.parametrize(("scheme", "other"), [("light", "dark"), ("dark", "light")])
def test_button_changes_the_colours_of_page_and_figures(
    scheme: str, other: str, results: Results, open_silent: Callable[..., Opened]
) -> None:
    """The button gives the other scheme's colours, to the figures too, by the keyboard alone, and gives them back."""
    page = open_silent(results["drowned"].page, scheme=scheme).page
    wait_for_figures(page)
    wanted = open_silent(results["drowned"].page, scheme=other).page
    wait_for_figures(wanted)
    colours = """() => [getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color,
        ...Bokeh.documents[0].roots().map(root => root.background_fill_color)]"""
    before, after = page.evaluate(colours), wanted.evaluate(colours)

    page.locator("#scheme").focus()
    page.keyboard.press("Enter")
    page.wait_for_timeout(100)
    assert page.evaluate(colours) == after
    assert axe_violations(page) == []
    page.keyboard.press("Space")
    page.wait_for_timeout(100)
    assert page.evaluate(colours) == before


def test_nothing_moves_for_readers_who_ask_for_less_movement(
    results: Results, open_silent: Callable[..., Opened]
) -> None:
    """No element has an animation, a transition or smooth scrolling when the reader prefers reduced motion."""
    page = open_silent(results["drowned"].page, motion="reduce").page
    wait_for_figures(page)

    assert page.evaluate(_MOVING) == []


def test_page_of_30_columns_is_small_and_soon_made(results: Results) -> None:
    """The page takes at most 3 MB, and at most 3 seconds of computing over a run without it."""
    found = results["breast cancer"]
    bundle = found.folder.with_name("breast cancer.bundle.tar")

    def seconds(folder: str, *options: str) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        results.learn(bundle, *options, folder=found.folder.with_name(folder))
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    without = min(seconds("without", "--no-report") for _ in range(2))
    with_page = min(seconds("with") for _ in range(2))
    print(f"{found.page.stat().st_size:,} bytes; {without:.2f} s without the page, {with_page:.2f} s with it")  # noqa: T201
    assert found.page.stat().st_size <= 3_000_000
    assert not (found.folder.with_name("without") / "report.html").exists()
    assert with_page - without <= 3.0


def test_empty_graph_is_told_in_one_sentence(results: Results, open_silent: Callable[..., Opened]) -> None:
    """Where no link was found the page says so, and that this shows no absence."""
    summary = open_silent(results["no edge"].page).page.locator("#summary").inner_text()

    assert "No link was found among the 15 pairs of columns" in summary
    assert "does not show that none is linked" in summary
    assert "go together" not in summary
