"""The examples in docstrings print what they say."""

import doctest
import importlib
from pathlib import Path

import pytest

MODULES = sorted(
    ".".join(path.relative_to(package.parent).with_suffix("").parts)
    for package in (
        Path(importlib.import_module(name).__file__ or "").parent
        for name in ("dp_bundle", "dp_publish", "dp_audit", "dp_learn")
    )
    for path in package.rglob("*.py")
    if ">>> " in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_print_what_they_say(name: str) -> None:
    """Every example of a module runs, and shows what its docstring shows."""
    found = doctest.testmod(importlib.import_module(name))

    assert found.attempted
    assert not found.failed
