"""Facts that a release makes public under a policy, in the words of the manifest."""

from __future__ import annotations

from collections.abc import Sequence

from dp_bundle.base.quoting import listed
from dp_bundle.manifest.columns import Column, source_names
from dp_bundle.manifest.guarantee import GAPS_PUBLIC, NUMBER_PUBLIC, ORDER_PUBLIC, PARTITION_PUBLIC, TOGETHER_PUBLIC
from dp_publish.policy.model import Policy


def public_facts(policy: Policy, columns: Sequence[Column], partition: str | None) -> tuple[str, ...]:
    """Return what the guarantee does not protect; where rows may come and go, at most the partition's name."""
    privacy = policy.privacy
    part = [f"{PARTITION_PUBLIC}{partition!r}"] if partition is not None else []
    if not privacy.neighbours.n_rows_public:
        return tuple(part)

    together = [TOGETHER_PUBLIC] if privacy.entity else []
    dropping = source_names([column for column in columns if column.missing == "drop"])
    gaps = [f"{GAPS_PUBLIC}{listed(dropping)}"] if dropping else []
    if privacy.release == "covariance":
        return (NUMBER_PUBLIC, *part, *together, *gaps)
    return (ORDER_PUBLIC, *together, *part, *gaps)
