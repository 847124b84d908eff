"""The fields of the form, and the policy's text: a field that is changed changes its entry, and all else stays.

A field is text, as a browser has it. What a policy says is shown in fields once; afterwards only fields that were
changed are looked at, so that comments, order, spelling and entries that have no field are kept.
"""

import datetime
import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

import tomlkit
import tomlkit.items

from dp_bundle.base.errors import PolicyError
from dp_bundle.manifest.sources import MAX_LEVELS
from dp_publish.data.kinds import KINDS
from dp_publish.policy.choices import STRENGTHS

DATASET = ("title", "description", "creator", "license", "contact", "url", "citation")
WRITTEN = ("delimiter", "decimal", "encoding", "header")  # of a text file
_MARKS = {"\t": "tab"}  # that a field cannot show
_TEXTS = ("kind", "missing", "format", "unit", "description", "other")  # of a column, as they are
_WHOLE = re.compile(r"[+-]?\d{1,18}")
_DECIMAL = re.compile(r"[+-]?(?:\d+(?:[.,]\d*)?|[.,]\d+)(?:[eE][+-]?\d+)?")
_NUMBER = "must be a number, such as 10 or 0.5"
OF_COLUMN = (*_TEXTS, "drop", "levels", "range", "low", "high", "max_change")
_COLUMN = re.compile(r"(column-\d+-)(.*)", re.DOTALL)
_BUDGET = ("privacy", "budget_mu")
Fields = Mapping[str, str]
Place = tuple[str, ...]


def new_policy(source: str, name: str) -> str:
    """Return the text of a policy that leaves everything to dp-publish."""
    document = tomlkit.document()
    document.add(tomlkit.comment(f"What dp-publish may do with {tomlkit.item(source).as_string()}."))
    document.add(tomlkit.nl())
    dataset = tomlkit.table().add("name", name)
    document.add("dataset", dataset)
    document.add(tomlkit.nl())
    document.add("privacy", tomlkit.table().add("unit", "row").add("mu", 1.0))
    return tomlkit.dumps(document)


def with_header(text: str, header: str) -> str:
    """Return the policy with what is said of the first line of a text file."""
    return _put(text, {("table", "header"): header})


def column_field(number: int, entry: str) -> str:
    """Return the name of a column's field, by the column's number in the table."""
    return f"column-{number}-{entry}"


def shown_fields(text: str, columns: Sequence[str]) -> dict[str, str]:
    """Return what the fields show of a policy; each column has fields, whether it has a section or not."""
    document = tomllib.loads(text)
    dataset, privacy, sections, table = (document.get(name, {}) for name in ("dataset", "privacy", "columns", "table"))
    unit = privacy.get("unit", "row")
    entity = unit if isinstance(unit, dict) else {}
    fields = {f"dataset-{name}": str(dataset.get(name, "")) for name in DATASET}
    fields |= {f"table-{name}": _MARKS.get(said := str(table.get(name, "")), said) for name in WRITTEN}
    fields |= {
        "table-missing_values": "\n".join(table.get("missing_values", ())),
        "privacy-unit": "entity" if entity else str(unit),
        "privacy-entity": str(entity.get("entity", "")),
        "privacy-max_rows": _spell(entity.get("max_rows")),
        "privacy-release": str(privacy.get("release", "")),
        "privacy-mu": _spell(privacy.get("mu")),
    }
    budget = privacy.get("budget_mu")
    fields["privacy-budget_mu"] = _spell(budget.get(_account(fields)) if isinstance(budget, dict) else budget)
    for number, name in enumerate(columns):
        fields |= {column_field(number, entry): said for entry, said in _shown_column(sections.get(name, {})).items()}
    return fields


def _account(fields: Fields) -> str:
    """Return the unit of privacy as a budget names it."""
    unit = fields["privacy-unit"]
    return f"entity:{fields['privacy-entity']}" if unit == "entity" else unit


