"""Which field of the form a sentence of the library is about, so that it stands beside it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from dp_publish.desk.document import WRITTEN, column_field

GENERAL = ""  # the field of objections that belong to none
_FIRST_OF = {"bounds": "low", "categories": "levels", "center": "low", "scale": "low"}
_OF_TABLE = re.compile(rf"\b({'|'.join(WRITTEN)})\b(?: = \S+)? under \[table\]|--(header) first if")


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
