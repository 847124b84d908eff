"""The form's words: what its fields and their choices are called, and sentences of the commands said in these words.

Sentences are made with the phrases of who reads them (`dp_bundle.base.wording`). What remains is the notation of a
policy: an entry, with its value or alone, which is called as its field is.
"""

import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dp_bundle.base.quoting import escape
from dp_publish.cli.desk.document import IN_COLUMN, column_field
from dp_publish.policy.choices import STRENGTHS

_WORDS = tomllib.loads(Path(__file__).with_name("assets").joinpath("words.toml").read_text("utf-8"))
FIELDS: dict[str, dict[str, Any]] = _WORDS["fields"]
TERMS: dict[str, str] = _WORDS["terms"]
GENERAL = ""  # the field of objections that belong to none
_VALUE = r'(?:"[^"]*"|\d+(?![.\d])|\[[^\]]*\]|\.\.\.)'
_ENTRY = re.compile(
    rf"\b(?P<gives>give (?P<whom>(?:it|its column|numbers|dates|a truth value) )?)?"
    rf"(?P<entry>(?i:{'|'.join(FIELDS)})) = (?P<values>{_VALUE}(?:(?:,| or|, or) \"[^\"]*\")*)"
)
_ALONE = re.compile(rf"«({'|'.join(FIELDS)})»|\b({'|'.join(name for name in FIELDS if '_' in name)})\b")
_FIRST_OF = {"bounds": "low", "categories": "levels", "center": "low", "scale": "low"}


def in_form(text: str) -> str:
    """Return a sentence with entries of a policy as the form calls them, without what is not printable."""
    text = _ENTRY.sub(_describe_entry, text)
    return escape(_ALONE.sub(lambda found: _label(found[1]) if found[1] else f"“{_label(found[2])}”", text))


def _label(entry: str) -> str:
    label: str = FIELDS[entry]["label"]
    return label


def _describe_entry(found: re.Match[str]) -> str:
    """Return the field of an entry, with what to choose in it where that is said."""
    entry = found["entry"].lower()
    label, choices = _label(entry), FIELDS[entry].get("choices", {})
    values = [value for value in re.findall(r'"([^"]*)"|(\d+)', found["values"]) if any(value) and value[0] != "..."]
    said = [choices.get(quoted or number, quoted or number) for quoted, number in values]
    verb = f"choose {'for ' + found['whom'] if found['whom'] else ''}" if found["gives"] else ""
    if found["values"].startswith("[") or not said:
        return f"{verb}“{label}”"
    return verb + " or ".join(f"“{label}: {each.rstrip('.:')}”" for each in said)


def field_at(place: tuple[str, ...], columns: Sequence[str]) -> str:
    """Return the field of an entry of the policy; none where it is none of a column of the table, or of a section."""
    if place[:1] == ("columns",) and len(place) > 1:
        if place[1] not in columns:
            return GENERAL
        entry = _FIRST_OF.get(place[-1], place[-1])
        return column_field(columns.index(place[1]), entry if len(place) > 2 and entry in IN_COLUMN else "kind")
    if len(place) < 2:
        return GENERAL
    return f"{place[0]}-{'mu' if place[1] in (*STRENGTHS, 'delta') else place[-1]}"


def capital(said: str) -> str:
    """Return what an error says, as a sentence."""
    return f"{said[:1].upper()}{said[1:]}."