def _shown_column(section: Mapping[str, Any]) -> dict[str, str]:
    low, high = section.get("bounds", (None, None))
    levels = section.get("categories", section.get("levels", []))
    return {
        **{entry: str(section.get(entry, "")) for entry in _TEXTS},
        "drop": "yes" if section.get("drop") else "",
        "levels": "\n".join(map(_spell, levels)),
        "range": "public" if "bounds" in section else "",
        "low": _spell(low),
        "high": _spell(high),
        "max_change": _spell(section.get("max_change")),
    }


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
    before = shown_fields(text, columns)
    after = {name: _typed(fields.get(name, said), said) for name, said in before.items()}
    changes: dict[Place, Any] = {}
    mistakes: dict[str, str] = {}
    for entry in DATASET:
        if after[f"dataset-{entry}"] != before[f"dataset-{entry}"]:
            changes["dataset", entry] = after[f"dataset-{entry}"] or None
    _change_table(before, after, changes)
    _change_privacy(before, after, changes, mistakes)
    if isinstance(tomllib.loads(text).get("privacy", {}).get("budget_mu"), dict) and _BUDGET in changes:
        changes[*_BUDGET, _account(after)] = changes.pop(_BUDGET)
    sections = [_of_columns(each) for each in (before, after)]
    for number, name in enumerate(columns):
        prefix = column_field(number, "")
        was, now = (section[prefix] for section in sections)
        if was != now:
            found = _changed_column(was, now, mistakes, prefix)
            changes |= {("columns", name, entry): value for entry, value in found.items()}
    return _put(text, changes) if changes else text, mistakes


def _of_columns(fields: Fields) -> dict[str, dict[str, str]]:
    """Return the fields of each column by their entries, under what their names begin with."""
    found: dict[str, dict[str, str]] = {}
    for field, said in fields.items():
        if match := _COLUMN.fullmatch(field):
            found.setdefault(match[1], {})[match[2]] = said
    return found


def _typed(now: str, before: str) -> str:
    """Return what a field holds: as it was, if it was not changed, or without blanks around it."""
    now = now.replace("\r\n", "\n")
    return now if now == before else now.strip()


def _change_table(before: Fields, after: Fields, changes: dict[Place, Any]) -> None:
    """Add what was changed of how a text file is written."""
    spelled = {said: mark for mark, said in _MARKS.items()}
    for entry in WRITTEN:
        said = after[f"table-{entry}"]
        if said != before[f"table-{entry}"]:
            changes["table", entry] = spelled.get(said, said) or None
    if after["table-missing_values"] != before["table-missing_values"]:
        changes["table", "missing_values"] = _lines_of(after["table-missing_values"])


def _lines_of(text: str) -> list[str] | None:
    """Return the lines that say something, each once; None if there are none."""
    return list(dict.fromkeys(line.strip() for line in text.split("\n") if line.strip())) or None


def _change_privacy(before: Fields, after: Fields, changes: dict[Place, Any], mistakes: dict[str, str]) -> None:
    """Add what was changed of the privacy section."""

    def differs(*names: str) -> bool:
        return any(before[name] != after[name] for name in names)

    if differs("privacy-unit", "privacy-entity", "privacy-max_rows"):
        unit: Any = after["privacy-unit"]
        if unit == "entity":
            most = _read_number(after["privacy-max_rows"], "privacy-max_rows", mistakes, whole=True)
            unit = {"entity": after["privacy-entity"], "max_rows": most}
            if not after["privacy-entity"]:
                mistakes["privacy-entity"] = "is still to be chosen"
        if not {"privacy-max_rows", "privacy-entity"} & {*mistakes}:
            changes["privacy", "unit"] = unit
    if differs("privacy-release"):
        changes["privacy", "release"] = after["privacy-release"] or None
        if after["privacy-release"] != "covariance":
            changes |= dict.fromkeys([("privacy", name) for name in ("mechanism", "neighbours", "scale")])
    if differs("privacy-mu"):
        mu = _read_number(after["privacy-mu"], "privacy-mu", mistakes)
        changes |= dict.fromkeys([("privacy", name) for name in (*STRENGTHS, "delta")]) if mu is not None else {}
        changes |= {("privacy", "mu"): mu} if mu is not None else {}
    if differs("privacy-budget_mu") or _account(before) != _account(after):
        said = after["privacy-budget_mu"]
        budget = _read_number(said, "privacy-budget_mu", mistakes) if said else None
        changes |= {_BUDGET: budget} if budget is not None or not said else {}


