"""The fields of the form, and the policy's text: a field that is changed changes its entry, and all else stays.

A field is text, as a browser has it. What a policy says is shown in fields once; afterwards only fields that were
changed are looked at, so that comments, order, spelling and entries that have no field are kept.
"""

import datetime
import math
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import tomlkit
import tomlkit.items

from dp_bundle.base.errors import PolicyError
from dp_bundle.manifest.columns import MAX_LEVELS
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
    """The fields as they were and are, what that changes of the policy, and what cannot be read of them."""

    def __init__(self, before: Fields, fields: Fields) -> None:
        self.before = before
        self.now = {name: _typed(fields.get(name, said), said) for name, said in before.items()}
        self.changes: dict[Place, Any] = {}
        self.mistakes: dict[str, str] = {}

    def differs(self, *names: str) -> bool:
        """Return whether one of these fields was changed."""
        return any(self.before[name] != self.now[name] for name in names)

    def read(self, name: str, reader: Callable[[str], Any]) -> Any:
        """Return what a field says; None, and a mistake, where that cannot be read."""
        try:
            return reader(self.now[name])
        except ValueError as error:
            self.mistakes[name] = str(error)
            return None

    def change(self, place: Place, value: Any, *names: str) -> None:
        """Set an entry, or with None take it away, unless there is a mistake in these fields."""
        if not self.mistakes.keys() & {*names}:
            self.changes[place] = value

    def clear(self, section: Place, entries: Sequence[str]) -> None:
        """Take entries of a section away."""
        self.changes |= {(*section, entry): None for entry in entries}


def changed_policy(text: str, columns: Sequence[str], fields: Fields) -> tuple[str, dict[str, str]]:
    """Return the policy's text with what was changed in fields, and what cannot be read of them, by field.

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
            form.change(place, form.read(field, _READERS.get(place[-1], _text)), field)
    _change_privacy(form, by_unit=isinstance(_at(tomllib.loads(text), ("privacy", "budget_mu")), dict))
    for number, name in enumerate(columns):
        _change_column(form, number, ("columns", name))

    order: dict[Place, int] = {("columns", name): number for number, name in enumerate(columns)}
    in_order = sorted(form.changes.items(), key=lambda change: order.get(change[0][:2], -1))
    return _put(text, dict(in_order)) if in_order else text, form.mistakes


def _typed(now: str, before: str) -> str:
    """Return what a field holds: as it was, if it was not changed, or without blanks around it."""
    now = now.replace("\r\n", "\n")
    return now if now == before else now.strip()


def _change_privacy(form: _Form, *, by_unit: bool) -> None:
    """Change the unit, what does not go with the release or the strength, and the budget, which may be one by unit."""
    of_unit = ("privacy-unit", "privacy-entity", "privacy-max_rows")
    if form.differs(*of_unit):
        unit: Any = form.now["privacy-unit"]
        if unit == "entity":
            unit = {
                "entity": form.read("privacy-entity", _chosen),
                "max_rows": form.read("privacy-max_rows", _whole),
            }
        form.change(("privacy", "unit"), unit, *of_unit)
    if form.differs("privacy-release", "privacy-scale"):
        if form.now["privacy-release"] != "covariance":
            form.clear(("privacy",), _OF_MOMENTS)
        elif not form.now["privacy-scale"]:  # which may have been all that said so
            form.change(("privacy", "release"), "covariance")
    if ("privacy", "mu") in form.changes:
        form.clear(("privacy",), [name for name in (*STRENGTHS, "delta") if name != "mu"])
    if form.differs("privacy-budget_mu") or _account(form.before) != _account(form.now):
        place = ("privacy", "budget_mu", *([_account(form.now)] if by_unit else []))
        form.change(place, form.read("privacy-budget_mu", _if_any(_number)), "privacy-budget_mu")


def _change_column(form: _Form, number: int, section: Place) -> None:
    """Change levels and bounds of a column, and what means nothing of another kind than it had."""
    of_kind, words, public, low, high = (column_field(number, entry) for entry in ("kind", *_TOGETHER))
    kind = KINDS.get(form.now[of_kind])
    is_date = kind is not None and bool(kind.bounds)
    if form.differs(of_kind):
        form.clear(section, [*_meaningless(form.now[of_kind], form.now[column_field(number, "missing")])])

    if form.differs(of_kind, words):
        levels = form.read(words, _lines)
        wanted = kind.levels if kind is not None else None
        if wanted and levels and len(levels) > MAX_LEVELS:
            form.mistakes[words] = f"must be at most {MAX_LEVELS:,} words"
            form.changes.pop((*section, "kind"), None)
        for entry in ("categories", "levels"):
            form.change((*section, entry), levels if entry == wanted else None, words)

    if form.differs(of_kind, public, low, high):
        has_levels = kind is not None and kind.levels is not None
        of_dates = not is_date and any(_is_date(form.now[each]) for each in (low, high))
        if form.now[public] != "public" or (form.differs(of_kind) and (has_levels or of_dates)):
            form.change((*section, "bounds"), None)
        else:
            bounds = [form.read(each, _date if is_date else _number) for each in (low, high)]
            form.change((*section, "bounds"), bounds, low, high)


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


def _chosen(said: str) -> str:
    if not said:
        raise ValueError("is still to be chosen")
    return said


def _whole(said: str) -> int:
    if not _WHOLE.fullmatch(said):
        raise ValueError("must be a whole number, such as 1")
    return int(said)


def _number(said: str) -> int | float:
    """Return a number as it is written."""
    if _WHOLE.fullmatch(said):
        return int(said)
    if _DECIMAL.fullmatch(said) and math.isfinite(number := float(said.replace(",", "."))):
        return number
    raise ValueError("must be a number, such as 10 or 0.5")


def _is_date(said: str) -> bool:
    return bool(said) and not _DECIMAL.fullmatch(said)


def _date(said: str) -> Any:
    """Return a bound of dates or times, which may be a number, too."""
    for read in (datetime.date.fromisoformat, datetime.datetime.fromisoformat, datetime.time.fromisoformat, _number):
        try:
            return read(said)
        except ValueError:
            continue
    raise ValueError("must be a date such as 2026-01-31, a time such as 12:30:00, or a number")


def _if_any(read: Callable[[str], Any]) -> Callable[[str], Any]:
    return lambda said: read(said) if said else None


_READERS: dict[str, Callable[[str], Any]] = {  # of all that is not a text
    "delimiter": lambda said: "\t" if said == "tab" else _text(said),
    "missing_values": _lines,
    "mu": _number,
    "drop": lambda said: bool(said) or None,
    "max_change": _if_any(_whole),
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
