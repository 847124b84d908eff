"""Every folder inside a package is a room with one door, its `__init__.py`; import-linter holds the order of rooms."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

NAMES = ("dp_bundle", "dp_publish", "dp_learn")
PACKAGES = [Path(importlib.import_module(name).__file__ or "").parent for name in NAMES]
ROOMS = [door.parent for package in PACKAGES for door in sorted(package.glob("*/__init__.py"))]
MODULES = [path for package in PACKAGES for path in sorted(package.rglob("*.py")) if path.name != "__init__.py"]


def dotted(path: Path) -> str:
    """Return the name by which a file or folder is imported."""
    (package,) = (each for each in PACKAGES if path.is_relative_to(each))
    return ".".join(path.relative_to(package.parent).with_suffix("").parts)


def imports(path: Path) -> set[str]:
    """Return the modules that a file imports anywhere in it, for type checkers only or inside functions as well."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    froms = {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    return froms | {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}


@pytest.mark.parametrize("path", MODULES, ids=dotted)
def test_a_room_is_entered_by_its_door(path: Path) -> None:
    """Inside a room modules import from each other; from outside they import what the door offers."""
    imported = imports(path)
    for room in map(dotted, ROOMS):
        inside = dotted(path).startswith(f"{room}.")
        launcher = path.stem == "__main__" and room == "dp_bundle.startup"  # before a door could be read
        if inside:
            assert room not in imported, "a circle through the room's own door"
        elif not launcher:
            assert [name for name in imported if name.startswith(f"{room}.")] == []


@pytest.mark.parametrize("room", ROOMS, ids=dotted)
def test_a_door_holds_imports_alone(room: Path) -> None:
    """A door has a docstring and imports, all from its own room, and no name that one of its modules has too."""
    docstring, *statements = ast.parse((room / "__init__.py").read_text()).body
    offered = [each for block in statements if isinstance(block, ast.If) for each in block.body]
    names = {alias.name for each in offered if isinstance(each, ast.ImportFrom) for alias in each.names}
    modules = {path.stem for path in room.glob("*")}

    assert isinstance(docstring, ast.Expr)
    assert all(isinstance(each, (ast.ImportFrom, ast.Assign, ast.If)) for each in statements)
    assert all(isinstance(each, ast.ImportFrom) and (each.module or "").startswith(dotted(room)) for each in offered)
    assert names
    assert not names & modules
    for name in names:
        getattr(importlib.import_module(dotted(room)), name)
