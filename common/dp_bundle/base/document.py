"""A page as one file: a template filled in, with its style, its scripts and its figures inside.

The page may load nothing and run nothing but the scripts that it was made with, which its content security policy names
by their digests. Text from strangers could not run even where it was not escaped.

The colours of every page, each for light and for dark paper; styles, figures and legends take them from here.

Figures are drawn in the colours for light paper, and a script swaps each for its partner when the paper is dark. So no
two shades may share a colour for light paper.

References
----------
Harrower & Brewer (2003), ColorBrewer.org, The Cartographic Journal 40, for the oranges of PuOr and the blues of RdBu,
which the colour-blind tell apart. Wong (2011), Points of view: Color blindness, Nature Methods 8, 441, for the first
communities.

Tables of a page: plain HTML that a reader can sort and filter, and that reads as well without a script.

Figures of a page: Bokeh models in the page's colours, as one JSON document that its script draws.

A model gets its name from the order in which it was made in this process. Here each is named by its place in the
document, so that the same figures give the same bytes.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from dp_bundle.base.quoting import escape, percent_at_most, printable

if TYPE_CHECKING:  # slow to import, and few pages have a figure
    from bokeh.models import HoverTool, LayoutDOM

ASSETS = Path(__file__).with_name("assets")
_POLICY = (
    "default-src 'none'; script-src {}; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
)
_ACTIVE = str.maketrans({each: f"\\u{ord(each):04x}" for each in "<>&\u2028\u2029"})


@dataclass(frozen=True)
class Page:
    """The parts of a page.

    Attributes
    ----------
    folder : Path
        The folder of its own templates and scripts.
    template : str
        The template in it, which extends base.html.
    title : str
        The page's title, which browsers show.
    values : mapping
        What the template is filled with, `page` and `toc` beside it. Text is escaped.
    figures : sequence of Figure
        What the template shows by the macro `figure`; the library that draws them is in the page if there is one.
    scripts : sequence of str
        Names of files in the folder with further scripts; they can wait for `dpgraph.ready`.
    data : mapping
        Numbers and names for those scripts, which find them under `dpgraph.data`.
    """

    folder: Path
    template: str
    title: str
    values: Mapping[str, Any]
    figures: Sequence[Figure] = ()
    scripts: Sequence[str] = ()
    data: Mapping[str, Any] | None = None


def render_page(page: Page) -> str:
    """Return a page as one HTML document that needs no network."""
    scripts, embedded = [], None
    if page.figures:
        scripts, embedded = [_bokeh()], embed(page.figures)
    scripts += [_read(ASSETS / "page.js"), *(_read(page.folder / name) for name in page.scripts)]
    own = {
        "title": page.title,
        "policy": _POLICY.format(" ".join(map(_digest, scripts))),
        "style": Markup(f"{style()}\n{_read(ASSETS / 'page.css')}"),  # noqa: S704  our own file
        "scripts": [Markup(script) for script in scripts],  # noqa: S704  our own, and Bokeh's
        "figures": as_json(embedded),
        "palette": as_json(PARTNERS),
        "data": as_json(page.data or {}),
    }
    return fill_template(page.folder, page.template, {**page.values, "page": own, "toc": []})


def fill_template(folder: Path, name: str, values: Mapping[str, Any]) -> str:
    """Return a template in a folder, filled in; text is escaped for HTML and XML, and not in .txt and .bib."""
    return _environment(folder).get_template(name).render(values)


def as_json(value: Any) -> Markup:
    """Return JSON for a script element: no character in it can end the element, or begin a comment or a tag."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Markup(text.translate(_ACTIVE))  # noqa: S704  escaped here


