"""Names of the repairs of a covariance, in a module that costs nothing to import: help is to come at once."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["RepairMethod"]


class RepairMethod(StrEnum):
    """The ways to make a covariance positive semidefinite."""

    NONE = "none"
    MAXNORM = "maxnorm"
    CLIP = "clip"
    SHRINK = "shrink"
