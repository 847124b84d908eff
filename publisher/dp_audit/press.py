"""Made-up tables published like real ones, and opened like a reader does.

Publication itself is handed in, as a `Press`, which yields the bundle's path and the cost that was booked: nothing here
can reach a ledger. The command's is `release.publish_aside`.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pydantic import ValidationError

from dp_bundle.base.errors import DpGraphError
from dp_bundle.bundle.opened import Bundle
from dp_bundle.bundle.reading import open_bundle
from dp_bundle.manifest.release import Release
from dp_bundle.trust.judging import UnsafeTrustAnyone
from dp_publish.accounting.conversions import Cost
from dp_publish.data.dialect import Dialect
from dp_publish.policy.model import Policy
from dp_publish.sampling.keystream import Keystream

UNPUBLISHED = (DpGraphError, ValidationError)  # what a publication fails with
Press: TypeAlias = Callable[[pa.Table, Policy, Keystream | None], AbstractContextManager[tuple[Path, Cost]]]


@dataclass(frozen=True)
class Published:
    """The contents of a bundle of made-up rows as a reader finds them, and the cost that was booked.

    Attributes
    ----------
    release : Release
        The manifest.
    values : ndarray of float64
        The noisy rows, or the noisy matrix of a covariance release.
    cost : Cost
        What was booked.
    seen : dict of str to Any
        Everything else: the manifest as a document but for the time, the names of the members, the size of every row
        group, and the README.
    rounds : Rounds or None
        The other matrices, where a covariance was released in two rounds.
    """

    release: Release
    values: NDArray[np.float64] = field(repr=False)
    cost: Cost
    seen: dict[str, Any] = field(repr=False)
    rounds: Rounds | None = None


@dataclass(frozen=True, eq=False)
class Rounds:
    """The noisy matrix of the first of two rounds, and what the second multiplied its rows by."""

    first: NDArray[np.float64] = field(repr=False)
    transform: NDArray[np.float64] = field(repr=False)


def made_up_policy(policy: Policy, kinds: dict[str, str]) -> Policy:
    """Return a policy for a made-up table of these columns alone; what is spent on it counts towards no budget."""
    privacy = policy.privacy.model_copy(update={"budget_mu": None})
    columns = {name: entry for name, entry in policy.columns.items() if name in kinds}
    return policy.model_copy(update={"privacy": privacy, "columns": columns, "table": Dialect()})


def publish_made_up(press: Press, table: pa.Table, policy: Policy, keystream: Keystream | None = None) -> Published:
    """Publish a made-up table, and open the bundle."""
    with press(table, policy, keystream) as (path, cost), open_bundle(path, UnsafeTrustAnyone()) as bundle:
        covariance = bundle.release.kind == "covariance"
        values = bundle.second_moments() if covariance else _rows(bundle)
        stated, rounds = bundle.release.second_moments, None
        if stated is not None and stated.first_round is not None:
            rounds = Rounds(bundle.first_round(), bundle.transform())
        return Published(bundle.release, values, cost, _seen(bundle), rounds)


def not_published(error: Exception) -> str:
    """Return what is wrong where that failed."""
    return f"made-up rows cannot be published: {error}"


def _rows(bundle: Bundle) -> NDArray[np.float64]:
    batches = [np.column_stack([column.to_numpy() for column in batch.columns]) for batch in bundle.batches()]
    return np.concatenate(batches).astype(np.float64)


def _seen(bundle: Bundle) -> dict[str, Any]:
    document = json.loads(bundle.release.model_dump_json())
    created = document["lineage"].pop("created")
    document["lineage"].pop("ledger_head")  # a hash over the books, and so over the time
    with bundle.open("README.md") as file:
        readme = file.read().decode().replace(created, "")
    layout = []
    for name in bundle.members:
        if name.startswith("data/"):
            with bundle.open(name) as file:
                metadata = pq.ParquetFile(io.BytesIO(file.read())).metadata
            layout += [metadata.row_group(index).num_rows for index in range(metadata.num_row_groups)]
    return {"members": list(bundle.members), "row groups": layout, "README.md": readme, **document}
