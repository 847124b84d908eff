"""A mistake in a policy as one sentence: which entry it is, what the entry may be, and what came instead."""

import json
from collections.abc import Collection
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from dp_bundle.base.errors import DpGraphError
from dp_bundle.base.quoting import escape
from dp_bundle.base.wording import Phrase
from dp_bundle.manifest.dataset import THEMES, Relation
from dp_publish.data.dialect import Dialect
from dp_publish.data.kinds import KindName
from dp_publish.policy.choices import DERIVED, SoundMechanism
from dp_publish.policy.model import ColumnPolicy, DatasetPolicy, EntityUnit, Policy, Privacy

_LONGEST = 60  # of what came
SECTIONS: dict[str, type[BaseModel]] = {
    "": Policy,
    "dataset": DatasetPolicy,
    "privacy": Privacy,
    "privacy.unit": EntityUnit,
    "columns": ColumnPolicy,
    "table": Dialect,
}
_POSITIVE = "a finite number above 0"
_SHARE = "a number above 0 and below 1"
_ONE_OF = "one of {}"
_TEXT = Phrase("a text in quotes", "a text")
_OF_TEXT = {  # what is said besides of entries that are texts, and of all others
    "dataset.name": " on one line, of 1 to 1000 characters",
    "columns.format": ', such as "%d.%m.%Y" for 31.01.2026 or "%m/%d/%Y %H:%M" for 01/31/2026 12:30',
    "columns.other": ', such as "other": the level of all values that are not listed',
}
_SHORT = " on one line, of at most 10000 characters"
ALLOWED = {
    "dataset": "a table: [dataset] on a line of its own, and its entries below",
    "dataset.creators": 'a list of at most 100, such as [{ name = "First Author", orcid = "0000-0002-1825-0097", '
    'affiliation = "University" }]; orcid and affiliation may be left out',
    "dataset.doi": 'a DOI in quotes, such as "10.5281/zenodo.1234567"',
    "dataset.keywords": 'a list of at most 100 texts, such as ["wine", "chemistry"]',
    "dataset.themes": f'a list of codes among {", ".join(THEMES)}, such as ["HEAL"]',
    "dataset.languages": 'a list of two-letter codes by ISO 639-1, such as ["en"]',
    "dataset.temporal": 'two dates, years or months, such as { start = "2019-01-01", end = "2019-12-31" }',
    "dataset.spatial": 'a list of at most 100 names of places, or addresses that stand for them, such as ["Oslo"]',
    "dataset.software_url": "an address that begins https://",
    "dataset.related": 'a list of at most 100, such as [{ relation = "IsDerivedFrom", identifier = "10.1000/182" }]; '
    f"a relation is one of {', '.join(get_args(Relation))}",
    "privacy": "a table: [privacy] on a line of its own, and its entries below",
    "privacy.release": '"rows" or "covariance", whose links are of normal scores with scale = "scores"',
    "privacy.scale": '"auto", "raw" or "scores", or a list of the columns whose links are those of normal scores',
    "privacy.mechanism": _ONE_OF.format(", ".join(f'"{name}"' for name in ("auto", *get_args(SoundMechanism)))),
    "privacy.neighbours": '"replace-one" or "add-remove"',
    "privacy.unit": '"cell", "row", "change", or { entity = "COLUMN", max_rows = 10 }',
    "privacy.unit.entity": "the name of the column that says which rows belong together",
    "privacy.unit.max_rows": "a whole number from 1 to 10^9: how many rows an entity may have by public knowledge, "
    "such as 3 for three yearly visits, and not by counting",
    "privacy.mu": f"{_POSITIVE}, such as 1 (smaller means stronger protection)",
    "privacy.epsilon": f"{_POSITIVE}, such as 1 (smaller means stronger protection)",
    "privacy.delta": f"{_SHARE}, such as 1e-6",
    "privacy.rho": f"{_POSITIVE}, such as 0.5 (smaller means stronger protection)",
    "privacy.sigma": f"{_POSITIVE}: the noise's standard deviation in data units",
    "privacy.budget_mu": f"{_POSITIVE}, or one for each unit, such as {{ row = 2, cell = 5 }}",
    "privacy.bounds_share": f"{_SHARE}, such as 0.1",
    "privacy.l2_radius": f"{_POSITIVE}, such as 2",
    "columns": 'a table for each column: [columns."NAME"] on a line of its own, and its entries below',
    "columns.bounds": "two finite numbers, or dates, [low, high] with low < high",
    "columns.weight": "a number from 1e-9 to 1e9, such as 1",
    "columns.center": "a finite number, in data units",
    "columns.scale": f"{_POSITIVE}, in data units",
    "columns.spread": "a number from 1e-6 to 0.5: the standard deviation as a share of the bounds' width",
    "columns.kind": _ONE_OF.format(", ".join(f'"{name}"' for name in get_args(KindName))),
    "columns.categories": 'a list of at least two different texts, such as ["f", "m"]',
    "columns.levels": "a list of at least two different texts, from the lowest level to the highest",
    "columns.mechanism": '"gaussian" or "randomized-response"',
    "columns.max_change": "a whole number of at least 1: how far one person can change a count",
    "columns.missing": '"refuse", "midpoint", "indicator" or "drop", or of a category "category"',
    "columns.drop": "true or false",
    "table": "a table: [table] on a line of its own, and its entries below",
    "table.delimiter": "a character that no number has, such as , or ; or | or a tab",
    "table.decimal": '"." or ","',
    "table.encoding": "an encoding's name, such as utf-8, cp1252 or utf-16",
    "table.header": '"first" or "none"',
    "table.missing_values": 'a list of texts, such as ["-", "unknown"]',
}

