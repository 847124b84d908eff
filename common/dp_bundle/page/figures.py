"""Figures of a page: Bokeh models in the page's colours, as one JSON document that its script draws.

A model gets its name from the order in which it was made in this process; here each is named by its place in the
document, so that the same figures give the same bytes.
"""

import html
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bokeh.core.json_encoder import serialize_json
from bokeh.document import Document
from bokeh.models import CategoricalColorMapper, HoverTool, LayoutDOM
from bokeh.plotting import figure

from dp_bundle.page.colours import shade

FONT = "system-ui, 'Segoe UI', 'Helvetica Neue', 'Noto Sans', Arial, sans-serif"
_SIZE = "12px"


@dataclass(frozen=True, eq=False)
class Figure:
    """A figure with everything that is said of it.

    Attributes
    ----------
    name : str
        A short word, unique in the page, for links and scripts.
    title : str
        A few words.
    caption : str
        One to three sentences on how to read it.
    alternative : str
        What it shows, for those who cannot see it: the result in a sentence or two, and the table with its numbers.
    model : LayoutDOM
        What Bokeh draws; see `new_figure`.
    """

    name: str
    title: str
    caption: str
    alternative: str
    model: LayoutDOM


def new_figure(*, height: int = 360, **options: Any) -> Any:
    """Return an empty Bokeh figure in the style of the page, as wide as its place, without toolbar, pan and zoom.

    Parameters
    ----------
    height : int
        In pixels of the screen.
    **options
        Further ones of `bokeh.plotting.figure`, such as x_axis_label, x_axis_type, x_range.
    """
    usual: dict[str, Any] = {"sizing_mode": "stretch_width", "tools": "", "toolbar_location": None}
    made = figure(height=height, **{**usual, **options})
    made.background_fill_color = made.border_fill_color = None
    made.outline_line_color = None
    made.min_border_right = 12
    for axis in made.axis:
        axis.axis_line_color = axis.major_tick_line_color = shade("control").light
        axis.minor_tick_line_color = None
        axis.major_label_text_color = axis.axis_label_text_color = shade("ink").light
        axis.major_label_text_font = axis.axis_label_text_font = FONT
        axis.major_label_text_font_size = axis.axis_label_text_font_size = _SIZE
        axis.axis_label_text_font_style = "normal"
    for grid in made.grid:
        grid.grid_line_color = shade("grid").light
    return made


def hover(lines: Sequence[tuple[str, str]], **options: Any) -> HoverTool:
    """Return a tool that shows, in the page's colours, what the pointer is on.

    Parameters
    ----------
    lines : sequence of tuple of str
        A label, which may be empty, and what is shown after it: "@name" for a column of the source, which is shown as
        plain text, or "@share{0.0 %}".
    **options
        Further ones of `bokeh.models.HoverTool`, such as renderers.
    """
    shown = [f'<span style="color:var(--quiet)">{html.escape(label)}</span> {text}'.strip() for label, text in lines]
    rows = "".join(f"<div>{each}</div>" for each in shown)
    style = f"font:13px/1.45 {FONT};color:var(--ink);max-width:20rem;overflow-wrap:anywhere".replace("'", "")
    return HoverTool(tooltips=f'<div style="{style}">{rows}</div>', **options)


def by_sign(field: str) -> dict[str, Any]:
    """Return the colour of a glyph by a column of its source that holds "+" and "-".

    Colours stand in mappers like this one, and in no source's column, where the page's script would not find them.
    """
    palette = [shade("positive").light, shade("negative").light]
    return {"field": field, "transform": CategoricalColorMapper(factors=["+", "-"], palette=palette)}


def embed(figures: Sequence[Figure]) -> dict[str, Any]:
    """Return what Bokeh's script takes: its document, and the figure's name for every root of it."""
    document = Document(title="")
    with document.models.freeze():  # what a root refers to is searched once, at the end
        for each in figures:
            document.add_root(each.model)
    found: dict[str, Any] = json.loads(serialize_json(document.to_json(deferred=False)))
    _renumber(found, {})
    roots = {root["id"]: each.name for root, each in zip(found["roots"], figures, strict=True)}
    return {"document": found, "roots": roots}


def _renumber(part: Any, names: dict[str, str]) -> None:
    """Name every model by its place in the document; objects with an id are models, and nothing else is."""
    if isinstance(part, dict):
        if isinstance(known := part.get("id"), str):
            part["id"] = names.setdefault(known, f"m{len(names)}")
        for value in part.values():
            _renumber(value, names)
    elif isinstance(part, list):
        for value in part:
            _renumber(value, names)
