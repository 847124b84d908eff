"""The two relations between neighbouring tables, and how far each lets the sum of v v^T over rows move."""

import math
from enum import StrEnum

from dp_bundle.base.errors import ParameterError


class Neighbours(StrEnum):
    """Tables that a guarantee makes hard to tell apart: one row is replaced by another, or there is one row more.

    Where the unit of privacy is an entity, the same holds for all of its rows.
    """

    REPLACE_ONE = "replace-one"
    ADD_REMOVE = "add-remove"

    @classmethod
    def _missing_(cls, value: object) -> None:
        raise ParameterError("neighbours", '"replace-one" or "add-remove"', value)

    @property
    def n_rows_public(self) -> bool:
        """True where neighbours have equally many rows, so that their number is not protected."""
        return self is Neighbours.REPLACE_ONE

    @property
    def per_replacement(self) -> int:
        """The steps from neighbour to neighbour that replace a row: to remove one and add another takes two."""
        return 1 if self is Neighbours.REPLACE_ONE else 2

    @property
    def frobenius(self) -> float:
        """The largest Frobenius norm by which the sum moves, for rows in the unit ball: that of v v^T - w w^T."""
        return math.sqrt(2 / self.per_replacement)

    @property
    def nuclear(self) -> float:
        """The largest nuclear norm by which it moves."""
        return 2 / self.per_replacement
