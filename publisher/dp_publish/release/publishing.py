"""One release, from the raw table to a signed file: in constant memory, all or nothing.

The order is: decide what the release will cost, reserve that, draw the noise into unnamed temporary files, or into
those of a job, seal the archive into another, note that it may leave, give it its name, note that it has; then sign the
file for minisign, which is never a reason for a release to fail. What is drawn is the business of
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
from pathlib import Path
from typing import BinaryIO, cast

import pyarrow as pa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dp_bundle.base.errors import BudgetExceededError, DpGraphError, PolicyError, StoreError
from dp_bundle.base.launch import interrupts_held
from dp_bundle.base.quoting import quote_path
from dp_bundle.bundle.companions import minisig_path, minisign_release, write_minisig
from dp_bundle.bundle.opened import tar_beside
from dp_bundle.bundle.writing import write_bundle
from dp_bundle.describe.sentences import REPLACEMENT
from dp_bundle.files.new_files import settle
from dp_bundle.files.places import RemotePath
from dp_bundle.manifest.release import Release
from dp_bundle.trust.signing import DigestWriter
from dp_publish.accounting.conversions import Cost
from dp_publish.data.kinds import published
from dp_publish.data.missing import RowReport
from dp_publish.data.table import Source
from dp_publish.ledger.ledger import Ledger, Reservation
from dp_publish.policy.columns import Prepared, prepare
from dp_publish.policy.model import Policy
from dp_publish.release.job import Job, Sealed, open_job, require_new_job
from dp_publish.release.parts import Making, may_reveal_noise
from dp_publish.release.preparing import Maker, Order, cluster_job, make_maker, plan_job, software
from dp_publish.release.targets import Target, choose_target, taken
from dp_publish.release.workers.cluster import Cluster, require_apart
from dp_publish.sampling.keystream import Keystream, SecureKeystream

_PASSING = (OSError, StoreError, MemoryError, KeyboardInterrupt)  # after which it makes sense to go on with a job


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
    data : path, pyarrow.Table or data frame
        The raw rows; a frame of pandas, polars, DuckDB or another that narwhals knows.
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
    table, policy, kinds = prepared.table, prepared.policy, prepared.kinds
    if policy.privacy.neighbours.n_rows_public:
        table.count_rows()  # refuses a table without rows before anything is booked
    columns = kinds, prepared.left_out, prepared.withheld
    order = Order(policy, *columns, partition, target, key, ledger, progress, keystream)
    if cluster is not None and policy.sought is not None:
        raise PolicyError(
            "workers cannot find out what columns hold: write a policy that says so with `dp-publish policy DATA`, or "
            "leave --engine out"
        )

    if cluster is not None:
        require_apart(cluster, job, out)
    plan = tasks = running = None
    if job is not None:
        require_new_job(Path(job))
        plan = plan_job(order, data, out, cluster)
    with contextlib.ExitStack() as ending:
        if cluster is not None:
            tasks = cluster_job(order, cluster, data, table, None if plan is None else plan.staged)
            if plan is None:
                ending.callback(tasks.remove)
            tasks.prepare()
        maker = make_maker(order, table, tasks)
        if job is not None and plan is not None:
            running = ending.enter_context(open_job(Path(job), plan))
            if tasks is not None:
                running.before_removal = tasks.remove
        return carry_out(order, maker, running)


def carry_out(
    order: Order, maker: Maker | None, job: Job | None = None, reservation: Reservation | None = None
) -> Receipt:
    """Do all that is left of a release: book, draw, seal, name, commit.

    With a job, each step can be the last of a process, and first looks whether it was done: the ledger knows the
    release by the job's mark, the job has records of what was drawn, and the bundle's place is asked what lies there.
    Sealing again gives the same bytes, as the records and the key decide on all of them.

    Parameters
    ----------
    order : Order
        What was decided.
    maker : Maker or None
        Draws what has no record; None if all has.
    job : Job, optional
        The records, which are deleted in the end.
    reservation : Reservation, optional
        What is booked already.
    """
    ledger, target = order.ledger, order.target
    recorded = os.fsencode(target.path).decode("utf-8", "backslashreplace")  # a log is text, whatever bytes a name has
    step, sealed = "booking", None
    with in_our_words(target), contextlib.ExitStack() as ending:
        try:
            # 1. It is paid for, once, before any noise is drawn.
            with interrupts_held():
                reservation = reservation or _book(order, maker, job)
                step = "drawing"
                if job is not None and job.read("reserved") is None:
                    job.record("reserved", {"number": reservation.lineage.number})
            entry = None if job is None else ledger.entry(reservation)
            state, booked = ("reserved", None) if entry is None else (entry.state, entry.manifest_sha256)
            sealed = None if job is None else job.sealed()
            before = None if sealed is None else sealed.manifest_sha256

            # 2. The bundle is made under no name, unless it is in its place; until it is whole and on the disk, the
            # release can be taken back.
            if state != "published" and not (booked is not None and booked == before and target.finish(booked)):
                try:
                    with target.staging() as file:
                        made = _make(order, maker, job, reservation, file)
                        settle(file)
                        if state != "sealed":
                            target.require_free()  # the last moment at which it costs nothing to find out
                        _require_same(made, {booked, before})

                        # 3. From the seal on it counts as having left. It is put in its place where this block ends.
                        if job is None:
                            done = f"{_name(reservation)} is published, at {target.path}, and on the books as spent"
                            ending.enter_context(interrupts_held(done))
                        elif sealed is None:
                            job.record_sealed(made)
                        step, sealed = "sealing", made
                        if state != "sealed":
                            ledger.seal(reservation, made.manifest_sha256, recorded)
                        step = "placing"
                except (OSError, StoreError):
                    if sealed is None or not target.holds(sealed.manifest_sha256):
                        raise

            # 4. The bundle is in its place.
            step = "committing"
            if state != "published" and sealed is not None:
                ledger.commit(reservation, sealed.manifest_sha256, recorded)
        except BaseException as error:
            _take_back_or_explain(order, maker, job, reservation, step, error)
            raise

        if job is not None:
            job.remove()
        if sealed is None:  # the process before ended while it deleted the job
            raise DpGraphError(f"release {reservation.lineage.number} is published already, at {target.path}")
        digests, spent = (sealed.manifest_sha256, sealed.blake2b), (reservation.budgets, reservation.spent)
        release, report, remark = sealed.release, sealed.report, sealed.remark
        left_out = order.left_out if sealed.left_out is None else sealed.left_out
        return Receipt(target.path, release, *digests, left_out, report, remark, order.withheld, *spent)


def _book(order: Order, maker: Maker | None, job: Job | None) -> Reservation:
    """Put the release on the books; that of a job once only."""
    assert maker is not None  # noqa: S101  nothing is drawn before it is booked
    privacy = order.policy.privacy
    try:
        return order.ledger.reserve(
            order.policy.dataset.name,
            maker.cost,
            partition=order.partition,
            budget_mu=privacy.budget_mu,
            columns=order.kinds,
            job=None if job is None else job.plan.mark,
        )
    except BudgetExceededError as error:
        if not privacy.neighbours.n_rows_public:
            error.add_note(REPLACEMENT)
        raise


def _make(order: Order, maker: Maker | None, job: Job | None, reservation: Reservation, file: BinaryIO) -> Sealed:
    """Draw the noise, unless that is recorded, and write the signed bundle."""
    with contextlib.ExitStack() as unnamed, contextlib.ExitStack() as drawn:
        found = None if job is None else job.contents()
        if job is not None and found is not None:
            drawn.enter_context(job.reading("contents"))
        elif maker is None:
            raise DpGraphError(f"the job {job and job.folder} lacks a record: publish anew")
        else:

            def unnamed_file() -> BinaryIO:
                return cast(BinaryIO, unnamed.enter_context(tempfile.TemporaryFile(dir=order.target.folder)))

            new_file, keystream = unnamed_file if job is None else job.new_file, order.keystream or SecureKeystream()
            found = maker.make(Making(keystream, new_file, drawn, order.progress, job))
            if job is not None:
                job.record_contents(*found)

        contents, parts = found
        release = Release(
            dataset=order.policy.dataset.published(),
            lineage=reservation.lineage,
            kind="covariance" if order.policy.privacy.is_moments else "rows",
            discovery=contents.discovery,
            n_rows=contents.n_rows,
            columns=contents.columns,
            sources=tuple(map(published, order.policy.sources)) if contents.sources is None else contents.sources,
            second_moments=contents.second_moments,
            guarantee=contents.guarantee,
            cumulative=reservation.cumulative,
            software=software(),
        )
        whole, files, digests = DigestWriter(file), [part.file for part in parts], [part.sha256 for part in parts]
        manifest_sha256 = write_bundle(cast(BinaryIO, whole), release, files, order.key, digests, close_parts=True)
        return Sealed(release, manifest_sha256, whole.digest(), contents.report, contents.remark, contents.left_out)


def _require_same(made: Sealed, known: set[str | None]) -> None:
    """Refuse a bundle that is not the one that was sealed before."""
    if known - {None, made.manifest_sha256}:
        raise DpGraphError(
            "the bundle would not have the bytes that were sealed: resume with the version of dpgraph and of its "
            "libraries that began the job, and with its records as they were"
        )


def _take_back_or_explain(
    order: Order, maker: Maker | None, job: Job | None, reservation: Reservation | None, step: str, error: BaseException
) -> None:
    """Cancel a release of which nothing can have been seen, and say of any other what became of it, or how to go on.

    With a job, it is taken back only if nothing was recorded of what was drawn: afterwards, a part could have been
    looked at.
    """
    number = 0 if reservation is None else reservation.lineage.number
    onward = "" if job is None else f"`{job.command}` goes on with it, at no further cost"
    if job is not None and (isinstance(error, _PASSING) or job.has_drawn or (number and may_reveal_noise(error))):
        error.add_note(f"release {number} stays on the books as spent: {onward}" if number else onward)
        return
    if reservation is None:
        if job is not None:
            job.remove()
        return

    name, path = _name(reservation), order.target.path
    nowhere = f"{name} is not published, no file of it is anywhere, and it stays on the books as spent"
    published = f"{name} is published, at {path}, and on the books as spent"
    if step != "drawing":
        said = {
            "sealing": nowhere,
            "placing": f"{name} is signed and may be at {path}: it stays on the books as spent",
            "committing": f"{published}, though not as published: nothing is left to do",
        }
        error.add_note(said[step])
    elif maker is not None and maker.work.has_staged_noise:
        return  # `stays_booked` has told of it
    elif may_reveal_noise(error):
        error.add_note(f"{nowhere}, as the error may tell something of what was drawn")
    else:
        try:
            order.ledger.cancel(reservation)
        except DpGraphError as failure:
            why = f"as it could not be taken back: {failure}"
            if job is not None:
                nowhere = f"release {number} is not published, and stays on the books as spent"
                why = f"as it could not be taken back ({failure}): {onward}"
            error.add_note(f"{nowhere}, {why}")
            return
        error.add_note(
            f"nothing was published, and nothing is booked; the release number {number} will not be used again"
        )
        if job is not None:
            job.remove()


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


def _name(reservation: Reservation) -> str:
    return f"release {reservation.lineage.number} of {reservation.dataset!r}"


def require_no_minisig(out: str | os.PathLike[str]) -> None:
    """Refuse the path of a bundle beside which a signature lies already, as it is that of another file.

    Raises
    ------
    DpGraphError
        There is one, and no bundle. (If there is a bundle, that is what `publish` says.)
    """
    target = choose_target(out)
    if isinstance(target.tar, RemotePath):  # nothing is replaced there, whatever it is
        return
    minisig = minisig_path(target.tar)
    if os.path.lexists(minisig) and not os.path.lexists(target.path):
        raise DpGraphError(
            f"there is a signature of another file at {quote_path(minisig)}: move it away, or give another --out"
        )


def sign_beside(receipt: Receipt, key: Ed25519PrivateKey) -> tuple[Path | RemotePath | None, str]:
    """Write the signature of a release that was published, beside it.

    Parameters
    ----------
    receipt : Receipt
        The release.
    key : Ed25519PrivateKey
        The key that signed it.

    Returns
    -------
    Path, RemotePath or None
        The signature; None if it could not be written.
    str
        Nothing, or why not, and how to make it.
    """
    is_tar = isinstance(receipt.path, Path) and not receipt.path.is_dir()
    tar = receipt.path if is_tar else tar_beside(receipt.path)
    target = minisig_path(tar)
    try:
        write_minisig(target, minisign_release(receipt.blake2b, receipt.release, receipt.manifest_sha256, key))
    except DpGraphError as error:
        later = f"dp-bundle minisign {quote_path(receipt.path)} does that later"
        if isinstance(receipt.path, RemotePath):
            later = f"dp-bundle pack {quote_path(receipt.path)} makes the tar, for which dp-bundle minisign makes it"
        return None, f"the release is complete, but {error}; {later}"
    return target, ""


@contextlib.contextmanager
def publish_aside(table: pa.Table, policy: Policy) -> Iterator[tuple[Path, Cost]]:
    """Publish a made-up table like a real one, in a temporary folder.

    Parameters
    ----------
    table : pyarrow.Table
        Made-up rows, and no others: the user's own ledger does not see the release.
    policy : Policy
        As for `publish`.

    Yields
    ------
    path : Path
        The bundle, which goes with the block.
    cost : Cost
        What was booked.
    """
    with tempfile.TemporaryDirectory(prefix="dpgraph-audit-") as name:
        folder = Path(name)
        ledger, key = Ledger(folder / "ledger.sqlite"), Ed25519PrivateKey.generate()
        path = folder / "made-up.tar"
        publish(table, policy, out=path, key=key, ledger=ledger)
        yield path, ledger.entries()[0].cost
