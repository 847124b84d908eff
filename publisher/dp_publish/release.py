"""One release, from the raw table to a signed file: in constant memory, all or nothing.

The order is: decide the columns and their noise, reserve the cost, draw the noise into unnamed temporary files, seal
the archive into another, give it its name, mark the cost as spent. The final name appears in one atomic step and never
replaces a file, so there is a whole bundle under it or nothing; unnamed files vanish with the process, however it
ends.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO, cast

import pyarrow as pa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dp_bundle.bundle import write_bundle
from dp_bundle.errors import DataError, DpGraphError, ParameterError
from dp_bundle.files import whole_file
from dp_bundle.manifest import Column, Release
from dp_bundle.parts import PartWriter, batch_rows
from dp_publish.calibration import Shares, account, cost_of, set_noise, share_mu
from dp_publish.columns import choose_columns, standard_deviations
from dp_publish.entities import EntityCap
from dp_publish.keystream import Keystream, SecureKeystream
from dp_publish.ledger import Ledger
from dp_publish.policy import EntityUnit, Policy, Privacy
from dp_publish.private_bounds import Bounds, count_magnitudes, find_bounds
from dp_publish.rows import RowReport, add_noise
from dp_publish.table import Source, Table, open_table

__all__ = ["Receipt", "publish"]


@dataclass(frozen=True)
class Receipt:
    """What `publish` did.

    `report`, and it alone, tells of private values: keep it.
    """

    path: Path
    release: Release
    manifest_sha256: str
    left_out: tuple[str, ...]
    report: RowReport


def publish(
    data: Source,
    policy: Policy,
    *,
    out: str | Path,
    key: Ed25519PrivateKey,
    ledger: Ledger | None = None,
    partition: str | None = None,
    progress: Callable[[int], None] | None = None,
) -> Receipt:
    """Add calibrated noise to a table and write it as one signed bundle.

    Parameters
    ----------
    data : path, pyarrow.Table or pandas.DataFrame
        The raw rows.
    policy : Policy
        Names, bounds, unit of privacy, strength.
    out : str or Path
        Where the bundle goes; a file that is there already is never replaced.
    key : Ed25519PrivateKey
        The publisher's signing key.
    ledger : Ledger, optional
        Where the cost is kept; the user's own by default.
    partition : str, optional
        The part of the dataset's rows that this is, disjoint from every other partition's.
    progress : callable, optional
        Called with the number of rows done after each batch.

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
        The release would pass the dataset's budget; nothing is written or spent.
    """
    out, ledger = Path(out), ledger if ledger is not None else Ledger()
    _require_free(out)
    table, privacy = open_table(data), policy.privacy
    kinds, left_out = choose_columns(table, policy)
    shares = share_mu(policy, kinds)
    deviations = standard_deviations(table, kinds, policy) if privacy.snr_db is not None else None
    if not shares.searched:
        set_noise(policy, kinds, shares, deviations=deviations)  # refuses what does not go together before it costs
    read, report = _reader(table, privacy, len(kinds))
    reservation = ledger.reserve(
        policy.dataset.name, cost_of(policy, kinds, shares), partition=partition, budget_mu=privacy.budget_mu
    )
    told = False  # whether a refusal would tell of noisy numbers
    try:
        keystream = SecureKeystream()
        found = _search_bounds(read, kinds, shares, keystream)
        told = bool(found)
        columns = set_noise(policy, kinds, shares, found=found, deviations=deviations)
        told = False
        guarantee, conditional_mu = account(policy, columns, shares, partition)
        with whole_file(out) as file, contextlib.ExitStack() as unnamed:
            new_file = partial(_unnamed_file, unnamed, out.parent)
            batches = (add_noise(batch, columns, keystream, report) for batch in read(kinds))
            parts = _write_parts(batches, columns, new_file, progress)
            release = Release(
                dataset=policy.dataset,
                lineage=reservation.lineage,
                n_rows=report.n_rows,
                columns=columns,
                guarantee=guarantee,
                sigma_derived_from_data=guarantee is None,
                conditional_mu=conditional_mu,
                cumulative=reservation.cumulative,
                software=f"dpgraph {importlib.metadata.version('dpgraph')}",
            )
            digest = write_bundle(file, release, parts, key)
    except BaseException as error:
        if not told and (isinstance(error, FileExistsError) or not out.exists()):
            ledger.cancel(reservation)  # no file of ours has a name, so nothing noisy has left this process
        if isinstance(error, FileExistsError):
            raise _taken(out) from error
        if isinstance(error, OSError):
            raise DpGraphError(f"the bundle cannot be written to {out.parent}: {error.strerror}") from error
        raise
    ledger.commit(reservation, digest, out)
    return Receipt(out, release, digest, left_out, report)


Read = Callable[[dict[str, str]], Iterator[pa.RecordBatch]]


def _reader(table: Table, privacy: Privacy, n_columns: int) -> tuple[Read, RowReport]:
    """Return what reads the rows that may be published, and a fresh report."""
    rows = batch_rows(n_columns)
    if not isinstance(privacy.unit, EntityUnit):
        return lambda kinds: table.read(kinds, rows), RowReport()
    cap = EntityCap(table, privacy.unit.entity, privacy.unit.max_rows, rows)
    return cap.read, RowReport(n_over_cap=cap.n_left_out)


def _search_bounds(read: Read, kinds: dict[str, str], shares: Shares, keystream: Keystream) -> dict[str, Bounds]:
    """Find the bounds that the policy leaves out; what is learned on the way is what the search was charged for."""
    chosen = {name: kinds[name] for name in shares.searched}
    if not chosen:
        return {}
    counts = count_magnitudes(read(chosen), len(chosen))
    found = find_bounds(counts, chosen.values(), shares.histogram_sigma, keystream)
    return dict(zip(chosen, found, strict=True))


def _unnamed_file(stack: contextlib.ExitStack, folder: Path) -> BinaryIO:
    return cast(BinaryIO, stack.enter_context(tempfile.TemporaryFile(dir=folder)))


def _write_parts(
    batches: Iterator[pa.RecordBatch],
    columns: tuple[Column, ...],
    new_file: Callable[[], BinaryIO],
    progress: Callable[[int], None] | None,
) -> list[BinaryIO]:
    with PartWriter(columns, new_file) as writer:
        for noisy in _one_ahead(batches):
            writer.write(noisy)
            if progress is not None:
                progress(writer.n_rows)
    if writer.n_rows == 0:
        raise DataError("the table has no rows to publish")
    return writer.parts


def _one_ahead(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the batches while a thread makes the next one, so that noise and encoding take a core each."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        upcoming = pool.submit(next, batches, None)
        while (batch := upcoming.result()) is not None:
            upcoming = pool.submit(next, batches, None)
            yield batch


def _require_free(out: Path) -> None:
    if out.exists():
        raise _taken(out)
    if not out.parent.is_dir():
        raise ParameterError("out", "in a folder that exists", str(out))


def _taken(out: Path) -> DpGraphError:
    return DpGraphError(f"there is a file at {out} already, and releases are never replaced: give another --out")
