"""Preparation of a release: what is decided, how its rows are read, and what draws it."""

from __future__ import annotations

import datetime
import importlib.metadata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dp_bundle.base.code import code_digest
from dp_bundle.base.errors import ParameterError
from dp_bundle.data.rows import batch_rows
from dp_bundle.files.places import RemotePath, located
from dp_bundle.manifest.base import software_with_code
from dp_bundle.trust.signing import public_key_of
from dp_publish.data.contribution_cap import EntityCap
from dp_publish.data.missing import RowReport
from dp_publish.data.table import Source, Table, reads_alone
from dp_publish.ledger.ledger import Ledger
from dp_publish.policy.model import Policy
from dp_publish.release.covariance import CovarianceMaker
from dp_publish.release.discovering import DiscoveringMaker
from dp_publish.release.parts import LocalWork
from dp_publish.release.rows import RowsMaker
from dp_publish.release.targets import Target
from dp_publish.release.workers.cluster import Cluster, whole_place
from dp_publish.sampling.keystream import Keystream

if TYPE_CHECKING:
    from dp_publish.release.workers.distributed import ClusterJob

_MOST_KEPT = 2**24  # numbers of a text file
Maker: TypeAlias = RowsMaker | CovarianceMaker | DiscoveringMaker


@dataclass(frozen=True)
class Order:
    """A release as it was decided on, before it is paid for.

    Attributes
    ----------
    policy : Policy
        Resolved.
    kinds : dict of str to str
        The columns to publish.
    left_out, withheld : tuple of str
        Other columns of the table; those of them that were a unit of privacy before.
    partition : str or None
        The part of the dataset's rows.
    target : Target
        Where the bundle goes.
    key : Ed25519PrivateKey
        The publisher's.
    ledger : Ledger
        Where it is booked.
    begun_at, then : datetime, callable
        As of `publish`.
    progress : callable, optional
        Called with the number of rows done.
    keystream : Keystream, optional
        As of `publish`.
    """

    policy: Policy
    kinds: dict[str, str]
    left_out: tuple[str, ...]
    withheld: tuple[str, ...]
    partition: str | None
    target: Target
    key: Ed25519PrivateKey
    ledger: Ledger
    begun_at: datetime.datetime
    then: Callable[[Any], None]
    progress: Callable[[int], None] | None = None
    keystream: Keystream | None = None


def make_maker(order: Order, table: Table, tasks: ClusterJob | None = None) -> Maker:
    """Return what draws a release from its table, in this process or by workers."""
    if order.policy.sought is not None:
        work_at = partial(_work_at, order.policy, order.keystream is None)
        return DiscoveringMaker(order.policy, table, order.partition, work_at)
    work = tasks or _work_at(order.policy, order.keystream is None, table, len(order.kinds))
    kind = CovarianceMaker if order.policy.privacy.is_moments else RowsMaker
    return kind(order.policy, order.kinds, order.partition, work)


def _work_at(policy: Policy, keeps_numbers: bool, table: Table, n_columns: int) -> LocalWork:
    """Return the rows that may be published, with this process at them."""
    rows, privacy = batch_rows(n_columns), policy.privacy
    if privacy.entity is None:
        return LocalWork(partial(_read, table, rows, {}), table.ranges, keeps_numbers)
    cap = EntityCap(table, privacy.entity.entity, privacy.max_rows, rows)
    report = RowReport(n_entities=cap.n_entities, n_over_cap=cap.n_left_out)
    return LocalWork(partial(_read, cap.table, rows, {}), cap.table.ranges, keeps_numbers=False, cap=cap, report=report)


def _read(
    table: Table, rows: int, kept: dict[str, list[pa.RecordBatch]], kinds: dict[str, str]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a table; a small text file is parsed once for all passes over the same columns."""
    if table.survey is None or table.survey().n_rows * len(kinds) > _MOST_KEPT or "text" in kinds.values():
        yield from table.read(kinds, rows)
        return
    if str(kinds) not in kept:
        kept.clear()
        kept[str(kinds)] = [*table.read(kinds, rows)]
    yield from kept[str(kinds)]


def place_for_workers(data: Source) -> str:
    """Return where workers find a table.

    Raises
    ------
    ParameterError
        They cannot be told which rows are theirs, as it is in memory, or a file that one process reads.
    """
    if isinstance(data, str | Path | RemotePath) and not reads_alone(located(data)):
        return whole_place(data)
    raise ParameterError(
        "--engine",
        "threads, unless DATA is a Parquet or Arrow file, or a folder or prefix of Parquet (any other file can be "
        "written as one)",
        "dask",
    )


def cluster_job(order: Order, cluster: Cluster, data: Source, table: Table) -> ClusterJob:
    """Return the work of a cluster at a table; see `place_for_workers`."""
    source = place_for_workers(data)
    from dp_publish.release.workers.distributed import ClusterJob  # which only a cluster needs

    return ClusterJob(cluster, source, table, order.policy, len(order.kinds))


def decided(order: Order) -> list[Any]:
    """Return all that decides on a release beside its table, but for where it goes."""
    policy = order.policy.model_dump(mode="json", exclude_unset=True)
    return [policy, order.kinds, order.left_out, order.partition, public_key_of(order.key).fingerprint, software()]


def software() -> str:
    """Return what a manifest states: the name, the version, and the digest of the code."""
    return software_with_code(f"dpgraph {importlib.metadata.version('dpgraph')}", code_digest())