_RETIRED = {
    "transform": " is retired: leave it out; columns with long tails have normal scores where these suit them",
}


def describe_mistake(error: ValidationError, options: Collection[str] = (), start: tuple[str, ...] = ()) -> str:
    """Return one sentence on the first mistake, with the place in it: an option, or an entry of a section.

    Parameters
    ----------
    error : ValidationError
        Of a policy or of a section of one.
    options : collection of str
        Entries of the privacy section that came from the command line.
    start : tuple of str
        Where in a policy the validated section stands.
    """
    return "".join(_describe_one(max(error.errors(), key=_depth), options, start))


def describe_mistakes(error: ValidationError, start: tuple[str, ...] = ()) -> dict[tuple[str, ...], str]:
    """Return one sentence on the first mistake in each entry of a policy, to stand beside it, by its place in it."""
    found: dict[tuple[str, ...], str] = {}
    for each in sorted(error.errors(), key=_depth, reverse=True):
        where, said = _place((*start, *each["loc"])), _describe_one(each, (), start)[1]
        said = f"{said[2:3].upper()}{said[3:]}." if said.startswith(": ") else f"It{said}."
        cause = each.get("ctx", {}).get("error")
        for place in places_of(cause, where) if isinstance(cause, DpGraphError) else [where]:
            found.setdefault(place, said)
    return found


def places_of(error: DpGraphError, where: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Return the places in a policy that an error is about, which was found in a section of it."""
    entry = tuple(filter(None, error.entry.split(".")))
    if len(entry) > 1:
        return [entry]
    return [("columns", name, *entry) for name in error.columns] or [(*where, *entry)]


def _depth(found: Any) -> int:
    """Return how deep a mistake lies: of a union, the branch that fits best has the deepest."""
    return len(found["loc"])


def _describe_one(first: Any, options: Collection[str], start: tuple[str, ...]) -> tuple[str, str]:
    """Return the place of a mistake, and the rest of one sentence on it."""
    where = _place((*start, *first["loc"]))
    shown = ".".join(where) or "its top level"
    if len(where) == 2 and where[0] == "privacy" and where[1] in options:
        shown = f"--{where[1].replace('_', '-')}"
    if first["type"] == "value_error" and where[:1] != ("table",):
        said = first["msg"].removeprefix("Value error, ")
        return shown, f": {said}"
    if first["type"] == "extra_forbidden":
        if where[0] == "columns" and where[-1] in _RETIRED:
            return shown, _RETIRED[where[-1]]
        section = _section(where[:-1])
        known = ", ".join(name for name in SECTIONS[section].model_fields if name not in DERIVED)
        return shown, f" is not an entry of a policy: correct or remove it; allowed here: {known}"
    allowed = allowed_of(where)
    if first["type"] == "missing" and first["loc"][-1] == where[-1]:  # not one of two bounds
        return shown, f" is missing: give {allowed}"
    return shown, f" must be {allowed}, not {_show(first['input'])}"


def allowed_of(where: tuple[str, ...]) -> str:
    """Return what an entry may be."""
    if where[:1] == ("columns",):
        where = ("columns", *where[2:])
    entry = ".".join(where)
    return ALLOWED.get(entry) or f"{_TEXT}{_OF_TEXT.get(entry, _SHORT)}"


def _place(location: tuple[int | str, ...]) -> tuple[str, ...]:
    """Return the entry that a location of a mistake is in, without what is inside of bounds, texts or unions."""
    parts = tuple(str(part) for part in location)
    if parts[:3] == ("privacy", "unit", "EntityUnit"):
        return (*parts[:2], *parts[3:4])
    return parts[: 3 if parts[:1] == ("columns",) else 2]


def _section(where: tuple[str, ...]) -> str:
    return "columns" if where[:1] == ("columns",) else ".".join(where)


def _show(value: Any) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        text = str(value)
    text = escape({"NaN": "nan", "Infinity": "inf", "-Infinity": "-inf"}.get(text, text))
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
