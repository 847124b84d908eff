"""The events that a ledger's log holds, one a line: what a line must be before it is believed.

A log is chained, so that nothing in it changes unseen; but whoever chains it anew can write anything into it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

_MOST_RELEASES = 10**9
_STATES = {"lost", "reserved", "cancelled", "sealed", "published"}


def read_event(line: str) -> dict[str, Any]:
    """Return what a line says.

    Raises
    ------
    ValueError
        It is no event.
    """
    try:
        content = json.loads(line)
        event = content["event"]
        rules = _RESERVATION if event in ("reserved", "restored") else _CHANGE
        if event not in (_STATES - {"lost"}) | {"restored"} or any(
            not holds(content[name]) for name, holds in rules.items()
        ):
            raise ValueError("an entry has a value that is not allowed")
        if any(not holds(content[name]) for name, holds in _OPTIONAL.items() if name in content):
            raise ValueError("an entry has a value that is not allowed")
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError("it is not an event") from error
    return dict(content)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and not any("\ud800" <= character <= "\udfff" for character in value)


def _is_name(value: Any) -> bool:
    return _is_text(value) and value != ""


def _is_cost(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf


def _are_costs(value: Any) -> bool:
    return isinstance(value, dict) and all(_is_name(unit) and _is_cost(mu) for unit, mu in value.items())


def _are_changes(value: Any) -> bool:
    limits = value.values() if isinstance(value, dict) else [0]
    return all(limit is None or (_is_cost(limit) and limit > 0) for limit in limits)


def _is_digest(value: Any) -> bool:
    return value is None or (isinstance(value, str) and len(value) == 64 and set(value) <= set("0123456789abcdef"))


_CHANGE: dict[str, Callable[[Any], bool]] = {
    "dataset": _is_name,
    "number": lambda value: type(value) is int and 0 < value <= _MOST_RELEASES,
}
_RESERVATION = _CHANGE | {
    "partition": lambda value: value is None or _is_name(value),
    "time": _is_text,
    "unit": _is_name,
    "mu": _are_costs,
    "continuous": lambda value: isinstance(value, bool),
}
_OPTIONAL: dict[str, Callable[[Any], bool]] = {  # which older lines, or most, do not have
    "excepted_delta": _is_cost,
    "budgets": _are_costs,
    "changes": _are_changes,
    "rho": _are_costs,
    "state": lambda value: value in _STATES,
    "manifest_sha256": _is_digest,
    "file": lambda value: value is None or _is_text(value),
}
