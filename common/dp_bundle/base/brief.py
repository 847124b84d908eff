"""Objects that say what they are in one line, however large the arrays that they hold."""

import reprlib
from dataclasses import fields
from typing import Any

_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 60


class Brief:
    """A dataclass with a repr of one line: arrays by their shapes, and everything else cut short.

    A subclass has this repr although `dataclass` would give it another one.
    """

    def __init_subclass__(cls) -> None:
        """Give a class the short repr, unless it has its own."""
        if "__repr__" not in vars(cls):
            cls.__repr__ = Brief.__repr__  # type: ignore[method-assign]

    def __repr__(self) -> str:
        """Return the class, and its fields in short."""
        own: Any = self
        shown = (f"{each.name}={_in_short(getattr(self, each.name))}" for each in fields(own))
        return f"{type(self).__name__}({', '.join(shown)})"


def _in_short(value: Any) -> str:
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple) and shape:
        return f"<{type(value).__name__} of shape {shape}>"
    return f"<{type(value).__name__}>" if isinstance(value, Brief) else " ".join(_SHORT.repr(value).split())
