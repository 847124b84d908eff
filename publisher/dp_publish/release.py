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
from dp_publish.calibration import account, choose_columns, set_noise
from dp_publish.keystream import SecureKeystream
from dp_publish.ledger import Ledger
from dp_publish.policy import Policy
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
    progress : callable, optional
        Called with the number of rows done after each batch.

    Returns
    -------
    Receipt
        The release and what the publisher should know about it.

    Raises
    ------
    PolicyError, DataError, PrivacyError
        The policy, the table or the guarantee does not allow a release; nothing is written or spent.
    """
    out, ledger = Path(out), ledger if ledger is not None else Ledger()
    _require_free(out)
    table = open_table(data)
    kinds, left_out = choose_columns(table, policy)
    columns = set_noise(table, policy, kinds)
    cost, guarantee, conditional_mu = account(policy.privacy, columns)
    reservation = ledger.reserve(policy.dataset.name, cost)
    try:
        with whole_file(out) as file, contextlib.ExitStack() as unnamed:
            new_file = partial(_unnamed_file, unnamed, out.parent)
            parts, report = _write_noisy_rows(table, columns, new_file, progress)
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
        if isinstance(error, FileExistsError) or not out.exists():
            ledger.cancel(reservation)  # no file of ours has a name, so nothing noisy has left this process
        if isinstance(error, FileExistsError):
            raise _taken(out) from error
        if isinstance(error, OSError):
            raise DpGraphError(f"the bundle cannot be written to {out.parent}: {error.strerror}") from error
        raise
    ledger.commit(reservation, digest, out)
    return Receipt(out, release, digest, left_out, report)


def _unnamed_file(stack: contextlib.ExitStack, folder: Path) -> BinaryIO:
    return cast(BinaryIO, stack.enter_context(tempfile.TemporaryFile(dir=folder)))


def _write_noisy_rows(
    table: Table, columns: tuple[Column, ...], new_file: Callable[[], BinaryIO], progress: Callable[[int], None] | None
) -> tuple[list[BinaryIO], RowReport]:
    kinds: dict[str, str] = {column.name: column.kind for column in columns}
    report, keystream = RowReport(), SecureKeystream()
    raw = table.read(kinds, batch_rows(len(columns)))
    with PartWriter(columns, new_file) as writer:
        for noisy in _one_ahead(add_noise(batch, columns, keystream, report) for batch in raw):
            writer.write(noisy)
            if progress is not None:
                progress(writer.n_rows)
    if report.n_rows == 0:
        raise DataError("the table has no rows to publish")
    return writer.parts, report


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
