"""The desk's page: its frame, its form, and the parts of it that change with every answer."""

import math
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from dp_bundle.base.quoting import counted, escape
from dp_bundle.catalog.pages import hundred_guesses
from dp_bundle.describe.sentences import of_hundred
from dp_bundle.page.colours import style
from dp_bundle.page.document import ASSETS as COMMON
from dp_publish.data.dialect import is_text_file
from dp_publish.desk.answer import SLIDER, Answer
from dp_publish.desk.document import DATASET, WRITTEN, column_field, shown_fields
from dp_publish.desk.session import Session, Work
from dp_publish.desk.table import Opened
from dp_publish.desk.words import ABOUT, FIELDS, in_form
from dp_publish.forecast.outlook import ForecastRow
from dp_publish.forecast.strengths import printed_mu

_ASSETS = Path(__file__).with_name("assets")
_STEPS = 200  # of the slider
_WIDTH, _HEIGHT = 360, 210
_LEFT, _RIGHT, _TOP, _BOTTOM = 38, 8, 10, 40  # margins
_TICKS = (0.1, 0.3, 1.0, 3.0, 10.0)
_DONE = {
    "publish": "Publishing",
    "plan": "Forecasting other strengths",
    "look": "Looking at all rows",
    "audit": "Attacking made-up releases",
}


@cache
def files() -> dict[str, tuple[str, str]]:
    """Return the files of the frame, by name: their type and their content; nothing in them is of the table."""
    label = (COMMON.parents[1] / "catalog" / "assets" / "label.css").read_text(encoding="utf-8")
    styles = [style(), (COMMON / "page.css").read_text(encoding="utf-8"), label]
    return {
        "": ("text/html", (_ASSETS / "frame.html").read_text(encoding="utf-8")),
        "desk.css": ("text/css", "\n".join([*styles, (_ASSETS / "desk.css").read_text(encoding="utf-8")])),
        "desk.js": ("text/javascript", (_ASSETS / "desk.js").read_text(encoding="utf-8")),
    }


@cache
def _templates() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_ASSETS),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["printable"] = escape
    environment.filters["in_form"] = in_form
    environment.filters["lines"] = lambda text: "\n".join(map(escape, text.split("\n")))
    environment.filters["lines_in_form"] = lambda text: "\n".join(map(in_form, text.split("\n")))
    return environment


def render_desk(answer: Answer, session: Session) -> str:
    """Return the form, filled in."""
    desk = session.desk
    fields = {**shown_fields(desk.text, desk.columns), "anyway": "", **session.fields}
    columns = [
        {"name": name, "seems": desk.opened.seems[name], "prefix": column_field(number, "")}
        for number, name in enumerate(desk.columns)
    ]
    return (
        _templates()
        .get_template("desk.html")
        .render(
            session=session,
            fields=fields,
            columns=columns,
            words=FIELDS,
            about={name: ABOUT[name] for name in DATASET},
            written=WRITTEN if is_text_file(session.asked.data) else (),
            size=_size(desk.opened),
            seen=f"{'all' if desk.opened.n_seen >= desk.opened.n_rows else 'the first'} {desk.opened.n_seen:,} rows",
            steps=_STEPS,
            position=_position(answer),
            **_parts(answer, session),
        )
    )


def _size(opened: Opened) -> str:
    if opened.problem:
        return "It cannot be read yet"
    return f"{counted(opened.n_rows, 'row')}, {counted(len(opened.table.types), 'column')}"


def state(answer: Answer, session: Session) -> dict[str, Any]:
    """Return what the page changes after an answer: parts by their ids, objections by field, and what may be done."""
    columns = {
        column_field(number, "state"): answer.left_out.get(name, "") for number, name in enumerate(session.desk.columns)
    }
    filled = _parts(answer, session)
    return {
        "parts": {name: _templates().get_template(f"{name}.html").render(filled) for name in _PARTS},
        "objections": {where: " ".join(map(in_form, said)) for where, said in answer.objections.items()},
        "columns": {where: _left_out(why) for where, why in columns.items()},
        "position": _position(answer),
        "publishable": answer.can_publish and not answer.refusals,
        "refused": bool(answer.refusals),
        "savable": answer.is_read,
        "key": session.key_of(answer),
        "reading": session.desk.reading,
        "dirty": answer.text != session.desk.text,
    }


_PARTS = ("promise", "forecast", "standing", "policy", "sure", "account", "saved")


