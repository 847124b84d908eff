"""The weights of the penalty by name; the command's options need no more than this."""

from __future__ import annotations

from enum import StrEnum


class Weights(StrEnum):
    """The weights of the penalty, by name."""

    AUTO = "auto"
    EQUAL = "equal"
    NOISE = "noise"
