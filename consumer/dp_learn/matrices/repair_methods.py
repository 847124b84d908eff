"""Names of the repairs of a covariance, in a module that costs nothing to import: help is to come at once."""

from enum import StrEnum


class RepairMethod(StrEnum):
    """The ways to make a covariance positive semidefinite."""

    NONE = "none"
    MAXNORM = "maxnorm"
    CLIP = "clip"
    SHRINK = "shrink"