def _parts(answer: Answer, session: Session) -> dict[str, Any]:
    promise, desk = answer.promise, session.desk
    numbers = {column_field(number, ""): name for number, name in enumerate(desk.columns)}
    return {
        "answer": answer,
        "promise": promise,
        "dots": None if promise is None else hundred_guesses(of_hundred(promise.right)),
        "picture": _draw_forecast(answer),
        "where": [(where, _heading(where, numbers), said) for where, said in answer.objections.items()],
        "asked": session.asked,
        "is_new": session.saved is None,
    }


def _heading(where: str, columns: dict[str, str]) -> str:
    """Return what an objection is about, as a person calls it."""
    prefix, _, entry = where.rpartition("-")
    if f"{prefix}-" in columns:
        return f"{columns[f'{prefix}-']}: "
    name = ABOUT.get(entry) if prefix == "dataset" else FIELDS.get(entry, {}).get("label", entry)
    return f"{name}: " if where else ""


def _left_out(why: str) -> str:
    return "" if not why else "left out" if why == "dropped" else f"left out: {why}"


def _position(answer: Answer) -> int | None:
    """Return where the slider is at the strength of the answer; None if it says nothing of one."""
    if answer.row is None:
        return None
    low, high = SLIDER
    mu = min(max(answer.row.mu, low), high)
    return round(_STEPS * math.log(mu / low) / math.log(high / low))


def work_state(work: Work | None, session: Session) -> dict[str, Any]:
    """Return what the page shows of the work that was begun last."""
    if work is None:
        return {"running": False, "html": ""}
    code = work.code  # as it is now: it may end at any moment
    of = work.step.get("of") or (session.desk.opened.n_rows if "rows" in work.step else None)
    shown = session.page_of(work.what) if code == 0 else None
    said = [line for line in work.told if not work.cancelled or line.startswith(("error:", "note:"))]
    if work.what == "publish" and code == 0 and shown is None:
        label = session.asked.bundle.with_name(f"{session.asked.name}.bundle.html")
        if label.is_file():
            session.show("publish", label)
            shown = session.page_of("publish")
    text = _templates().get_template("work.html")
    return {
        "running": code is None,
        "published": work.what == "publish" and code == 0,
        "html": text.render(
            work=work, code=code, said=said, doing=_DONE[work.what], of=of, shown=shown, session=session
        ),
    }


def _draw_forecast(answer: Answer) -> Markup:
    """Return what is seen at each strength, and where the slider is, as a drawing; nothing without a forecast."""
    if answer.row is None or not answer.curve:
        return Markup()

    def across(mu: float) -> float:
        share = math.log(mu / SLIDER[0]) / math.log(SLIDER[1] / SLIDER[0])
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * min(max(share, 0.0), 1.0)

    parts = [_axis(across)]
    for kind in ("rows", "covariance"):
        points = [(across(row.mu), _down(seen)) for row in answer.curve if (seen := row.of(kind).seen) is not None]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f'<polyline class="{kind}" points="{line}"/>' if points else "")

    at, seen = across(answer.row.mu), answer.row.of(answer.release).seen
    parts.append(f'<line class="here" x1="{at:.1f}" x2="{at:.1f}" y1="{_TOP}" y2="{_HEIGHT - _BOTTOM}"/>')
    if seen is not None:
        parts.append(f'<circle class="{answer.release}" cx="{at:.1f}" cy="{_down(seen):.1f}" r="5"/>')
    says = _alternative(answer.row, answer.release)
    head = f'<svg class="forecast" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{says}">'
    return Markup(f"{head}{''.join(parts)}</svg>")  # noqa: S704  numbers and words of ours


def _axis(place: Callable[[float], float]) -> str:
    base = _HEIGHT - _BOTTOM
    lines = [
        f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{_down(rho):.1f}" y2="{_down(rho):.1f}"/>'
        f'<text x="{_LEFT - 6}" y="{_down(rho) + 4:.1f}" text-anchor="end">{rho:g}</text>'
        for rho in (0.0, 0.25, 0.5, 0.75, 1.0)
    ]
    lines += [f'<text x="{place(mu):.1f}" y="{base + 16}" text-anchor="middle">{mu:g}</text>' for mu in _TICKS]
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    lines.append(
        f'<text x="{middle:.1f}" y="{_HEIGHT - 6}" text-anchor="middle">mu: weaker protection to the right</text>'
    )
    return "".join(lines)


def _down(rho: float) -> float:
    return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (1.0 - min(rho, 1.0))


def _alternative(row: ForecastRow, release: str) -> str:
    seen = row.of(release).seen
    shown = "no partial correlation" if seen is None else f"partial correlations from {seen:.2g} on"
    what = "noisy rows" if release == "rows" else "second moments"
    return f"Forecast: at mu = {printed_mu(row.mu)}, {what} show {shown}."
