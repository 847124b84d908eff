"""The fields of the form, and the policy's text: a field that is changed changes its entry, and all else stays.

A field is text, as a browser has it. What a policy says is shown in fields once. Afterwards only fields that were
changed are read, so that comments, order, spelling and entries that have no field are kept. What is typed is a number
or a date where it can be one, and else a text. What an entry may be, the policy says.
"""

import datetime
import math
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import tomlkit
import tomlkit.items

from dp_bundle.base.errors import PolicyError
from dp_publish.data.kinds import KINDS
from dp_publish.policy.choices import STRENGTHS

DATASET = ("title", "description", "creator", "license", "contact", "url", "citation")
WRITTEN = ("delimiter", "decimal", "encoding", "header")  # of a text file
_ALONE = ("kind", "missing", "format", "unit", "description", "other", "drop", "max_change")  # entries of a column
_TOGETHER = ("levels", "range", "low", "high")  # fields of a column that are an entry only together with others
IN_COLUMN = (*_ALONE, *_TOGETHER)
_OF_MOMENTS = ("mechanism", "neighbours", "scale")
_WHOLE = re.compile(r"[+-]?\d{1,18}")
_DECIMAL = re.compile(r"[+-]?(?:\d+(?:[.,]\d*)?|[.,]\d+)(?:[eE][+-]?\d+)?")
Fields = Mapping[str, str]
Place = tuple[str, ...]


def new_policy(source: str, name: str) -> str:
    """Return the text of a policy that leaves everything to dp-publish."""
    quoted, called = (tomlkit.item(text).as_string() for text in (source, name))
    sections = f"[dataset]\nname = {called}\n\n[privacy]\nmu = 1.0\n"
    return f"# What dp-publish may do with {quoted}.\n\n{sections}"


def column_field(number: int, entry: str) -> str:
    """Return the name of a column's field, by the column's number in the table."""
    return f"column-{number}-{entry}"


def _entries(columns: Sequence[str]) -> Iterator[tuple[str, Place]]:
    """Yield each field that is one entry of the policy, and that entry."""
    sections = {"dataset": DATASET, "table": (*WRITTEN, "missing_values"), "privacy": ("release", "scale", "mu")}
    for section, entries in sections.items():
        yield from ((f"{section}-{entry}", (section, entry)) for entry in entries)
    for number, name in enumerate(columns):
        yield from ((column_field(number, entry), ("columns", name, entry)) for entry in _ALONE)


def shown_fields(text: str, columns: Sequence[str]) -> dict[str, str]:
    """Return what the fields show of a policy; each column has fields, whether it has a section or not."""
    document = tomllib.loads(text)
    fields = {field: _spell(_at(document, place)) for field, place in _entries(columns)}

    privacy = document.get("privacy", {})
    unit, budget = privacy.get("unit", ""), privacy.get("budget_mu")
    entity = unit if isinstance(unit, dict) else {}
    fields |= {
        "privacy-unit": "entity" if entity else unit,
        "privacy-entity": entity.get("entity", ""),
        "privacy-max_rows": _spell(entity.get("max_rows")),
    }
    fields["privacy-budget_mu"] = _spell(budget.get(_account(fields)) if isinstance(budget, dict) else budget)
    if fields["privacy-scale"]:  # which says that second moments are released
        fields["privacy-release"] = "covariance"

    for number, name in enumerate(columns):
        section = _at(document, ("columns", name)) or {}
        low, high = section.get("bounds", (None, None))
        levels = section.get("categories", section.get("levels"))
        together = _spell(levels), "public" if "bounds" in section else "", _spell(low), _spell(high)
        fields |= {column_field(number, each): said for each, said in zip(_TOGETHER, together, strict=True)}
    return fields


def _at(document: Any, place: Place) -> Any:
    for name in place:
        document = document.get(name, {})
    return None if document == {} else document


def _account(fields: Fields) -> str:
    """Return the unit of privacy as a budget names it."""
    unit = fields["privacy-unit"]
    return f"entity:{fields['privacy-entity']}" if unit == "entity" else unit or "row"


class _Form:
    """The fields as they were and are, and what that changes of the policy."""

    def __init__(self, before: Fields, fields: Fields) -> None:
        self.before = before
        self.now = {name: _typed(fields.get(name, said), said) for name, said in before.items()}
        self.changes: dict[Place, Any] = {}

    def differs(self, *names: str) -> bool:
        """Return whether one of these fields was changed."""
        return any(self.before[name] != self.now[name] for name in names)

    def clear(self, section: Place, entries: Iterable[str]) -> None:
        """Take entries of a section away."""
        self.changes |= {(*section, entry): None for entry in entries}


def changed_policy(text: str, columns: Sequence[str], fields: Fields) -> str:
    """Return the policy's text with what was changed in fields.

    Parameters
    ----------
    text : str
        The policy as it was, which is TOML.
    columns : sequence of str
        The table's, in order.
    fields : mapping of str to str
        What they hold now; those that are missing are as they were.

    Raises
    ------
    PolicyError
        The text is of a form in which these entries cannot be changed.
    """
    form = _Form(shown_fields(text, columns), fields)
    for field, place in _entries(columns):
        if form.differs(field):
            form.changes[place] = _READERS.get(place[-1], _text)(form.now[field])
    _change_privacy(form, by_unit=isinstance(_at(tomllib.loads(text), ("privacy", "budget_mu")), dict))
    for number, name in enumerate(columns):
        _change_column(form, number, ("columns", name))

    order: dict[Place, int] = {("columns", name): number for number, name in enumerate(columns)}
    in_order = sorted(form.changes.items(), key=lambda change: order.get(change[0][:2], -1))
    return _put(text, dict(in_order)) if in_order else text


