"""The form's words: what its fields and their choices are called, and sentences of the commands said in these words.

The library speaks of a policy's entries, and the commands of options. A person at the form has neither before her.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from dp_bundle.base.quoting import escape

_WORDS: dict[str, Any] = tomllib.loads(Path(__file__).with_name("assets").joinpath("words.toml").read_text("utf-8"))
ABOUT: dict[str, str] = _WORDS["about"]
FIELDS: dict[str, dict[str, Any]] = _WORDS["fields"]
_VALUE = r'(?:"[^"]*"|\d+(?![.\d])|\[[^\]]*\]|\.\.\.)'
_ENTRY = re.compile(rf"\b((?i:{'|'.join(FIELDS)})) = ({_VALUE}(?:(?:,| or|, or) \"[^\"]*\")*)")


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
