"""One release, from the raw table to a signed file: in constant memory, all or nothing.

The order is: decide what the release will cost, reserve that, draw the noise into unnamed temporary files, seal the
archive into another, note that it may leave, give it its name, note that it has. What is drawn is the business of
`release.rows` or `release.covariance`, and where the bundle goes that of `release.targets`. The final name, or
elsewhere the manifest, appears in one atomic step and replaces nothing, so there is a whole bundle or none; unnamed
files vanish with the process, however it ends. A cost is taken back only where the process never came to giving the
file its name: afterwards a missing file proves nothing, as others may have moved it, and neither does an error, as a
file may be in place though the answer was lost.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import BinaryIO, cast

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dp_bundle.base.errors import BudgetExceededError, DpGraphError, StoreError
from dp_bundle.base.launch import interrupts_held
from dp_bundle.bundle.writing import write_bundle
from dp_bundle.describe.sentences import REPLACEMENT
from dp_bundle.files.new_files import settle
from dp_bundle.files.places import RemotePath
from dp_bundle.manifest.release import Release
from dp_bundle.trust.minisign import DigestWriter
from dp_publish.data.missing import RowReport
from dp_publish.data.table import Source
from dp_publish.ledger.ledger import Ledger, Reservation
from dp_publish.policy.columns import Prepared, prepare, require_rows
from dp_publish.policy.model import Policy
from dp_publish.release.contents import Contents, Maker, Making, may_reveal_noise
from dp_publish.release.job import Job, begin_job, require_new_job
from dp_publish.release.preparing import cluster_job, make_maker, plan_job, software
from dp_publish.release.recorded import carry_out
from dp_publish.release.targets import Target, choose_target, taken
from dp_publish.release.workers.cluster import Cluster, require_apart
from dp_publish.sampling.keystream import Keystream, SecureKeystream


@dataclass(frozen=True)
class Receipt:
    """A release that was published, and what its publisher should know.

    `blake2b` is the BLAKE2b-512 digest of the whole file, which minisign signs.
    `report`, and it alone, tells of private values: keep it. `remark` says what was chosen for her, and why. `withheld`
    are those of the columns left out that were the unit of privacy of an earlier release; `budgets` and `spent`, the
    mu of all releases of the dataset so far, hold by unit.

    The repr, which a notebook saves with its cell, shows what everybody may see; all else is read by its name. A pickle
    of a receipt holds all of it.
    """

    path: Path | RemotePath
    release: Release
    manifest_sha256: str
    blake2b: bytes
    left_out: tuple[str, ...] = field(repr=False)
    report: RowReport = field(repr=False)
    remark: str | None = field(default=None, repr=False)
    withheld: tuple[str, ...] = field(default=(), repr=False)
    budgets: Mapping[str, float] = field(default_factory=dict, repr=False)
    spent: Mapping[str, float] = field(default_factory=dict, repr=False)


def publish(
    data: Source,
    policy: Policy,
    *,
    out: str | os.PathLike[str],
    key: Ed25519PrivateKey,
    ledger: Ledger | None = None,
    partition: str | None = None,
    progress: Callable[[int], None] | None = None,
    keystream: Keystream | None = None,
    cluster: Cluster | None = None,
    job: str | os.PathLike[str] | None = None,
    prepared: Prepared | None = None,
) -> Receipt:
    """Add calibrated noise to a table and write it as one signed bundle.

    Parameters
    ----------
    data : path, pyarrow.Table or pandas.DataFrame
        The raw rows.
    policy : Policy
        Names, bounds, unit of privacy, strength.
    out : str, Path or RemotePath
        Where the bundle goes: a new tar; a new folder, as text that ends in a slash; or a URI that begins with `s3://`,
        `gs://` or `az://`, below which nothing is yet. Nothing is ever replaced.
    key : Ed25519PrivateKey
        The publisher's signing key.
    ledger : Ledger, optional
        Where the cost is kept; the user's own by default.
    partition : str, optional
        The part of the dataset's rows that this is, disjoint from every other partition's.
    progress : callable, optional
        Called with the number of rows done after each batch.
    keystream : Keystream, optional
        Where random bits come from: a new `SecureKeystream`, and nothing else, for real data. An audit of made-up rows
        gives one that can be repeated.
    cluster : Cluster, optional
        Workers that read the table, sum its rows or add noise to them, and where they stage parts. From the first noisy
        part on, the release stays on the books whatever happens.
    job : str or Path, optional
        A new folder, for the user alone, that records what is decided and drawn, so that `resume` can finish the
        release if this process ends early. It is deleted in the end. The table must be a file, or a folder of files.
    prepared : Prepared, optional
        The same table and policy, if they were checked in advance (`check_in_advance`), which need not be done twice.

    Returns
    -------
    Receipt
        The release and what the publisher should know about it.

    Raises
    ------
    PolicyError, DataError, PrivacyError
        The policy, the table or the guarantee does not allow a release; nothing is written, and nothing spent unless
        bounds were found with which the strength does not go together.
    BudgetExceededError
        The release would pass a budget of the dataset, or have none where it needs one; nothing is written or spent.
    """
    target, ledger = choose_target(out), ledger if ledger is not None else Ledger()
    with in_our_words(target):  # a name that cannot be had costs least before the table is read
        target.prepare()

    prepared = prepared or prepare(data, policy, ledger.entities(policy.dataset.name))
    table, policy, kinds, left_out = prepared.table, prepared.policy, prepared.kinds, prepared.left_out
    require_rows(table, policy, kinds)

    withheld_here, plan = prepared.withheld, None
    if cluster is not None:
        require_apart(cluster, job, out)
    if job is not None:
        require_new_job(Path(job))
        plan = plan_job(data, policy, kinds, left_out, withheld_here, partition, out, key, ledger, cluster)
    staged = None if plan is None else plan.staged
    tasks = None if cluster is None else cluster_job(cluster, data, table, policy, kinds, staged)
    with contextlib.ExitStack() as ending:
        if tasks is not None:
            if job is None:
                ending.callback(tasks.remove)
            tasks.prepare()
        maker, report = make_maker(table, policy, kinds, partition, keystream, tasks)
        if job is not None and plan is not None:
            with begin_job(Path(job), plan) as running:
                if tasks is not None:
                    running.before_removal = tasks.remove
                booked = partial(book, ledger, policy, maker, partition, kinds, running)
                return publish_job(running, policy, ledger, target, booked, maker, report, key, progress)

        make = partial(_make_bundle, policy, maker, key, target.folder, progress, keystream)
        with in_our_words(target):
            booked = partial(book, ledger, policy, maker, partition, kinds)
            is_seen = (lambda: False) if tasks is None else (lambda: tasks.has_staged_noise)
            release, digests, booked_as = _release(ledger, booked, target, make, is_seen)
    spent = booked_as.budgets, booked_as.spent
    return Receipt(target.path, release, *digests, left_out, report, maker.remark, withheld_here, *spent)


def publish_job(
    job: Job,
    policy: Policy,
    ledger: Ledger,
    target: Target,
    booked: Callable[[], Reservation],
    maker: Maker | None,
    report: RowReport | None,
    key: Ed25519PrivateKey,
    progress: Callable[[int], None] | None,
) -> Receipt:
    """Do what is left of a release that has a job.

    Parameters
    ----------
    job : Job
        Its records.
    policy : Policy
        Resolved.
    ledger : Ledger
        Where it is booked.
    target : Target
        Where the bundle goes.
    booked : callable
        Books it, or returns what was booked.
    maker : Maker or None
        Draws what has no record; None if all has.
    report : RowReport or None
        Filled in by the maker.
    key : Ed25519PrivateKey
        The publisher's.
    progress : callable or None
        Called with the number of rows done.
    """
    said: list[tuple[RowReport, str | None]] = []

    def make(reservation: Reservation, file: BinaryIO) -> tuple[Release, str, bytes]:
        with contextlib.ExitStack() as drawn:
            recorded = job.contents()
            if recorded is not None:
                drawn.enter_context(job.reading("contents"))
            else:
                if maker is None or report is None:
                    raise DpGraphError(f"the job {job.folder} lacks a record: publish anew")
                contents = maker.make(Making(SecureKeystream(), job.new_file, drawn, progress, job))
                job.record_contents(contents, report, maker.remark)
                recorded = contents, report, maker.remark
            contents, own, remark = recorded
            said.append((own, remark))
            return _seal(policy, reservation, contents, key, file)

    with in_our_words(target):
        done = carry_out(job, ledger, booked, target, make, lambda: said[0])
    release, digests, reservation, rows, remark = done
    left_out, withheld = tuple(job.plan.left_out), tuple(job.plan.withheld)
    spent = reservation.budgets, reservation.spent
    return Receipt(target.path, release, *digests, left_out, rows, remark, withheld, *spent)


def book(
    ledger: Ledger,
    policy: Policy,
    maker: Maker,
    partition: str | None,
    kinds: Mapping[str, str],
    job: Job | None = None,
) -> Reservation:
    """Put the release on the books; that of a job once only."""
    privacy, mark = policy.privacy, None if job is None else job.plan.mark
    try:
        return ledger.reserve(
            policy.dataset.name,
            maker.cost,
            partition=partition,
            budget_mu=privacy.budget_mu,
            columns=kinds,
            job=mark,
        )
    except BudgetExceededError as error:
        if not privacy.neighbours.n_rows_public:
            error.add_note(REPLACEMENT)
        raise


def _release(
    ledger: Ledger,
    book: Callable[[], Reservation],
    target: Target,
    make: Callable[[Reservation, BinaryIO], tuple[Release, str, bytes]],
    is_seen: Callable[[], bool],
) -> tuple[Release, tuple[str, bytes], Reservation]:
    """Book the release, make its bundle, give that its name, and keep the books true whatever happens on the way.

    `is_seen` tells whether somebody may have seen noisy rows, so that nothing is taken back.
    """
    reservation, digest, leaving, sealed = None, "", False, False
    recorded = os.fsencode(target.path).decode("utf-8", "backslashreplace")  # a log is text, whatever bytes a name has

    with contextlib.ExitStack() as ending:
        try:
            # 1. It is paid for before any noise is drawn.
            with interrupts_held():
                reservation = book()

            # 2. The bundle is made under no name; until it is whole and on the disk, the release can be taken back.
            with target.staging() as file:
                release, digest, whole = make(reservation, file)
                settle(file)
                target.require_free()  # the last moment at which it costs nothing to find out

                # 3. From the seal on it counts as having left. It is put in its place where this block ends.
                done = f"{_name(reservation)} is published, at {target.path}, and on the books as spent"
                ending.enter_context(interrupts_held(done))
                leaving = True
                ledger.seal(reservation, digest, recorded)
                sealed = True
        except BaseException as error:
            if reservation is not None and not leaving and not is_seen():
                _take_back(ledger, reservation, error)
            if reservation is None or not leaving:
                raise
            if not (isinstance(error, OSError | StoreError) and target.holds(digest)):
                error.add_note(_whereabouts(reservation, target) if sealed else _nowhere(reservation))
                raise

        # 4. The bundle is in its place.
        try:
            ledger.commit(reservation, digest, recorded)
        except BaseException as error:
            error.add_note(
                f"{_name(reservation)} is published, at {target.path}, and on the books as spent, though not as "
                "published: nothing is left to do"
            )
            raise
    return release, (digest, whole), reservation


def _make_bundle(
    policy: Policy,
    maker: Maker,
    key: Ed25519PrivateKey,
    folder: Path,
    progress: Callable[[int], None] | None,
    keystream: Keystream | None,
    reservation: Reservation,
    file: BinaryIO,
) -> tuple[Release, str, bytes]:
    """Draw the noise and write the signed bundle; return what its manifest says, its digest, and that of the file."""
    with contextlib.ExitStack() as unnamed, contextlib.ExitStack() as drawn:
        new_file = partial(_unnamed_file, unnamed, folder)
        contents = maker.make(Making(keystream or SecureKeystream(), new_file, drawn, progress))
        return _seal(policy, reservation, contents, key, file)


def _seal(
    policy: Policy, reservation: Reservation, contents: Contents, key: Ed25519PrivateKey, file: BinaryIO
) -> tuple[Release, str, bytes]:
    """Write the signed bundle of what was drawn."""
    release = _describe(policy, reservation, contents)
    whole = DigestWriter(file)
    digest = write_bundle(cast(BinaryIO, whole), release, contents.parts, key, contents.digests, close_parts=True)
    return release, digest, whole.digest()


def _describe(policy: Policy, reservation: Reservation, contents: Contents) -> Release:
    """Return what the manifest says."""
    return Release(
        dataset=policy.dataset.published(),
        lineage=reservation.lineage,
        kind=policy.privacy.release,
        n_rows=contents.n_rows,
        columns=contents.columns,
        sources=policy.sources,
        second_moments=contents.second_moments,
        guarantee=contents.guarantee,
        sigma_derived_from_data=contents.guarantee is None,
        conditional_mu=contents.conditional_mu,
        cumulative=reservation.cumulative,
        software=software(),
    )


def _take_back(ledger: Ledger, reservation: Reservation, error: BaseException) -> None:
    """Cancel a release that ends before its file could get a name, unless the error may reveal noisy numbers."""
    if may_reveal_noise(error):
        error.add_note(f"{_nowhere(reservation)}, as the error may tell something of what was drawn")
        return
    try:
        ledger.cancel(reservation)
    except DpGraphError as failure:
        error.add_note(f"{_nowhere(reservation)}, as it could not be taken back: {failure}")
        return
    number = reservation.lineage.number
    error.add_note(f"nothing was published, and nothing is booked; the release number {number} will not be used again")


@contextlib.contextmanager
def in_our_words(target: Target) -> Iterator[None]:
    """Turn errors about files into errors of ours, with what has been noted on them."""
    try:
        yield
    except OSError as error:
        ours = taken(target.path)
        if not isinstance(error, FileExistsError):
            ours = DpGraphError(f"the bundle cannot be written to {target.folder}: {error.strerror}")
        for note in getattr(error, "__notes__", []):
            ours.add_note(note)
        raise ours from error


def _whereabouts(reservation: Reservation, target: Target) -> str:
    return f"{_name(reservation)} is signed and may be at {target.path}: it stays on the books as spent"


def _nowhere(reservation: Reservation) -> str:
    return f"{_name(reservation)} is not published, no file of it is anywhere, and it stays on the books as spent"


def _name(reservation: Reservation) -> str:
    return f"release {reservation.lineage.number} of {reservation.dataset!r}"


def _unnamed_file(stack: contextlib.ExitStack, folder: Path) -> BinaryIO:
    return cast(BinaryIO, stack.enter_context(tempfile.TemporaryFile(dir=folder)))