@cache
def _environment(folder: Path) -> Environment:
    environment = Environment(
        loader=FileSystemLoader([folder, ASSETS]),
        autoescape=select_autoescape((), ("txt", "bib"), default=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        optimized=False,  # a command fills most templates once, which takes less time than this would
    )
    environment.filters |= {"printable": escape, "number": number, "percent": percent_at_most}
    return environment


def _digest(script: str) -> str:
    """Return the source expression of a content security policy that allows this script."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


@cache
def _bokeh() -> str:
    """Return Bokeh's own script, without widgets and tables, and told to be quiet."""
    script = resources.files("bokeh").joinpath("server/static/js/bokeh.min.js").read_text(encoding="utf-8")
    return f'{script}\nBokeh.logger.set_level("warn");'


@cache
def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


FONT = "system-ui, 'Segoe UI', 'Helvetica Neue', 'Noto Sans', Arial, sans-serif"
_FIGURE_SIZE = "12px"


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
    from bokeh.plotting import figure

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
        axis.major_label_text_font_size = axis.axis_label_text_font_size = _FIGURE_SIZE
        axis.axis_label_text_font_style = "normal"
    for grid in made.grid:
        grid.grid_line_color = shade("grid").light
    return made


def hover(lines: Sequence[tuple[str, str]], **options: Any) -> HoverTool:
    """Return a tool that shows, in the page's colours, what the pointer is on.

    Parameters
    ----------
    lines : sequence of tuple of str
        A label, which may be empty, and what is shown after it. That is "@name" for a column of the source, which is
        shown as plain text, or "@share{0.0 %}".
    **options
        Further ones of `bokeh.models.HoverTool`, such as renderers.
    """
    from bokeh.models import HoverTool

    shown = [f'<span style="color:var(--quiet)">{html.escape(label)}</span> {text}'.strip() for label, text in lines]
    rows = "".join(f"<div>{each}</div>" for each in shown)
    style = f"font:13px/1.45 {FONT};color:var(--ink);max-width:20rem;overflow-wrap:anywhere".replace("'", "")
    return HoverTool(tooltips=f'<div style="{style}">{rows}</div>', **options)


def by_sign(field: str) -> dict[str, Any]:
    """Return the colour of a glyph by a column of its source that holds "+" and "-".

    Colours stand in mappers like this one, and in no source's column, where the page's script would not find them.
    """
    from bokeh.models import CategoricalColorMapper

    palette = [shade("positive").light, shade("negative").light]
    return {"field": field, "transform": CategoricalColorMapper(factors=["+", "-"], palette=palette)}


def embed(figures: Sequence[Figure]) -> dict[str, Any]:
    """Return what Bokeh's script takes: its document, and the figure's name for every root of it."""
    from bokeh.core.json_encoder import serialize_json
    from bokeh.document import Document

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
    if isinstance(part, dict) and isinstance(known := part.get("id"), str):
        part["id"] = names.setdefault(known, f"m{len(names)}")
    for value in part.values() if isinstance(part, dict) else part:
        if isinstance(value, dict | list):
            _renumber(value, names)


_MATHEMATICS = ("$$", "\\[", "\\(")  # what Bokeh would take for TeX, and load a library for
MINUS = "\N{MINUS SIGN}"
_NOT_ZERO = frozenset("123456789")


@dataclass(frozen=True)
class TableColumn:
    """One column of a table.

    Attributes
    ----------
    label : str
        Its heading.
    values : sequence of str or of float
        Names, or numbers; NaN and None are shown as nothing.
    form : str or callable or None
        The format of numbers, such as ".3f", or what spells one; None for names and other words.
    about : str
        One sentence on what it says, for the paragraph below the table.
    least : float
        Numbers below it are shown as such, "< 0.0001" say.
    """

    label: str
    values: Sequence[Any]
    form: str | Callable[[float], str] | None = None
    about: str = ""
    least: float = -math.inf


@dataclass(frozen=True)
class TableCell:
    """The text of a cell, and the number to sort it by."""

    text: str
    order: str = ""


@dataclass(frozen=True)
class PageTable:
    """A table with a caption.

    Attributes
    ----------
    name : str
        A short word, unique in the page, for links.
    caption : str
        What it holds, in one sentence.
    columns : sequence of Column
        All of the same length; the first is the heading of each row.
    more : str
        A sentence on rows that are left out, and where to find them.
    headings : int
        So many columns at the left name their row.
    """

    name: str
    caption: str
    columns: Sequence[TableColumn]
    more: str = ""
    headings: int = 1

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return len(self.columns[0].values)

    def rows(self) -> Iterator[list[TableCell]]:
        """Yield the cells of every row."""
        return map(list, zip(*([_cell(value, column) for value in column.values] for column in self.columns)))  # noqa: B905


def _cell(value: Any, column: TableColumn) -> TableCell:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return TableCell("")
    if column.form is None:
        return TableCell(str(value))
    if callable(column.form):
        return TableCell(column.form(value), f"{value:.9g}")
    text = f"< {column.least:g}" if value < column.least else number(value, column.form)
    return TableCell(text, f"{value:.9g}")


def number(value: float, form: str) -> str:
    """Return a number as it is printed: with a true minus sign, and small ones with one digit rather than as zero."""
    text = format(value, form)
    if value and not _NOT_ZERO.intersection(text):
        text = format(value, ("+" if form.startswith("+") else "") + ".1g")
    return text.replace("-", MINUS) if "e" not in text else text


def figure_text(name: str, longest: int = 40) -> str:
    """Return a name for an axis, a label or a hover: cut, and with nothing in it that Bokeh would read as TeX."""
    shown = printable(name)
    for mark in _MATHEMATICS:
        shown = shown.replace(mark, "\u200b".join(mark))
    return shown if len(shown) <= longest else f"{shown[: longest - 1]}…"


class Shade(NamedTuple):
    """One colour, as it is on light paper and on dark paper."""

    light: str
    dark: str


SHADES = {
    "paper": Shade("#ffffff", "#14181d"),
    "raised": Shade("#f4f6f8", "#1d232a"),
    "ink": Shade("#1a1f26", "#e8ebef"),
    "quiet": Shade("#55606d", "#a4aeba"),
    "line": Shade("#d5dae0", "#38414c"),
    "grid": Shade("#e8ebef", "#29313a"),
    "control": Shade("#76818e", "#828d99"),
    "link": Shade("#0b5394", "#8cc0f0"),
    "marked": Shade("#fff3d6", "#43361a"),
    "positive": Shade("#2065ab", "#72b4e8"),
    "negative": Shade("#b25708", "#f0983f"),
    "node": Shade("#6b7683", "#98a3af"),
    "faint": Shade("#c3cad2", "#4a5561"),
    "warning": Shade("#8a5a00", "#e6b450"),
    "beyond": Shade("#13893d", "#57d683"),  # no colour of a diverging scale
}

# Communities of a graph, in the order of their size, none like the two signs; further ones begin again.
COMMUNITIES = (
    Shade("#007d5c", "#2fc29a"),
    Shade("#a8487f", "#e39ac6"),
    Shade("#8a6d00", "#e3c64a"),
    Shade("#5b4bb3", "#a99df0"),
    Shade("#00788f", "#4cc3d9"),
    Shade("#803a3a", "#d98f8f"),
    Shade("#4f6574", "#9fb4c4"),
    Shade("#6b7d1f", "#b6cc5a"),
)

_DIVERGING_LIGHT = "7f3b08b35806e08214fdb863fee0b6f7f7f7d1e5f092c5de4393c32166ac053061"  # six digits a colour
_DIVERGING_DARK = "ffd9adf7b060d983249a5b1d573a1e242b331f3f572a648d3f8fc47dbbe8cbe6f9"
_SEQUENTIAL_LIGHT = "f7fbffdeebf7c6dbef9ecae16baed64292c62171b508519c08306b"
_SEQUENTIAL_DARK = "1b21291d2f42204261245a872b75ad3f90cb66acdd97c8ecd2e8f8"
_STEPS = 4  # between two colours of a scale


def shade(name: str) -> Shade:
    """Return one of the named shades: paper, ink, line, positive, negative and so on."""
    return SHADES[name]


def _scale(light: str, dark: str) -> tuple[Shade, ...]:
    return tuple(map(Shade, _finer(light), _finer(dark)))


def _finer(colours: str) -> list[str]:
    """Return the colours with others between them, in equal steps of red, green and blue."""
    known = [bytes.fromhex(colours[place : place + 6]) for place in range(0, len(colours), 6)]
    finer = [
        bytes(round(old + (new - old) * step / _STEPS) for old, new in zip(first, second, strict=True))
        for first, second in pairwise(known)
        for step in range(_STEPS)
    ]
    return [f"#{colour.hex()}" for colour in [*finer, known[-1]]]


DIVERGING = _scale(_DIVERGING_LIGHT, _DIVERGING_DARK)  # from the most negative to the most positive
SEQUENTIAL = _scale(_SEQUENTIAL_LIGHT, _SEQUENTIAL_DARK)  # from nothing to much


PARTNERS = dict([*SHADES.values(), *COMMUNITIES, *DIVERGING, *SEQUENTIAL])  # dark paper's colour, by light paper's


def style() -> str:
    """Return the shades as CSS variables, which follow the colour scheme."""
    named = [(name, *pair) for name, pair in SHADES.items()]
    named += [(f"community-{place}", *pair) for place, pair in enumerate(COMMUNITIES)]
    lines = [f"  --{name}: light-dark({light}, {dark});" for name, light, dark in named]
    return "\n".join([":root {", *lines, "}"])