def _changed_column(was: Fields, now: Fields, mistakes: dict[str, str], prefix: str) -> dict[str, Any]:
    """Return the entries that were changed of a column's section; None for one that goes."""
    changes: dict[str, Any] = {entry: now[entry] or None for entry in _TEXTS if now[entry] != was[entry]}
    if now["drop"] != was["drop"]:
        changes["drop"] = bool(now["drop"]) or None
    kind = KINDS.get(now["kind"])
    if now["kind"] != was["kind"]:
        changes |= dict.fromkeys(_meaningless(now))
    if any(now[entry] != was[entry] for entry in ("kind", "levels")):
        words = _lines_of(now["levels"])
        wanted = kind.levels if kind is not None else None
        changes |= {entry: words if entry == wanted else None for entry in ("categories", "levels")}
        if wanted is not None and words is not None and len(words) > MAX_LEVELS:
            mistakes[f"{prefix}levels"] = f"must be at most {MAX_LEVELS:,} words"
            changes = {
                entry: value for entry, value in changes.items() if entry not in ("categories", "levels", "kind")
            }
    if "bounds" not in changes and any(now[entry] != was[entry] for entry in ("kind", "range", "low", "high")):
        bounds = None
        if now["range"] == "public":
            is_date = kind is not None and bool(kind.bounds)
            bounds = [_read_bound(now[end], f"{prefix}{end}", mistakes, is_date=is_date) for end in ("low", "high")]
        if bounds is None or None not in bounds:
            changes["bounds"] = bounds
    if now["max_change"] != was["max_change"]:
        said = now["max_change"]
        changes["max_change"] = _read_number(said, f"{prefix}max_change", mistakes, whole=True) if said else None
    return changes


def _meaningless(now: Fields) -> list[str]:
    """Return the entries that mean nothing of the kind that was chosen, and so go with the one before."""
    kind = now["kind"]
    gone = [] if kind in ("date", "time") else ["format"]
    gone += [] if kind == "category" else ["other"]
    gone += ["missing"] if kind != "category" and now["missing"] in ("category", "other") else []
    is_date = any(_is_date(now[end]) for end in ("low", "high")) and kind not in ("date", "time")
    return [*gone, *(["bounds"] if is_date or (kind in KINDS and KINDS[kind].levels is not None) else [])]


def _is_date(text: str) -> bool:
    return bool(text) and not _DECIMAL.fullmatch(text)


def _read_number(text: str, field: str, mistakes: dict[str, str], *, whole: bool = False) -> int | float | None:
    """Return a number as it is written; None with a mistake where it is none."""
    if _WHOLE.fullmatch(text):
        return int(text)
    if not whole and _DECIMAL.fullmatch(text) and math.isfinite(number := float(text.replace(",", "."))):
        return number
    mistakes[field] = "must be a whole number, such as 1" if whole else _NUMBER
    return None


def _read_bound(text: str, field: str, mistakes: dict[str, str], *, is_date: bool) -> Any:
    """Return a bound: a number, or a date or a time where these are meant."""
    readers = (datetime.date, datetime.datetime, datetime.time) if is_date else ()
    for reader in readers:
        try:
            return reader.fromisoformat(text)
        except ValueError:
            continue
    found = _read_number(text, field, mistakes)
    if found is None and is_date:
        mistakes[field] = "must be a date such as 2026-01-31, a time such as 12:30:00, or a number"
    return found


def _spell(value: Any) -> str:
    """Return a value as a field shows it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
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
