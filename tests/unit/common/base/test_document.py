"""Pages: nothing that strangers wrote is acted on, nothing is loaded, and the same content gives the same bytes."""

import base64
import hashlib
import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from bokeh.models import ColumnDataSource

from dp_bundle.base.document import (
    Figure,
    Page,
    PageTable,
    TableColumn,
    as_json,
    figure_text,
    new_figure,
    number,
    render_page,
    shade,
)

HOSTILE = [
    "</script><script>alert(1)</script>",
    "{{7*7}}",
    "{% raw %}",
    "<!--<script>",
    '" onload="alert(1)',
    "\u202etxet",
    "$$x$$",
    "a\u2028b",
    "列名",
    "x" * 500,
]
TEMPLATE = """{% extends "base.html" %}
{% from "parts.html" import section, figure, table, name, facts %}
{% block main %}
{% call section(toc, "one", "One") %}
{% for each in names %}<p>{{ name(each) }}</p>{% endfor %}
{{ table(rows) }}
{{ facts(pairs) }}
{% for each in drawings %}{{ figure(each) }}{% endfor %}
{% endcall %}
{% endblock %}
"""
LOADING = {"script": "src", "img": "src", "link": "href", "iframe": "src", "object": "data", "source": "src"}


class Elements(HTMLParser):
    """The elements of a page: their tags with attributes, and the text of all scripts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.text = ""
        self._in = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep an element."""
        self.found.append((tag, dict(attrs)))
        self._in = tag if tag in {"script", "style"} else ""
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, _: str) -> None:
        """Leave a script or a style."""
        self._in = ""

    def handle_data(self, data: str) -> None:
        """Keep a text."""
        if self._in == "script":
            self.scripts[-1] += data
        elif not self._in:
            self.text += data


def drawing(names: list[str]) -> Figure:
    """Return a figure with names in it."""
    plot = new_figure(x_axis_label="x", y_axis_label="y")
    rows = ColumnDataSource({"x": [*range(len(names))], "name": [figure_text(name) for name in names]})
    plot.scatter("x", "x", source=rows, color=shade("positive").light)
    return Figure("plot", "A plot", "How to read it.", "What it shows.", plot)


def make_page(folder: Path, names: list[str]) -> str:
    """Return a page with everything in it."""
    (folder / "own.html").write_text(TEMPLATE, encoding="utf-8")
    (folder / "own.js").write_text("void dpgraph.data;", encoding="utf-8")
    numbers = [float(place) for place in range(len(names))]
    table = PageTable("rows", "Rows.", [TableColumn("Name", names), TableColumn("Number", numbers, ".2f")])
    drawings = [drawing(names)]
    values = {"names": names, "rows": table, "pairs": [(names[0], names)], "drawings": drawings}
    return render_page(Page(folder, "own.html", names[0], values, drawings, ["own.js"], {"names": names}))


def test_text_of_strangers_makes_no_element(tmp_path: Path) -> None:
    """Hostile names give the elements that harmless names give, and are shown as they are."""
    hostile, harmless = (Elements(make_page(tmp_path, names)) for names in (HOSTILE, ["name"] * len(HOSTILE)))
    assert [tag for tag, _ in hostile.found] == [tag for tag, _ in harmless.found]
    assert not [name for _, attributes in hostile.found for name in attributes if name.startswith("on")]
    for shown in ("{{7*7}}", "{% raw %}", "<!--<script>", '" onload="alert(1)', "列名", "\\u202etxet"):
        assert shown in hostile.text
    assert json.loads(hostile.scripts[2])["names"] == HOSTILE


def test_json_in_a_page_cannot_end_its_element() -> None:
    """JSON for a script element has no bracket of a tag and no line separator in it, and reads back as it was."""
    text = str(as_json({"names": HOSTILE}))
    assert not re.search("[<>&\u2028\u2029]", text)
    assert json.loads(text) == {"names": HOSTILE}


def test_page_loads_nothing_and_runs_its_own_scripts_alone(tmp_path: Path) -> None:
    """No element loads a file, and the policy of the page names every script that it runs by its digest."""
    page = Elements(make_page(tmp_path, HOSTILE))
    assert not [tag for tag, attributes in page.found if LOADING.get(tag, "") in attributes]
    policy = next(each["content"] for tag, each in page.found if each.get("http-equiv") == "Content-Security-Policy")
    kinds = [attributes.get("type") for tag, attributes in page.found if tag == "script"]
    running = [script for script, kind in zip(page.scripts, kinds, strict=True) if kind is None]
    digests = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in running]
    assert len(digests) == 3
    assert policy.startswith("default-src 'none'; script-src " + " ".join(f"'sha256-{digest}'" for digest in digests))


@pytest.mark.slow
def test_same_content_gives_the_same_bytes(tmp_path: Path) -> None:
    """A page does not depend on what was drawn before it in the process, or on the order of sets."""
    first = make_page(tmp_path, HOSTILE)
    drawing(["another"])
    assert make_page(tmp_path, HOSTILE) == first
    script = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); from pathlib import Path;"
        f"from test_document import *; sys.stdout.write(hashlib.sha256(make_page(Path({str(tmp_path)!r}), HOSTILE)"
        ".encode()).hexdigest())"
    )
    for seed in ("1", "2"):
        run = [sys.executable, "-c", script]
        done = subprocess.run(run, capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": seed})
        assert done.stdout == hashlib.sha256(first.encode()).hexdigest()


def test_names_in_figures_are_no_formulas() -> None:
    """A name that Bokeh would take for TeX, and load a library for, is only text, and a long one is cut."""
    for mark in ("$$", "\\[", "\\("):
        assert mark not in figure_text(f"{mark}x{mark}")
    assert figure_text("x" * 50, longest=10) == "xxxxxxxxx…"


def test_numbers_are_printed_with_a_minus_and_never_as_zero() -> None:
    """A negative number has a minus sign, and one too small for its decimals has one digit."""
    assert number(-0.25, "+.3f") == "\N{MINUS SIGN}0.250"
    assert number(0.0001, "+.3f") == "+0.0001"
    assert number(-1e-9, ".3f") == "-1e-09"
    assert number(0.0, "+.3f") == "+0.000"
