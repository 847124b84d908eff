"""One release, from the raw table to a signed file: in constant memory, all or nothing.

The order is: decide what the release will cost, reserve that, draw the noise into unnamed temporary files, seal the
archive into another. Then note that it may leave, give it its name, and note that it has. At last sign the file for
minisign, which is never a reason for a release to fail. What is drawn is the business of `release.rows` or
`release.covariance`, and where the bundle goes that of `release.targets`. What is kept of a release that ends early is
that of `release.begun`. The final name, or elsewhere the manifest, appears in one atomic step and replaces nothing, so
there is a whole bundle or none. Unnamed files vanish with the process, however it ends. A cost is taken back only where
the process never came to giving the file its name. Afterwards a missing file proves nothing, as others may have moved
it. Neither does an error, as a file may be in place though the answer was lost.
"""

import contextlib
import datetime
import logging
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO, cast

import pyarrow as pa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dp_bundle.base.errors import BudgetExceededError, DpGraphError, PolicyError, StoreError
from dp_bundle.base.launch import interrupts_held
from dp_bundle.base.quoting import quote_path
from dp_bundle.bundle.opened import tar_beside
from dp_bundle.bundle.packing import minisig_path, minisign_release, write_minisig
from dp_bundle.bundle.writing import write_bundle
from dp_bundle.describe.sentences import REPLACEMENT
from dp_bundle.files.new_files import settle
from dp_bundle.files.places import RemotePath
from dp_bundle.manifest.release import Release
from dp_bundle.trust.signing import DigestWriter
from dp_publish.accounting.conversions import Cost
from dp_publish.data.kinds import published
from dp_publish.data.table import Source
from dp_publish.ledger.ledger import Ledger, Reservation
from dp_publish.policy.columns import Prepared, prepare
from dp_publish.policy.model import Policy
from dp_publish.release.begun import Begun, Sealed, begin, digest_of_release, records
from dp_publish.release.parts import Making, may_reveal_noise
from dp_publish.release.preparing import Maker, Order, cluster_job, decided, make_maker, software
from dp_publish.release.targets import Target, choose_target, place, taken
from dp_publish.release.workers.worker import Cluster, require_apart
from dp_publish.rows.missing import RowReport
from dp_publish.sampling.keystream import Keystream, SecureKeystream

_ONWARD = "the same command on the same table goes on with it, at no further cost"
_ELSEWHERE = (
    "%s was begun by an earlier command, which had put it at %s: it is finished there, and nothing is at %s; the same "
    "command again makes another release"
)
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Receipt:
    """A release that was published, and what its publisher should know.

    `blake2b` is the BLAKE2b-512 digest of the whole file, which minisign signs. `report`, and it alone, depends on
    private values: keep it. `remark` says what was chosen for her, and why. `left_out` has the
    columns that are not published, and why. `budgets` and `spent`, the mu of all releases of the
    dataset so far, hold by unit.

    The repr, which a notebook saves with its cell, shows what everybody may see; all else is read by its name. A pickle
    of a receipt holds all of it.
    """

    path: Path | RemotePath
    release: Release
    manifest_sha256: str
    blake2b: bytes
    left_out: Mapping[str, str] = field(repr=False)
    report: RowReport = field(repr=False)
    remark: str | None = field(default=None, repr=False)
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
    prepared: Prepared | None = None,
    begun_at: datetime.datetime | None = None,
    then: Callable[[Receipt], None] = lambda _: None,
) -> Receipt:
    """Add calibrated noise to a table and write it as one signed bundle, or go on with a release that ended early.

    Parameters
    ----------
    data : path, pyarrow.Table or data frame
        The raw rows; a frame of pandas, polars, DuckDB or another that narwhals knows.
    policy : Policy
        Names, bounds, unit of privacy, strength.
    out : str, Path or RemotePath
        Where the bundle goes: a new tar, or a new folder, as text that ends in a slash. Or a URI that begins with
        `s3://`, `gs://` or `az://`, below which nothing is yet. Nothing is ever replaced.
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
        part on, the release stays in the ledger whatever happens.
    prepared : Prepared, optional
        The same table and policy, if they were checked in advance (`check_in_advance`), which need not be done twice.
    begun_at : datetime, optional
        When the release was begun, by UTC, which it states: before the table was read, as the time that this takes
        depends on its values. By default when this is called.
    then : callable, optional
        Writes what goes beside the bundle. If the process ends before it is through, the same command calls it.

    Returns
    -------
    Receipt
        The release and what the publisher should know about it.

    Raises
    ------
    PolicyError, DataError, PrivacyError
        The policy, the table or the guarantee does not allow a release. Nothing is written. Nothing is spent either,
        unless bounds were found with which the strength cannot be met.
    BudgetExceededError
        The release would pass a budget of the dataset, or have none where it needs one; nothing is written or spent.
    """
    begun_at = begun_at or datetime.datetime.now(datetime.UTC)
    target, ledger = choose_target(out), ledger if ledger is not None else Ledger()
    with in_our_words(target):  # a name that cannot be had costs least before the table is read
        if not any(records(ledger)):
            target.prepare()

    prepared = prepared or prepare(data, policy, ledger.entities(policy.dataset.name))
    table, policy, kinds = prepared.table, prepared.policy, prepared.kinds
    if policy.privacy.neighbours.n_rows_public:
        table.count_rows()  # refuses a table without rows before anything is booked
    columns = kinds, prepared.left_out
    order = Order(policy, *columns, partition, target, key, ledger, begun_at, then, progress, keystream)
    if cluster is not None and policy.sought is not None:
        raise PolicyError(
            "workers cannot find out what columns hold: write a policy that says so with `dp-publish policy DATA`, or "
            "leave --engine out"
        )

    if cluster is not None:
        require_apart(cluster, out)
    digest = digest_of_release(table, kinds, decided(order))
    with contextlib.ExitStack() as ending, begin(ledger, policy.dataset.name, digest) as begun:
        sealed = begun.sealed()
        if sealed is not None:
            return _go_on(order, begun, sealed)
        tasks = None
        try:
            with in_our_words(target):
                target.prepare()
            if cluster is not None:
                tasks = cluster_job(order, cluster, data, table)
                ending.callback(tasks.remove)
                tasks.prepare()
            maker = make_maker(order, table, tasks)
        except BaseException:
            if not begun.why_spent:
                begun.remove()
            raise
        return _carry_out(order, maker, begun)


