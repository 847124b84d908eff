"""One release, from the raw table to a signed file: in constant memory, all or nothing.

The order is: decide what the release will cost, reserve that, draw the noise into unnamed temporary files, seal the
archive into another, give it its name, mark the cost as spent. What is drawn is the business of `rows_release` or
`covariance_release`. The final name appears in one atomic step and never replaces a file, so there is a whole bundle
under it or nothing; unnamed files vanish with the process, however it ends.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO, cast

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dp_bundle.bundle import write_bundle
from dp_bundle.errors import DpGraphError, ParameterError
from dp_bundle.files import whole_file
from dp_bundle.manifest import Release
from dp_bundle.parts import batch_rows
from dp_publish.columns import choose_columns
from dp_publish.contents import Maker, Read
from dp_publish.covariance_release import CovarianceMaker
from dp_publish.entities import EntityCap
from dp_publish.keystream import SecureKeystream
from dp_publish.ledger import Ledger
from dp_publish.policy import EntityUnit, Policy, Privacy
from dp_publish.rows import RowReport
from dp_publish.rows_release import RowsMaker
from dp_publish.table import Source, Table, open_table

__all__ = ["Receipt", "publish"]


@dataclass(frozen=True)
class Receipt:
    """What `publish` did.

    `report`, and it alone, tells of private values: keep it. `remark` says what was chosen for her, and why.
    """

    path: Path
    release: Release
    manifest_sha256: str
    left_out: tuple[str, ...]
    report: RowReport
    remark: str | None = None


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
    read, report = _reader(table, privacy, len(kinds))
    maker: Maker
    if privacy.release == "covariance":
        maker = CovarianceMaker(policy, kinds, partition, read, report)
    else:
        maker = RowsMaker(policy, kinds, table, partition, read, report)
    reservation = ledger.reserve(policy.dataset.name, maker.cost, partition=partition, budget_mu=privacy.budget_mu)
    try:
        with whole_file(out) as file, contextlib.ExitStack() as unnamed:
            contents = maker.make(SecureKeystream(), partial(_unnamed_file, unnamed, out.parent), progress)
            release = Release(
                dataset=policy.dataset,
                lineage=reservation.lineage,
                kind=privacy.release,
                n_rows=contents.n_rows,
                columns=contents.columns,
                second_moments=contents.second_moments,
                guarantee=contents.guarantee,
                sigma_derived_from_data=contents.guarantee is None,
                conditional_mu=contents.conditional_mu,
                cumulative=reservation.cumulative,
                software=f"dpgraph {importlib.metadata.version('dpgraph')}",
            )
            digest = write_bundle(file, release, contents.parts, key)
    except BaseException as error:
        if not maker.told and (isinstance(error, FileExistsError) or not out.exists()):
            ledger.cancel(reservation)  # no file of ours has a name, so nothing noisy has left this process
        if isinstance(error, FileExistsError):
            raise _taken(out) from error
        if isinstance(error, OSError):
            raise DpGraphError(f"the bundle cannot be written to {out.parent}: {error.strerror}") from error
        raise
    ledger.commit(reservation, digest, out)
    return Receipt(out, release, digest, left_out, report, maker.remark)


def _reader(table: Table, privacy: Privacy, n_columns: int) -> tuple[Read, RowReport]:
    """Return what reads the rows that may be published, and a fresh report."""
    rows = batch_rows(n_columns)
    if not isinstance(privacy.unit, EntityUnit):
        return lambda kinds: table.read(kinds, rows), RowReport()
    cap = EntityCap(table, privacy.unit.entity, privacy.unit.max_rows, rows)
    return cap.read, RowReport(n_over_cap=cap.n_left_out)


def _unnamed_file(stack: contextlib.ExitStack, folder: Path) -> BinaryIO:
    return cast(BinaryIO, stack.enter_context(tempfile.TemporaryFile(dir=folder)))


def _require_free(out: Path) -> None:
    if out.exists():
        raise _taken(out)
    if not out.parent.is_dir():
        raise ParameterError("out", "in a folder that exists", str(out))


def _taken(out: Path) -> DpGraphError:
    return DpGraphError(f"there is a file at {out} already, and releases are never replaced: give another --out")
