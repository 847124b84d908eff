"""Facts that a release does not protect: sentences with fixed beginnings, so that a reader can check for them."""

from __future__ import annotations

from collections.abc import Sequence

from dp_bundle.manifest.columns import Column
from dp_bundle.manifest.guarantee import Guarantee

ORDER_PUBLIC = "the number and the order of the rows"  # what a release of rows does not protect
NUMBER_PUBLIC = "the number of the rows"  # the same for a covariance release, unless rows may come and go
TOGETHER_PUBLIC = "which rows belong together"  # where the rows of an entity are protected together, and replaced
PARTITION_PUBLIC = "that the rows are those of "  # and the partition's name
GAPS_PUBLIC = "which rows have no value in "  # and the columns' names, where such rows are left out


def check_public(guarantee: Guarantee, columns: Sequence[Column], partition: str | None) -> None:
    """Refuse, by ValueError, a guarantee that leaves out what it does not protect."""
    replaced = guarantee.neighbours.n_rows_public
    due = {
        ORDER_PUBLIC: columns[0].noise is not None,
        TOGETHER_PUBLIC: replaced and guarantee.entity is not None,
        PARTITION_PUBLIC: partition is not None,
        GAPS_PUBLIC: replaced and any(column.missing == "drop" for column in columns),
    }
    for fact, is_due in due.items():
        if is_due and not any(named.startswith(fact) for named in guarantee.public):
            raise ValueError(f"it is public, and not named as such, {fact.strip()}")