def _carry_out(order: Order, maker: Maker, begun: Begun) -> Receipt:
    """Do all that is left of a release that was not sealed: book, draw, seal, name, commit."""
    ledger, target = order.ledger, order.target
    found = ledger.find(order.policy.dataset.name, begun.mark) if begun.has_told else None
    step, sealed, reservation = "booking", None, found and found[0]
    with in_our_words(target), contextlib.ExitStack() as ending:
        try:
            # 1. It is paid for, once, before any noise is drawn.
            with interrupts_held():
                reservation = reservation or _book(order, maker, begun)
                step = "drawing"

            # 2. The bundle is made under no name; until it is whole and on the disk, the release can be taken back.
            try:
                with target.staging() as file:
                    if os.fstat(file.fileno()).st_nlink:  # it has a name, by which it would outlive a killed process
                        begun.staged()
                    made = _make(order, maker, begun, reservation, file)
                    settle(file)
                    target.require_free()  # the last moment at which it costs nothing to find out

                    # 3. From the seal on it counts as having left. It is put in its place where this block ends.
                    done = f"{_name(reservation)} is published, at {target.path}, and in the ledger as spent"
                    ending.enter_context(interrupts_held(done))
                    step, sealed = "sealing", begun.seal(made, file, target)
                    ledger.seal(reservation, made.manifest_sha256, _recorded(target))
                    step = "placing"
            except (OSError, StoreError):
                if sealed is None or not target.holds(sealed.manifest_sha256):
                    raise

            # 4. The bundle is in its place.
            step = "committing"
            ledger.commit(reservation, sealed.manifest_sha256, _recorded(target))
        except BaseException as error:
            _take_back_or_explain(order, maker, begun, reservation, step, error)
            raise
        return _receipt(order, reservation, sealed, begun)


