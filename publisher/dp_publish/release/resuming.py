"""Going on with a release whose process ended, from the records of its job."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dp_bundle.base.errors import DpGraphError, KeyStoreError
from dp_bundle.base.quoting import quote_path
from dp_bundle.files.places import located
from dp_bundle.trust.signing import public_key_of
from dp_publish.data.row_ranges import describe_files
from dp_publish.data.table import coded, open_table
from dp_publish.ledger.ledger import Ledger, Reservation, open_ledger
from dp_publish.policy.coded_columns import signs_of
from dp_publish.policy.model import Policy
from dp_publish.release.job import Job, open_job
from dp_publish.release.preparing import Order, cluster_job, make_maker, software
from dp_publish.release.publishing import Receipt, carry_out, in_our_words
from dp_publish.release.targets import choose_target
from dp_publish.release.workers.cluster import Cluster, dask_cluster, remove_staged


def resume(
    job: str | Path,
    *,
    key: Ed25519PrivateKey,
    progress: Callable[[int], None] | None = None,
    workers: Callable[[str], AbstractContextManager[Cluster]] | None = None,
) -> tuple[Receipt, Policy]:
    """Finish a release that `publish` began with a job; what was booked and drawn is neither booked nor drawn again.

    Parameters
    ----------
    job : str or Path
        The job's folder, which is deleted afterwards.
    key : Ed25519PrivateKey
        The key with which it was begun.
    progress : callable, optional
        Called with the number of rows done.
    workers : callable, optional
        Takes the staging place of a job that was begun with workers, and opens a cluster; by default on this machine.

    Returns
    -------
    receipt : Receipt
        As of `publish`.
    policy : Policy
        The policy of the release, resolved.

    Raises
    ------
    DpGraphError
        It is no job, the table was changed since, or another process is at it.
    KeyStoreError
        It is another key.
    """
    with contextlib.ExitStack() as ending, open_job(Path(job)) as running:
        plan = running.plan
        if plan.staging:
            running.before_removal = partial(remove_staged, plan.staging, plan.staged)
        _require_same(running, key)
        policy = Policy.model_validate_json(json.dumps(plan.policy))
        ledger, target = open_ledger(plan.ledger), choose_target(plan.out)
        columns = plan.kinds, tuple(plan.left_out), tuple(plan.withheld)
        order = Order(policy, *columns, plan.partition, target, key, ledger, progress)
        found, is_drawn = _find(running, ledger), running.read("contents") is not None
        data = located(plan.data)
        if not is_drawn and describe_files(data) != plan.inputs:
            raise DpGraphError(
                f"{quote_path(data)} was changed since the job was begun, and one release cannot be of two tables: put "
                "the old file back, with its time of change, or publish anew"
            )
        if found is None:
            with in_our_words(target):
                target.prepare()

        maker = tasks = None
        if not is_drawn:
            table = coded(open_table(plan.data, policy.table), policy.sources, signs_of(policy))
            if plan.staging is not None:
                cluster = ending.enter_context((workers or partial(dask_cluster, None))(plan.staging))
                tasks = cluster_job(order, cluster, plan.data, table, plan.staged)
                tasks.prepare()
            maker = make_maker(order, table, tasks)
        return carry_out(order, maker, running, found), policy


def _find(job: Job, ledger: Ledger) -> Reservation | None:
    """Return the reservation of the job's release, if it came so far, and if the job can still finish it."""
    found = ledger.find(job.plan.policy["dataset"]["name"], job.plan.mark)
    if found is None:
        if job.read("reserved") is not None or job.has_drawn:
            raise DpGraphError(
                f"the plan of the job {quote_path(job.folder)} is not what was booked, or the ledger {ledger.place} is "
                "not the one where it was: put back the plan, or restore the ledger"
            )
        return None

    entry, number = ledger.entry(found), found.lineage.number
    if entry is None or entry.state == "cancelled":
        raise DpGraphError(
            f"release {number} was taken off the books: delete the folder {quote_path(job.folder)}, and publish anew"
        )
    if entry.state == "sealed" and job.read("contents") is None:
        raise DpGraphError(
            f"the job {quote_path(job.folder)} lacks what was drawn for release {number}, which is signed and may have "
            "been seen; it stays on the books as spent: publish anew"
        )
    return found


def _require_same(job: Job, key: Ed25519PrivateKey) -> None:
    """Refuse another key, and another version, which might write other bytes."""
    if public_key_of(key).fingerprint != job.plan.key:
        raise KeyStoreError(f"this job was begun with the key {job.plan.key}: give that one with --key")
    if job.plan.software != software():
        raise DpGraphError(f"this job was begun with {job.plan.software}: resume it with that version")
