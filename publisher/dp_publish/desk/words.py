"""The form's words: what its fields and their choices are called, and sentences of the commands said in these words.

The library speaks of a policy's entries, and the commands of options. A person at the form has neither before her. Each
sentence stands beside the field that it is about.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dp_bundle.base.quoting import escape
from dp_publish.desk.document import WRITTEN, column_field

_WORDS: dict[str, Any] = tomllib.loads(Path(__file__).with_name("assets").joinpath("words.toml").read_text("utf-8"))
ABOUT: dict[str, str] = _WORDS["about"]
FIELDS: dict[str, dict[str, Any]] = _WORDS["fields"]
_VALUE = r'(?:"[^"]*"|\d+(?![.\d])|\[[^\]]*\]|\.\.\.)'
_ENTRY = re.compile(rf"\b((?i:{'|'.join(FIELDS)})) = ({_VALUE}(?:(?:,| or|, or) \"[^\"]*\")*)")
GENERAL = ""  # the field of objections that belong to none
_FIRST_OF = {"bounds": "low", "categories": "levels", "center": "low", "scale": "low"}
_OF_TABLE = re.compile(rf"\b({'|'.join(WRITTEN)})\b(?: = \S+)? under \[table\]|--(header) first if")


def in_form(text: str) -> str:
    """Return a sentence of the library in the words of the form, without what is not printable."""
    for pattern, said in _WORDS["sentences"].items():
        text = re.sub(pattern, said, text)
    text = _ENTRY.sub(_describe_entry, text)
    text = re.sub(r"\bgive ((?:it|its column|numbers|dates|a truth value) )?(?=“)", _choose, text)
    return escape(re.sub("«(.*?)»", lambda found: FIELDS[found[1]]["label"], text))


def _choose(found: re.Match[str]) -> str:
    return f"choose for {found[1]}" if found[1] else "choose "


def _describe_entry(found: re.Match[str]) -> str:
    """Return the field of an entry, with what to choose in it where that is said."""
    field = FIELDS[found[1].lower()]
    label, choices = field["label"], field.get("choices", {})
    values = [value for value in re.findall(r'"([^"]*)"|(\d+)', found[2]) if any(value) and value[0] != "..."]
    said = [choices.get(quoted or number, quoted or number) for quoted, number in values]
    if found[2].startswith("[") or not said:
        return f"“{label}”"
    return " or ".join(f"“{label}: {each.rstrip('.:')}”" for each in said)


def field_at(place: tuple[str, ...], columns: Sequence[str], said: str) -> str | None:
    """Return the field of an entry of the policy; None where it is none of a column of the table, or of a section."""
    if place[:1] == ("columns",) and len(place) > 1 and place[1] in columns:
        entry = _FIRST_OF.get(place[2], place[2]) if len(place) > 2 else _entry_of(said)
        return column_field(columns.index(place[1]), entry)
    if len(place) > 1:
        return f"{place[0]}-{place[-1] if place[:2] == ('privacy', 'unit') else place[1]}"
    return None


def fields_of(names: Sequence[str], columns: Sequence[str], said: str) -> list[str]:
    """Return the fields of these columns that a sentence speaks of, or where there are none the one outside of them."""
    return [column_field(columns.index(name), _entry_of(said)) for name in names] or [_field_of(said)]


def about_it(said: str, place: str) -> str:
    """Return a sentence that begins with a place in the policy as one that stands beside its field."""
    if said.startswith(f"{place}: "):
        return f"{said[len(place) + 2 :][:1].upper()}{said[len(place) + 3 :]}"
    return f"It {said[len(place) + 1 :]}" if said.startswith(f"{place} ") else said


def capital(said: str) -> str:
    """Return what an error says, as a sentence."""
    return f"{said[:1].upper()}{said[1:]}."


def _entry_of(said: str) -> str:
    """Return the field of a column that a sentence speaks of."""
    words = {
        "max_change": "max_change",
        "format": "format",
        "is a date": "kind",
        "bounds": "low",
        "other": "other",
        "categories": "levels",
        "levels": "levels",
        "missing": "missing",
    }
    return next((entry for word, entry in words.items() if word in said), "kind")


def _field_of(said: str) -> str:
    """Return the field outside of columns that a sentence speaks of; none where it speaks of several."""
    if entry := _OF_TABLE.search(said):
        return f"table-{entry[1] or entry[2]}"
    words = {'unit = "change"': "privacy-unit", "max_rows": "privacy-max_rows", "unit of privacy is": "privacy-entity"}
    words |= {"strength": "privacy-mu", "Mu must": "privacy-mu", "noise": "privacy-mu"}
    return next((where for word, where in words.items() if word in said), GENERAL)


def names_column(said: str, name: str) -> bool:
    """Return whether a sentence names a column."""
    return repr(name) in said or f"columns.{name}:" in said
