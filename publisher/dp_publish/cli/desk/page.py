"""The desk's page: its frame, its form, and the parts of it that change with every answer."""

import math
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from dp_bundle.base.document import ASSETS as COMMON
from dp_bundle.base.document import fill_template, style
from dp_bundle.base.quoting import counted, escape
from dp_bundle.catalog.pages import hundred_guesses
from dp_bundle.describe.sentences import of_hundred
from dp_publish.cli.desk.answer import SLIDER, Answer
from dp_publish.cli.desk.document import DATASET, WRITTEN, column_field, shown_fields
from dp_publish.cli.desk.session import Session, Work
from dp_publish.cli.desk.words import FIELDS, TERMS, capital, in_form
from dp_publish.data.dialect import is_text_file
from dp_publish.forecast.assumptions import describe_spread
from dp_publish.forecast.strengths import printed_mu
from dp_publish.policy.model import DatasetPolicy

_ASSETS = Path(__file__).with_name("assets")
_STEPS = 200  # of the slider
_ACROSS, _DOWN = (38, 352), (10, 170)  # of the drawing in forecast.html, where its axes begin and end
_LEVELS, _TICKS = (0.0, 0.25, 0.5, 0.75, 1.0), (0.1, 0.3, 1.0, 3.0, 10.0)
_PARTS = ("promise", "forecast", "standing", "policy", "sure", "account", "saved")


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


def _render(name: str, **given: Any) -> str:
    words = {"in_form": in_form, "escape": escape, "counted": counted, "lines": _lines}
    return fill_template(_ASSETS, f"{name}.html", words | given)


def _lines(text: str, say: Callable[[str], str]) -> str:
    """Return a text of several lines, each in some words."""
    return "\n".join(map(say, text.split("\n")))


def render_desk(answer: Answer, session: Session) -> str:
    """Return the form, filled in."""
    desk = session.desk
    return _render(
        "desk",
        session=session,
        opened=desk.opened,
        fields={**shown_fields(desk.text, desk.columns), "anyway": "", **session.fields},
        words=FIELDS,
        terms=TERMS,
        about={name: capital(DatasetPolicy.model_fields[name].description or "") for name in DATASET},
        written=WRITTEN if is_text_file(session.asked.data) else (),
        steps=_STEPS,
        position=_position(answer),
        **_parts(answer, session),
    )


def state(answer: Answer, session: Session) -> dict[str, Any]:
    """Return what the page changes after an answer: parts by their ids, objections by field, and what may be done."""
    desk, filled = session.desk, _parts(answer, session)
    left_out = enumerate(answer.left_out.get(name, "") for name in desk.columns)
    return {
        "parts": {name: _render(name, **filled) for name in _PARTS},
        "objections": {where: " ".join(map(in_form, said)) for where, said in answer.objections.items()},
        "columns": {
            column_field(number, "state"): why and ("left out" if why == "dropped" else f"left out: {why}")
            for number, why in left_out
        },
        "position": _position(answer),
        "publishable": answer.can_publish and not answer.refusals,
        "refused": bool(answer.refusals),
        "savable": answer.is_read,
        "key": session.key_of(answer),
        "reading": desk.reading,
        "dirty": answer.text != desk.text,
    }


def _parts(answer: Answer, session: Session) -> dict[str, Any]:
    promise = answer.promise
    columns = {column_field(number, ""): name for number, name in enumerate(session.desk.columns)}
    return {
        "answer": answer,
        "columns": columns,
        "promise": promise,
        "dots": None if promise is None else hundred_guesses(of_hundred(promise["right"])),
        "picture": _draw_forecast(answer),
        "where": [(where, _heading(where, columns), said) for where, said in answer.objections.items()],
        "asked": session.asked,
        "is_new": session.saved is None,
    }


def _heading(where: str, columns: dict[str, str]) -> str:
    """Return what an objection is about, as a person calls it."""
    prefix, _, entry = where.rpartition("-")
    if f"{prefix}-" in columns:
        return f"{columns[f'{prefix}-']}: "
    return f"{FIELDS.get(entry, {}).get('label', entry)}: " if where else ""


def _position(answer: Answer) -> int | None:
    """Return where the slider is at the strength of the answer; None if it says nothing of one."""
    return None if answer.outlook is None else round(_STEPS * _share(answer.outlook.mu))


def work_state(work: Work | None, session: Session) -> dict[str, Any]:
    """Return what the page shows of the work that was begun last."""
    if work is None:
        return {"running": False, "html": ""}
    code = work.code  # as it is now: it may end at any moment
    of = work.step.get("of") or (session.desk.opened.n_rows if "rows" in work.step else None)
    shown = session.page_of(work.what) if code == 0 else None
    said = [line for line in work.told if not work.cancelled or line.startswith(("error:", "note:"))]
    return {
        "running": code is None,
        "published": work.what == "publish" and code == 0,
        "html": _render("work", work=work, code=code, said=said, of=of, shown=shown, session=session),
    }


def _draw_forecast(answer: Answer) -> dict[str, Any] | None:
    """Return what is drawn of the forecast, and where; None without one.

    The lines join what is seen at each strength, of either kind of release; the mark is at the strength in the form.
    """
    row = answer.outlook
    if row is None or not answer.curve:
        return None
    shown = {kind: [(each.mu, each.of(kind).seen) for each in answer.curve] for kind in ("rows", "covariance")}
    seen = row.shown.seen
    return {
        "x": _ACROSS,
        "y": _DOWN,
        "levels": {rho: _down(rho) for rho in _LEVELS},
        "ticks": {mu: _across(mu) for mu in _TICKS},
        "lines": {
            kind: [(_across(mu), _down(rho)) for mu, rho in points if rho is not None] for kind, points in shown.items()
        },
        "at": _across(row.mu),
        "mark": None if seen is None else _down(seen),
        "mu": printed_mu(row.mu),
        "seen": seen,
        "release": row.planned.release,
        "assumed": describe_spread(row.planned.policy),
    }


def _across(mu: float) -> float:
    left, right = _ACROSS
    return left + (right - left) * _share(mu)


def _share(mu: float) -> float:
    """Return where a strength is on the slider, as a share of its length."""
    low, high = SLIDER
    return math.log(min(max(mu, low), high) / low) / math.log(high / low)


def _down(rho: float) -> float:
    top, bottom = _DOWN
    return bottom - (bottom - top) * min(rho, 1.0)