def _typed(now: str, before: str) -> str:
    """Return what a field holds: as it was, if it was not changed, or without blanks around it."""
    now = now.replace("\r\n", "\n")
    return now if now == before else now.strip()


def _change_privacy(form: _Form, *, by_unit: bool) -> None:
    """Change the unit, what does not go with the release or the strength, and the budget, which may be one by unit."""
    unit, now = ("privacy-unit", "privacy-entity", "privacy-max_rows"), form.now
    if form.differs(*unit):
        rows = {} if not now["privacy-max_rows"] else {"max_rows": _value(now["privacy-max_rows"])}
        of_people = {"entity": now["privacy-entity"], **rows}
        form.changes["privacy", "unit"] = of_people if now["privacy-unit"] == "entity" else now["privacy-unit"]
    if form.differs("privacy-release", "privacy-scale"):
        if now["privacy-release"] != "covariance":
            form.clear(("privacy",), _OF_MOMENTS)
        elif not now["privacy-scale"]:  # which may have been all that said so
            form.changes["privacy", "release"] = "covariance"
    if ("privacy", "mu") in form.changes:
        form.clear(("privacy",), [name for name in (*STRENGTHS, "delta") if name != "mu"])
    if form.differs("privacy-budget_mu") or _account(form.before) != _account(now):
        place = ("privacy", "budget_mu", *([_account(now)] if by_unit else []))
        form.changes[place] = _if_any(now["privacy-budget_mu"])


def _change_column(form: _Form, number: int, section: Place) -> None:
    """Change levels and bounds of a column, and what means nothing of another kind than it had."""
    of_kind, words, public, low, high = (column_field(number, entry) for entry in ("kind", *_TOGETHER))
    kind = KINDS.get(form.now[of_kind])
    if form.differs(of_kind):
        form.clear(section, _meaningless(form.now[of_kind], form.now[column_field(number, "missing")]))
    if form.differs(of_kind, words):
        for entry in ("categories", "levels"):
            is_wanted = kind is not None and entry == kind.levels
            form.changes[(*section, entry)] = _lines(form.now[words]) if is_wanted else None
    if form.differs(of_kind, public, low, high):
        of_dates, has_levels = kind is not None and bool(kind.bounds), kind is not None and kind.levels is not None
        bounds = [_value(form.now[each], of_dates=of_dates) for each in (low, high)]
        meant = not has_levels and (of_dates or not any(isinstance(each, str) and each for each in bounds))
        keeps = form.now[public] == "public" and (meant or not form.differs(of_kind))
        form.changes[(*section, "bounds")] = bounds if keeps else None


def _meaningless(kind: str, missing: str) -> Iterator[str]:
    """Yield the entries that mean nothing of the kind that was chosen, and so go with the one before."""
    if kind not in ("date", "time"):
        yield "format"
    if kind != "category":
        yield "other"
        if missing in ("category", "other"):
            yield "missing"


def _text(said: str) -> str | None:
    return said or None


def _lines(said: str) -> list[str] | None:
    """Return the lines that say something, each once; None if there are none."""
    return list(dict.fromkeys(line.strip() for line in said.split("\n") if line.strip())) or None


def _number(said: str) -> int | float:
    """Return a number as it is written."""
    if _WHOLE.fullmatch(said):
        return int(said)
    if _DECIMAL.fullmatch(said) and math.isfinite(number := float(said.replace(",", "."))):
        return number
    raise ValueError(said)


def _value(said: str, *, of_dates: bool = False) -> Any:
    """Return a number, or of dates a date, a moment or a time; what is none of that as it is written."""
    for read in (*(_DATES if of_dates else ()), _number):
        with suppress(ValueError):
            return read(said)
    return said


def _if_any(said: str) -> Any:
    return _value(said) if said else None


_DATES = (datetime.date.fromisoformat, datetime.datetime.fromisoformat, datetime.time.fromisoformat)
_READERS: dict[str, Callable[[str], Any]] = {  # of all that is not a text
    "delimiter": lambda said: "\t" if said == "tab" else _text(said),
    "missing_values": _lines,
    "mu": _value,
    "drop": lambda said: bool(said) or None,
    "max_change": _if_any,
}


def _spell(value: Any) -> str:
    """Return a value as a field shows it."""
    if isinstance(value, list):
        return "\n".join(str(each).lower() if isinstance(each, bool) else _spell(each) for each in value)
    if value is None or value is False:
        return ""
    if value is True:
        return "yes"
    if value == "\t":
        return "tab"
    return value.isoformat() if isinstance(value, datetime.date | datetime.time) else str(value)


def _put(text: str, changes: Mapping[Place, Any]) -> str:
    """Return a TOML text with entries changed; checked against the same changes of what it says."""
    document, meant = tomlkit.parse(text), tomllib.loads(text)
    for place, value in changes.items():
        _set(document, place, value, tomlkit.table)
        _set(meant, place, value, dict)
    changed = tomlkit.dumps(document)
    if tomllib.loads(changed) != meant:
        raise PolicyError("this policy is written in a way that the form cannot change: edit the file by hand")
    return changed


def _inline(value: dict[str, Any]) -> tomlkit.items.InlineTable:
    written = tomlkit.inline_table()
    written.update(value)
    return written


def _set(document: Any, place: Place, value: Any, table: Any) -> None:
    """Set an entry, or take it away; a table that this empties goes as well."""
    *outer, entry = place
    inner, above = document, []
    for name in outer:
        if name not in inner:
            if value is None:
                return
            inner[name] = table()
        above.append((inner, name))
        inner = inner[name]
    if value is not None:
        inner[entry] = _inline(value) if table is tomlkit.table and isinstance(value, dict) else value
        return
    inner.pop(entry, None)
    for holder, name in reversed(above):
        if not holder[name]:
            holder.pop(name)
