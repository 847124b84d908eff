"""Names of a package that are imported on first use, as a command needs few of them."""

from __future__ import annotations

import importlib
import sys

TYPE_CHECKING = False  # typing's own takes longer to import than all the rest here
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_ONLY_AST = 0x400  # ast.PyCF_ONLY_AST, without importing ast


def import_on_demand(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return a package's module-level `__getattr__` and `__dir__` (PEP 562).

    What the package offers, and from which of its modules, is read from the imports under `if TYPE_CHECKING` in its
    `__init__.py`. So people, type checkers and programs go by one list, which is also `__all__`.

    Parameters
    ----------
    package : str
        The package's own name.
    """
    modules: dict[str, str] = {}

    def find(name: str) -> Any:
        if not modules:
            modules.update(_offered(package))
        if name == "__all__":
            return sorted(modules)
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = getattr(importlib.import_module(modules[name]), name)
        setattr(sys.modules[package], name, found)
        return found

    return find, lambda: sorted(_offered(package))


def _offered(package: str) -> dict[str, str]:
    """Return the module of every name that a package imports for type checkers."""
    loader: Any = sys.modules[package].__loader__
    tree: Any = compile(loader.get_source(package), package, "exec", _ONLY_AST)
    blocks = [block for block in tree.body if getattr(getattr(block, "test", None), "id", "") == "TYPE_CHECKING"]
    imports = [statement for block in blocks for statement in block.body]
    return {alias.name: statement.module for statement in imports for alias in statement.names}
