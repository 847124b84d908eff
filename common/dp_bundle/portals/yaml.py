"""Documents as YAML: texts and lists as in JSON, and numbers so that every reader takes them for numbers.

Readers of YAML 1.1 take 1e-06 for a text, and 1.0e-06 for a number.
"""

from __future__ import annotations

import json
from typing import Any


def to_yaml(document: dict[str, Any], indent: str = "") -> str:
    """Return a document of dicts, lists, texts and numbers, with a line for each entry."""
    lines = []
    for name, value in document.items():
        if isinstance(value, dict) and value:
            lines.append(f"{indent}{name}:\n{to_yaml(value, indent + '  ')}")
        else:
            lines.append(f"{indent}{name}: {_flow(value)}\n")
    return "".join(lines)


def _flow(value: Any) -> str:
    """Return a value in one line."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{json.dumps(name)}: {_flow(inner)}' for name, inner in value.items())}}}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_flow, value))}]"
    if isinstance(value, float):
        digits, mark, exponent = repr(value).partition("e")
        return f"{digits}{'' if '.' in digits or not mark else '.0'}{mark}{exponent}"
    return json.dumps(value, ensure_ascii=False)
