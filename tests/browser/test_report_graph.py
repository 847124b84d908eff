"""The graph and the tables of a result's page, used by pointer and keyboard, and held against edges.csv."""

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from playwright.sync_api import Page
from tests.browser.opening import Opened
from tests.browser.results import Result, Results
from tests.browser.test_report import wait_for_figures

pytestmark = pytest.mark.browser

_DATA = "name => { const data = Bokeh.documents[0].get_model_by_name(name).data; return {...data}; }"
_N_DRAWN = "() => Bokeh.documents[0].get_model_by_name('graph-edges').data.x0.length"
_ON_SCREEN = """([x, y]) => {
  const home = document.getElementById("graph");
  const view = [...Bokeh.index.roots].find(each => home.contains(each.el));
  view.el.scrollIntoView({block: "center"});
  const box = view.el.getBoundingClientRect();
  return [box.x + view.frame.x_scale.compute(x), box.y + view.frame.y_scale.compute(y)];
}"""


@pytest.fixture(params=["breast cancer", "hostile"])
def found(request: pytest.FixtureRequest, results: Results) -> Result:
    """Return a result with error bars or without, or with names that are hard to show."""
    return results[request.param]


@pytest.fixture
def page(found: Result, open_silent: Callable[..., Opened]) -> Page:
    """Open its page."""
    page = open_silent(found.page).page
    wait_for_figures(page)
    return page


def strengths(found: Result) -> np.ndarray:
    """Return the strengths of all edges with the five digits that the page has of them."""
    return np.array([float(f"{value:.5g}") for value in found.edges["partial_correlation"].abs()])


def degrees(found: Result) -> pd.Series:
    """Return the number of edges of every column that has one."""
    return pd.concat([found.edges["source"], found.edges["target"]]).value_counts()


def signed(value: float, digits: int) -> str:
    """Return a number as the page writes it."""
    return f"{value:+.{digits}f}".replace("-", "\N{MINUS SIGN}")


def tooltips(page: Page, x: float, y: float) -> str:
    """Return what is shown while the pointer is on this point of the graph."""
    across, down = page.evaluate(_ON_SCREEN, [x, y])
    page.mouse.move(1, 1)
    page.locator(".bk-tooltip-content").first.wait_for(state="hidden")
    page.mouse.move(across - 2, down - 2)
    page.mouse.move(across, down)
    page.locator(".bk-tooltip-content:visible").first.wait_for()
    return " | ".join(page.locator(".bk-tooltip-content:visible").all_inner_texts())


def test_hovering_over_an_edge_tells_its_numbers(page: Page, found: Result) -> None:
    """On a line are both names, the value, and with error bars the interval and the q-value, as in edges.csv."""
    drawn = page.evaluate(_DATA, "graph-middles")
    for edge in found.edges.head(4).to_dict("records"):
        value = signed(float(f"{edge['partial_correlation']:.5g}"), 3)
        place = next(place for place, said in enumerate(drawn["value"]) if said.endswith(value))
        middle = [(drawn[f"{axis}0"][place] + drawn[f"{axis}1"][place]) / 2 for axis in "xy"]
        text = tooltips(page, *middle)

        assert value in text
        assert edge["source"][:20] in text
        if "q_value" in edge:
            assert f"{signed(edge['ci_low'], 3)} to {signed(edge['ci_high'], 3)}" in text
            assert "q-value" in text


def test_slider_draws_the_edges_that_are_strong_enough(page: Page, found: Result) -> None:
    """At every position, by keyboard, the edges drawn are as many as edges.csv has of that strength."""
    sizes = strengths(found)
    slider = page.locator("#graph-strength")
    slider.focus()
    page.keyboard.press("Home")
    assert page.evaluate(_N_DRAWN) == len(sizes)
    for _ in range(6):
        page.keyboard.press("PageUp")
        least = int(slider.input_value()) / 100 * max(sizes.max(), 0.01)

        assert page.evaluate(_N_DRAWN) == np.count_nonzero(sizes >= least)
        assert (
            page.locator("#graph-shown").inner_text().startswith(f"{np.count_nonzero(sizes >= least)} of {len(sizes)}")
        )
    page.keyboard.press("End")
    assert page.evaluate(_N_DRAWN) == np.count_nonzero(sizes >= sizes.max())


def test_click_keeps_a_node_and_its_neighbours(page: Page, found: Result) -> None:
    """A click on a disc leaves the edges of that column, all others faint; a second click brings them back."""
    numbers = degrees(found)
    nodes = page.evaluate(_DATA, "graph-nodes")
    name = next(name for name in numbers.index if name in nodes["name"])
    place = nodes["name"].index(name)
    page.mouse.click(*page.evaluate(_ON_SCREEN, [nodes["x"][place], nodes["y"][place]]))
    page.wait_for_timeout(400)

    assert page.evaluate(_N_DRAWN) == numbers[name]
    edges = found.edges
    near = {name, *edges["target"][edges["source"] == name], *edges["source"][edges["target"] == name]}
    kept = page.evaluate(_DATA, "graph-nodes")
    bright = {shown for shown, alpha in zip(kept["name"], kept["alpha"], strict=True) if alpha == 1}
    assert len(bright) == len(near)
    page.mouse.click(*page.evaluate(_ON_SCREEN, [nodes["x"][place], nodes["y"][place]]))
    page.wait_for_timeout(400)
    assert page.evaluate(_N_DRAWN) == len(edges)


def test_table_is_sorted_by_its_numbers(page: Page, found: Result) -> None:
    """A heading, by Enter and by Space, sorts the rows as pandas does, from the largest and from the smallest."""
    heading = page.locator("#edges-table thead button", has_text="Partial correlation")
    rows = "table => [...table.tBodies[0].rows].map(row => [row.cells[0].textContent, row.cells[1].textContent])"
    for key, ascending in (("Enter", False), ("Space", True)):
        heading.press(key)
        strong = found.edges.query("abs(partial_correlation) >= 0.1")
        wanted = strong.sort_values("partial_correlation", ascending=ascending, kind="stable")

        shown = page.locator("#edges-table table").evaluate(rows)
        assert shown == wanted[["source", "target"]].to_numpy().tolist()
        head = page.locator("#edges-table thead th[aria-sort]")
        assert head.get_attribute("aria-sort") == ("ascending" if ascending else "descending")
