"""The form's words: what its fields and their choices are called, and sentences of the commands said in these words.

The library speaks of a policy's entries, and the commands of options. A person at the form has neither before her. Each
sentence stands beside the field that it is about.
"""

import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dp_bundle.base.quoting import escape
from dp_publish.desk.document import OF_COLUMN, column_field
from dp_publish.policy.choices import STRENGTHS

_WORDS: dict[str, Any] = tomllib.loads(Path(__file__).with_name("assets").joinpath("words.toml").read_text("utf-8"))
ABOUT: dict[str, str] = _WORDS["about"]
FIELDS: dict[str, dict[str, Any]] = _WORDS["fields"]
_VALUE = r'(?:"[^"]*"|\d+(?![.\d])|\[[^\]]*\]|\.\.\.)'
_ENTRY = re.compile(rf"\b((?i:{'|'.join(FIELDS)})) = ({_VALUE}(?:(?:,| or|, or) \"[^\"]*\")*)")
GENERAL = ""  # the field of objections that belong to none
_FIRST_OF = {"bounds": "low", "categories": "levels", "center": "low", "scale": "low"}


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


def field_at(place: tuple[str, ...], columns: Sequence[str]) -> str:
    """Return the field of an entry of the policy; none where it is none of a column of the table, or of a section."""
    if place[:1] == ("columns",) and len(place) > 1:
        if place[1] not in columns:
            return GENERAL
        entry = _FIRST_OF.get(place[-1], place[-1])
        return column_field(columns.index(place[1]), entry if len(place) > 2 and entry in OF_COLUMN else "kind")
    if len(place) < 2:
        return GENERAL
    return f"{place[0]}-{'mu' if place[1] in (*STRENGTHS, 'delta') else place[-1]}"


def capital(said: str) -> str:
    """Return what an error says, as a sentence."""
    return f"{said[:1].upper()}{said[1:]}."
