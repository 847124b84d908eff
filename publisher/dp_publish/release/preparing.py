"""Preparation of a release: how its rows are read, what draws it, who works at it, and the plan of its job."""

from __future__ import annotations

import importlib.metadata
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dp_bundle.base.code import code_digest
from dp_bundle.base.errors import ParameterError
from dp_bundle.data.rows import batch_rows
from dp_bundle.files.places import RemotePath, located
from dp_bundle.manifest.base import software_with_code
from dp_bundle.trust.signing import public_key_of
from dp_publish.data.contribution_cap import EntityCap
from dp_publish.data.dialect import is_text_file
from dp_publish.data.missing import RowReport
from dp_publish.data.row_ranges import describe_files
from dp_publish.data.table import Source, Table
from dp_publish.ledger.ledger import Ledger
from dp_publish.policy.model import Policy, Privacy
from dp_publish.release.contents import Maker
from dp_publish.release.covariance import CovarianceMaker
from dp_publish.release.job import JobPlan
from dp_publish.release.rows import RowsMaker
from dp_publish.release.work import LocalWork, RowWork
from dp_publish.release.workers.cluster import Cluster
from dp_publish.sampling.keystream import Keystream

if TYPE_CHECKING:
    from dp_publish.release.workers.distributed import ClusterJob as ClusterJob


def make_maker(
    table: Table,
    policy: Policy,
    kinds: dict[str, str],
    partition: str | None,
    keystream: Keystream | None = None,
    tasks: ClusterJob | None = None,
) -> tuple[Maker, RowReport]:
    """Return what draws the release of a table under a resolved policy, and the report that it fills in."""
    privacy = policy.privacy
    work: RowWork
    if tasks is not None:
        work, report = tasks, tasks.report
    else:
        work, report = _local_work(table, privacy, len(kinds), keeps_numbers=keystream is None)
    if privacy.release == "covariance":
        return CovarianceMaker(policy, kinds, partition, work, report), report
    return RowsMaker(policy, kinds, table, partition, work, report), report


def place_for_workers(data: Source) -> Path | RemotePath:
    """Return where workers find a table.

    Raises
    ------
    ParameterError
        They cannot be told which rows are theirs, as it is a text file or in memory.
    """
    if isinstance(data, str | Path | RemotePath) and not is_text_file(place := _absolute(data)):
        return place
    raise ParameterError(
        "--engine",
        "threads, unless DATA is a Parquet or Arrow file, or a folder or prefix of Parquet (a text file can be "
        "written as one)",
        "dask",
    )


def cluster_job(
    cluster: Cluster, data: Source, table: Table, policy: Policy, kinds: Mapping[str, str], name: str | None = None
) -> ClusterJob:
    """Return the job of a cluster; see `place_for_workers`."""
    source = _text(place_for_workers(data))
    from dp_publish.release.workers.distributed import ClusterJob as ClusterJob  # which only a cluster needs

    privacy = policy.privacy
    cap = None if privacy.entity is None else (privacy.entity.entity, privacy.max_rows)
    return ClusterJob(cluster, source, table, len(kinds), policy.sources, cap, name)


def plan_job(
    data: Source,
    policy: Policy,
    kinds: dict[str, str],
    left_out: tuple[str, ...],
    withheld: tuple[str, ...],
    partition: str | None,
    out: str | os.PathLike[str],
    key: Ed25519PrivateKey,
    ledger: Ledger,
    cluster: Cluster | None,
) -> JobPlan:
    """Return the plan of a new job; see `JobPlan` and `publish`."""
    if not isinstance(data, str | Path | RemotePath):
        raise ParameterError("data", "a file or folder, for a job that can be resumed")
    source, place = _absolute(data), _absolute(out)
    text = _text(place) + "/" * (isinstance(place, Path) and isinstance(out, str) and out.endswith("/"))
    return JobPlan(
        job_id=secrets.token_hex(16),
        software=software(),
        data=_text(source),
        inputs=describe_files(source),
        policy=policy.model_dump(mode="json", exclude_unset=True),
        kinds=kinds,
        left_out=list(left_out),
        withheld=list(withheld),
        partition=partition,
        out=text,
        key=public_key_of(key).fingerprint,
        ledger=None if ledger.is_own else ledger.place,
        staging=None if cluster is None else "" if cluster.is_temporary else cluster.staging,
    )


def software() -> str:
    """Return what a manifest states: the name, the version, and the digest of the code."""
    return software_with_code(f"dpgraph {importlib.metadata.version('dpgraph')}", code_digest())


def _local_work(table: Table, privacy: Privacy, n_columns: int, *, keeps_numbers: bool) -> tuple[LocalWork, RowReport]:
    """Return the rows that may be published, with this process at them, and a fresh report."""
    rows = batch_rows(n_columns)
    if privacy.entity is None:
        return LocalWork(lambda kinds: table.read(kinds, rows), table.ranges, keeps_numbers), RowReport()
    cap = EntityCap(table, privacy.entity.entity, privacy.max_rows, rows)
    report = RowReport(n_entities=cap.n_entities, n_over_cap=cap.n_left_out)
    return LocalWork(cap.read, cap.ranges, keeps_numbers=False, cap=cap), report


def _absolute(place: str | os.PathLike[str]) -> Path | RemotePath:
    found = located(place)
    return found.absolute() if isinstance(found, Path) else found


def _text(place: Path | RemotePath) -> str:
    return place.uri if isinstance(place, RemotePath) else str(place)
