"""The publisher's description of her data, which alone may hold fields that a reader does not know.

Nothing is computed from it but the dataset's name and the descriptions in the bundle, so that a field there is safe to
ignore: it changes neither what is guaranteed nor what a number means. Everywhere else an unknown field is refused.
"""

from __future__ import annotations

import math
import re
from typing import Any

from pydantic import ConfigDict, model_validator

from dp_bundle.base.quoting import quote, require_one_line
from dp_bundle.manifest.base import Model, Name, Text

_FIELD = r"^[a-z][a-z0-9_]{0,63}$"
_MOST = 2**53  # which every reader counts exactly
_LONGEST_NAME, _LONGEST_TEXT = 1_000, 10_000


class Dataset(Model):
    """The publisher's description of her data; `further` has what later editions of the format describe it by."""

    model_config = ConfigDict(
        extra="allow", frozen=True, strict=True, json_schema_extra={"propertyNames": {"pattern": _FIELD}}
    )

    name: Name
    title: Text = ""
    description: Text = ""
    creator: Text = ""
    license: Text = ""
    contact: Text = ""
    url: Text = ""
    citation: Text = ""

    @property
    def further(self) -> dict[str, Any]:
        """The fields that this version of the software does not know: numbers, texts, lists and objects of them."""
        return dict(self.model_extra or {})

    @model_validator(mode="after")
    def _check(self) -> Dataset:
        for name, value in self.further.items():
            if not re.fullmatch(_FIELD, name):
                raise ValueError(f"{quote(name)} is no name of a field")
            _check_value(value)
        return self


def _check_value(value: Any) -> None:
    """Refuse, by ValueError, what is not JSON that every reader understands alike."""
    if isinstance(value, dict):
        for name, inner in value.items():
            _check_text(name, _LONGEST_NAME, least=1)
            _check_value(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            _check_value(inner)
    elif isinstance(value, str):
        _check_text(value, _LONGEST_TEXT)
    elif isinstance(value, (bool, type(None))):
        return
    elif not (isinstance(value, int) and abs(value) <= _MOST) and not (
        isinstance(value, float) and math.isfinite(value)
    ):
        raise ValueError("a further field holds a number that not every reader can hold")


def _check_text(text: object, longest: int, *, least: int = 0) -> None:
    if not isinstance(text, str) or not least <= len(text) <= longest:
        raise ValueError(f"a further field holds a text that has not {least} to {longest} characters")
    require_one_line(text)
