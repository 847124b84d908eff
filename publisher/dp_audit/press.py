"""Made-up tables published like real ones, and opened like a reader does.

Publication itself is handed in, as a `Press`, which yields the bundle's path and the cost that was booked: nothing here
can reach a ledger. The command's is `release.publishing.publish_aside`.
"""

import datetime
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import ValidationError

from dp_bundle.base.errors import DpGraphError
from dp_bundle.bundle.reading import open_bundle
from dp_bundle.data.margins import Margin
from dp_bundle.manifest.release import Release
from dp_bundle.trust.judging import UnsafeTrustAnyone
from dp_publish.accounting.conversions import Cost
from dp_publish.data.dialect import Dialect
from dp_publish.policy.model import Policy

UNPUBLISHED = (DpGraphError, ValidationError)  # what a publication fails with
Press: TypeAlias = Callable[[pa.Table, Policy], AbstractContextManager[tuple[Path, Cost]]]


@dataclass(frozen=True)
class Published:
    """The contents of a bundle of made-up rows as a reader finds them, and the cost that was booked.

    Attributes
    ----------
    release : Release
        The manifest.
    cost : Cost
        What was booked.
    begun : datetime
        When publishing began.
    values : ndarray of float64
        The noisy rows, or the noisy matrix of a covariance release.
    first_round, transform : ndarray of float64 or None
        Where a covariance was released in two rounds, the noisy matrix of the first, and what the second multiplied its
        rows by.
    margins : tuple of Margin
        The histograms, if there are any.
    """

    release: Release
    cost: Cost
    begun: datetime.datetime
    values: NDArray[np.float64] = field(repr=False)
    first_round: NDArray[np.float64] | None = field(default=None, repr=False)
    transform: NDArray[np.float64] | None = field(default=None, repr=False)
    margins: tuple[Margin, ...] = field(default=(), repr=False)


def made_up_policy(policy: Policy, kinds: dict[str, str]) -> Policy:
    """Return a policy for a made-up table of these columns alone; what is spent on it counts towards no budget."""
    privacy = policy.privacy.model_copy(update={"budget_mu": None})
    columns = {name: entry for name, entry in policy.columns.items() if name in kinds}
    return policy.model_copy(update={"privacy": privacy, "columns": columns, "table": Dialect()})


def publish_made_up(press: Press, table: pa.Table, policy: Policy) -> Published:
    """Publish a made-up table, and open the bundle."""
    begun = datetime.datetime.now(datetime.UTC)
    with press(table, policy) as (path, cost), open_bundle(path, UnsafeTrustAnyone()) as bundle:
        release, stated = bundle.release, bundle.release.second_moments
        if stated is None:
            batches = [np.column_stack([column.to_numpy() for column in batch.columns]) for batch in bundle.batches()]
            return Published(release, cost, begun, np.concatenate(batches).astype(np.float64))
        first, transform = (bundle.first_round(), bundle.transform()) if stated.first_round else (None, None)
        margins = bundle.margins() if release.margins is not None else ()
        return Published(release, cost, begun, bundle.second_moments(), first, transform, margins)


def not_published(error: Exception) -> str:
    """Return what is wrong where that failed."""
    return f"made-up rows cannot be published: {error}"
