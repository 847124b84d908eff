"""Public names that are imported when they are asked for: most of what they need, a command has no use for."""

from __future__ import annotations

import importlib
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

__all__ = ["import_on_demand"]


def import_on_demand(package: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a package's module-level `__getattr__` (PEP 562).

    Parameters
    ----------
    package : str
        The package's own name.
    names : mapping of str to str
        Each public name, and the module that it is to be found in.
    """

    def find(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = getattr(importlib.import_module(names[name]), name)
        setattr(sys.modules[package], name, found)
        return found

    return find
