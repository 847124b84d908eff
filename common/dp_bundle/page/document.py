"""A page as one file: a template filled in, with its style, its scripts and its figures inside.

The page may load nothing and run nothing but the scripts that it was made with, which its content security policy
names by their digests: text from strangers could not run even where it was not escaped.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from dp_bundle.base.quoting import escape, percent_at_most
from dp_bundle.page.colours import PARTNERS, style
from dp_bundle.page.tables import number

if TYPE_CHECKING:
    from dp_bundle.page.figures import Figure

ASSETS = Path(__file__).with_name("assets")
_POLICY = (
    "default-src 'none'; script-src {}; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
)
_ACTIVE = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


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
        from dp_bundle.page.figures import embed

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
    """Return a template in a folder, filled in; text is escaped for HTML and XML."""
    return _environment(folder).get_template(name).render(values)


def as_json(value: Any) -> Markup:
    """Return JSON for a script element: no character in it can end the element, or begin a comment or a tag."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Markup("".join(_ACTIVE.get(letter, letter) for letter in text))  # noqa: S704  escaped here


@cache
def _environment(folder: Path) -> Environment:
    environment = Environment(
        loader=FileSystemLoader([folder, ASSETS]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
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