def _go_on(order: Order, begun: Begun, sealed: Sealed) -> Receipt:
    """Put a bundle in its place that was sealed by a process that ended before it had.

    Raises
    ------
    DpGraphError
        Its file is gone.
    """
    ledger = order.ledger
    found = ledger.find(order.policy.dataset.name, begun.mark)
    if found is None:
        raise DpGraphError(f"the ledger {ledger.place} was changed meanwhile: try again")
    reservation, entry = found
    with in_our_words(order.target):
        if entry.state == "reserved":
            ledger.seal(reservation, sealed.manifest_sha256, _recorded(order.target))
        target = place(sealed.manifest_sha256, choose_target(sealed.out), sealed.hidden, order.target)
        if target is None:
            begun.remove()
            raise DpGraphError(
                f"{_name(reservation)} was signed, and is gone: it may have been seen, and stays in the ledger as "
                "spent; publish anew"
            )
        if entry.state != "published":
            ledger.commit(reservation, sealed.manifest_sha256, _recorded(target))
    if target.spelled != order.target.spelled:
        _log.warning(_ELSEWHERE, _name(reservation), target.path, order.target.path)
    return _receipt(replace(order, target=target), reservation, sealed, begun)


def _receipt(order: Order, reservation: Reservation, sealed: Sealed, begun: Begun) -> Receipt:
    """Return what its publisher is told of a release in its place, after all that goes beside it is there."""
    digests, spent = (sealed.manifest_sha256, sealed.blake2b), (reservation.budgets, reservation.spent)
    release, report, remark = sealed.release, sealed.report, sealed.remark
    left_out = order.left_out if sealed.left_out is None else sealed.left_out
    receipt = Receipt(order.target.path, release, *digests, left_out, report, remark, *spent)
    order.then(receipt)
    begun.remove()
    return receipt


def _recorded(target: Target) -> str:
    """Return the place of a bundle for the log, from wherever it is read; it is text, whatever bytes a name has."""
    return os.fsencode(target.spelled).decode("utf-8", "backslashreplace")


def _book(order: Order, maker: Maker, begun: Begun) -> Reservation:
    """Put the release in the ledger."""
    privacy = order.policy.privacy
    try:
        return order.ledger.reserve(
            order.policy.dataset.name,
            maker.cost,
            partition=order.partition,
            budget_mu=privacy.budget_mu,
            columns=order.kinds,
            mark=begun.mark,
            begun=order.begun_at,
        )
    except BudgetExceededError as error:
        if not privacy.neighbours.n_rows_public:
            error.add_note(REPLACEMENT)
        raise


def _make(order: Order, maker: Maker, begun: Begun, reservation: Reservation, file: BinaryIO) -> Sealed:
    """Draw the noise, and write the signed bundle."""
    with contextlib.ExitStack() as unnamed, contextlib.ExitStack() as drawn:

        def unnamed_file() -> BinaryIO:
            return cast(BinaryIO, unnamed.enter_context(tempfile.TemporaryFile(dir=order.target.folder)))

        making = Making(order.keystream or SecureKeystream(), unnamed_file, drawn, begun, order.progress)
        contents, parts = maker.make(making)
        release = Release(
            dataset=order.policy.dataset.published().model_copy(update=contents.ends),
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


def _take_back_or_explain(
    order: Order, maker: Maker, begun: Begun, reservation: Reservation | None, step: str, error: BaseException
) -> None:
    """Cancel a release of which nothing can have been seen, and say of any other what became of it, or how to go on."""
    if reservation is None:
        begun.remove()
        return

    name, path = _name(reservation), order.target.path
    nowhere = f"{name} is not published, no file of it is anywhere, and it stays in the ledger as spent"
    onward = f", and {_ONWARD}" if begun.sealed() is not None else ""
    if step != "drawing":
        said = {
            "sealing": f"{name} is signed, is not published, and stays in the ledger as spent{onward}",
            "placing": f"{name} is signed and may be at {path}: it stays in the ledger as spent{onward}",
            "committing": f"{name} is published, at {path}, and in the ledger as spent, though not as published: "
            "nothing is left to do",
        }
        error.add_note(said[step])
    elif maker.work.has_staged_noise:
        begun.remove()  # `stays_booked` has told of it
    elif may_reveal_noise(error):
        begun.remove()  # or the same command would draw anew what the error may tell
        error.add_note(f"{nowhere}, as the error may reveal something of what was drawn")
    elif begun.has_told:
        error.add_note(f"{name} is not published, and stays in the ledger as spent: {_ONWARD}")
    else:
        try:
            order.ledger.cancel(reservation)
        except DpGraphError as failure:
            error.add_note(f"{nowhere}, as it could not be taken back: {failure}")
            return
        begun.remove()
        error.add_note(
            f"nothing was published, and nothing is booked; the release number {reservation.lineage.number} will not "
            "be used again"
        )


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
