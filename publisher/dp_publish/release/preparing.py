"""Preparation of a release: what is decided, how its rows are read, and what draws it.

Of columns of which nothing is declared, what they are is found privately first. The whole strength is booked
beforehand. What was told of the columns is recorded before anything follows from it. Everything after that is a release
by the policy that was found, at what is left of the strength.
"""

from __future__ import annotations

import datetime
import hashlib
import importlib.metadata
import math
import shutil
import tempfile
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dp_bundle.base.errors import ParameterError, PolicyError
from dp_bundle.base.wording import A_POLICY
from dp_bundle.data.rows import batch_rows
from dp_bundle.files.places import RemotePath, located
from dp_bundle.manifest.columns import Column, software_with_code
from dp_bundle.manifest.guarantee import EpsilonDelta, Guarantee
from dp_bundle.trust.signing import public_key_of
from dp_publish.accounting.conversions import ROUND_UP, Cost, epsilon_for_delta, rho_for_mu
from dp_publish.covariance.two_rounds.steps import Outcome, Statistic, Step
from dp_publish.data.kinds import Kinds, published
from dp_publish.data.row_ranges import RawBatches
from dp_publish.data.table import Source, Table, reads_alone
from dp_publish.discovery.finding import Decided, Read, Told, decide, discover
from dp_publish.discovery.levels import EXCEPTED_DELTA
from dp_publish.ledger.ledger import Ledger
from dp_publish.policy.columns import choose_columns, resolve
from dp_publish.policy.model import Policy, Privacy
from dp_publish.release.begun import Contents, Part
from dp_publish.release.contribution_cap import EntityCap, drawn, thinned
from dp_publish.release.covariance import CovarianceMaker
from dp_publish.release.parts import LocalWork, Making
from dp_publish.release.targets import Target
from dp_publish.release.workers.worker import Cluster, whole_place
from dp_publish.rows.calibration import Shares, cost_of_rows, guarantee_of_rows, set_noise, share_mu
from dp_publish.rows.missing import RowReport
from dp_publish.rows.noise import Bounds
from dp_publish.rows.private_bounds import count_values, find_bounds, half_width_for, merge_values
from dp_publish.sampling.keystream import Keystream

if TYPE_CHECKING:
    from dp_publish.release.workers.distributed import ClusterJob

_MOST_KEPT = 2**24  # numbers of a text file in memory
_ROOM = 20  # bytes of a disk for each number that a file is to keep
PACKAGES = ("dp_bundle", "dp_learn", "dp_audit", "dp_publish")  # in the order of an archive's folders, and in them


class DiscoveringMaker:
    """A release in the making, of which the columns are yet to be found.

    Parameters
    ----------
    policy : Policy
        The unit of privacy, the strength (mu or rho), and the columns that may be published.
    table : Table
        As it was opened.
    partition : str or None
        The part of the rows that the table is.
    work_at : callable
        Returns the rows of a table that may be published, with this process at so many columns of them.
    """

    def __init__(
        self,
        policy: Policy,
        table: Table,
        partition: str | None,
        work_at: Callable[[Table, int], LocalWork],
    ) -> None:
        self._policy, self._table, self._partition, self._work_at = policy, table, partition, work_at
        assert policy.sought is not None  # noqa: S101  nothing is declared
        self._found = policy.sought
        self.work = work_at(table, len(self._found.names))

    @property
    def cost(self) -> Cost:
        """The cost of the release: the strength, and the delta of levels if there may be words."""
        privacy = self._policy.privacy
        strength, account = privacy.strength, privacy.account
        assert strength is not None  # noqa: S101  nothing is found without one
        mu = strength.mu * ROUND_UP
        of_cells = privacy.release == "rows" and privacy.unit_name == "cell"
        row = mu * math.sqrt(len(self._found.names)) if of_cells else mu / _parts(privacy)
        excepted = EXCEPTED_DELTA if self._found.looked else 0.0
        return Cost(account, {"cell": min(row, mu), "row": row, account: mu}, continuous=True, excepted_delta=excepted)

    def make(self, making: Making) -> tuple[Contents, list[Part]]:
        """Find what the columns are, then release their second moments.

        Raises
        ------
        PolicyError
            Too few columns can be published.
        """
        decided = decide(self._table, self._policy, self._found, self._draw(making))
        table, policy = resolve(decided.table, decided.policy)
        of_rows = policy.privacy.release == "rows"
        left = [name for name in policy.columns if not policy.column(name).drop]
        if len(left) < (1 if of_rows else 2):
            raise PolicyError(
                f"too few columns stand out from the noise; {'; '.join(decided.said)}: declare what the "
                f"columns hold{A_POLICY}, or protect less"
            )
        kinds, _ = choose_columns(table, policy)
        self.work = self._work_at(table, len(kinds))
        if of_rows:
            contents, parts = RowsMaker(policy, kinds, self._partition, self.work).make(making)
        else:
            maker = CovarianceMaker(policy, kinds, self._partition, self.work)
            noisy = maker.draw(making)
            decided = decided.with_gaps(maker.found_gaps(noisy))
            table, policy = resolve(decided.table, decided.policy)
            kinds, _ = choose_columns(table, policy)
            contents, parts = CovarianceMaker(policy, kinds, self._partition, self.work).state(noisy, making)
        guarantee = self._guarantee_of(contents.guarantee, decided)
        stated = replace(
            contents,
            guarantee=guarantee,
            sources=tuple(map(published, policy.sources)),
            discovery=decided.discovery,
            left_out=decided.left_out,
            remark="; ".join(decided.said),
        )
        return stated, parts

    def _draw(self, making: Making) -> Told:
        def draw(step: Step[Statistic, Outcome], statistic: Statistic) -> Outcome:
            making.drawing()
            return making.begun.once(step.name, lambda: step.draw(statistic, making.keystream))

        return discover(self._table, self._look(), self._policy, self._found, draw)

    def _look(self) -> Read:
        """Return what yields the rows that are looked at."""
        table, read = self._table, self.work.read
        capped = self._policy.privacy.entity is not None
        sample = None if capped or table.survey is None else table.survey().sample
        if sample is not None:
            return lambda kinds: (table.cells.read(batch, kinds) for batch in sample)
        choose = drawn if capped or table.partitions else thinned  # unless places of rows are public
        n_rows = table.count_rows() - self.work.report.n_over_cap
        return lambda kinds: choose(read(kinds), n_rows)

    def _guarantee_of(self, rest: Guarantee | None, decided: Decided) -> Guarantee:
        """Return the guarantee of what was found and of the release together."""
        assert rest is not None and rest.mu is not None  # noqa: PT018, S101  of two rounds
        rows = self._policy.privacy.max_rows
        own = decided.discovery.mu(rows)
        mu = math.hypot(rest.mu, own) * ROUND_UP
        excepted = EXCEPTED_DELTA if decided.discovery.n_listed else 0.0
        assert excepted >= decided.discovery.excepted_delta(rows)  # noqa: S101
        points = tuple(
            EpsilonDelta(epsilon=epsilon_for_delta(mu, point.delta - excepted) * ROUND_UP, delta=point.delta)
            for point in rest.epsilon_delta
        )
        said = {"mu": mu, "rho": rho_for_mu(mu), "epsilon_delta": points, "excepted_delta": excepted}
        return rest.model_copy(update=said | {"discovery_mu": own * ROUND_UP})


def _parts(privacy: Privacy) -> float:
    """Return by how much a row is protected better than the unit: noise on rows is drawn anew for each."""
    return math.sqrt(privacy.max_rows) if privacy.release == "rows" else privacy.max_rows


@dataclass(frozen=True)
class Order:
    """A release as it was decided on, before it is paid for.

    Attributes
    ----------
    policy : Policy
        Resolved.
    kinds : dict of str to str
        The columns to publish.
    left_out : mapping of str to str
        Other columns of the table, and why.
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
    kinds: Kinds
    left_out: Mapping[str, str]
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
        work_at = partial(_work_at, order.policy, order.keystream is None, order.target.folder)
        return DiscoveringMaker(order.policy, table, order.partition, work_at)
    work = tasks or _work_at(order.policy, order.keystream is None, order.target.folder, table, len(order.kinds))
    kind = CovarianceMaker if order.policy.privacy.is_moments else RowsMaker
    return kind(order.policy, order.kinds, order.partition, work)


def _work_at(policy: Policy, keeps_numbers: bool, folder: Path, table: Table, n_columns: int) -> LocalWork:
    """Return the rows that may be published, with this process at them."""
    rows, privacy = batch_rows(n_columns), policy.privacy
    if privacy.entity is None:
        return LocalWork(ParsedOnce(table, rows, folder).read, table, keeps_numbers)
    cap = EntityCap(table, privacy.entity.entity, privacy.max_rows, rows)
    report = RowReport(n_entities=cap.n_entities, n_over_cap=cap.n_left_out)
    read = ParsedOnce(cap.table, rows, folder).read
    return LocalWork(read, cap.table, keeps_numbers=False, cap=cap, report=report)


class ParsedOnce:
    """The rows of a table, which is parsed once for all passes over the same numbers if it is text.

    These are kept: in memory, or, if they are many, in a file without a name, which goes with the process, however that
    ends. Where there is no room for one, the text is parsed again.

    Parameters
    ----------
    table : Table
        The raw table.
    rows : int
        The most of a batch.
    folder : Path
        Where the file is made.
    """

    def __init__(self, table: Table, rows: int, folder: Path) -> None:
        self._table, self._rows, self._folder = table, rows, folder
        self._kinds: Kinds = {}
        self._kept: list[pa.RecordBatch] | IO[bytes] = []

    def read(self, kinds: Kinds) -> RawBatches:
        """Yield the rows in order, with the columns of some kinds."""
        if self._table.survey is None or "text" in kinds.values():
            yield from self._table.read(kinds, self._rows)
        elif kinds != self._kinds:
            self._kinds, self._kept = {}, []
            yield from self._parse(kinds, self._table.survey().n_rows)
        elif isinstance(self._kept, list):
            yield from self._kept
        else:
            self._kept.seek(0)
            yield from pa.ipc.open_stream(self._kept)

    def _parse(self, kinds: Kinds, n_rows: int) -> RawBatches:
        """Yield the rows, and keep them if all are asked for."""
        batches, n_numbers = self._table.read(kinds, self._rows), n_rows * len(kinds)
        if n_numbers <= _MOST_KEPT:
            self._kept, self._kinds = [*batches], kinds
            yield from self._kept
            return
        file, writer = self._room_for(n_numbers), None
        for batch in batches:
            yield batch
            try:
                if file is not None:
                    writer = writer or pa.ipc.new_stream(file, batch.schema)
                    writer.write_batch(batch)
            except OSError:  # no room after all
                file = None
        if file is not None and writer is not None:
            writer.close()
            self._kept, self._kinds = file, kinds

    def _room_for(self, n_numbers: int) -> IO[bytes] | None:
        """Return a file without a name, where the disk has room for all that is to be kept."""
        try:
            if shutil.disk_usage(self._folder).free > _ROOM * n_numbers:
                file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115  closed with this object
                weakref.finalize(self, file.close)
                return file
        except OSError:  # none can be made here
            pass
        return None


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


class RowsMaker:
    """A release of rows in the making.

    Parameters
    ----------
    policy : Policy
        Bounds and strength.
    kinds : dict of str to str
        The columns to publish.
    partition : str or None
        The part of the rows that the table is.
    work : LocalWork or ClusterJob
        The rows that may be published, and whoever works at them.

    Raises
    ------
    PolicyError, PrivacyError
        Strength, bounds and kinds do not go together, as far as that can be said before bounds are found.
    """

    def __init__(self, policy: Policy, kinds: Kinds, partition: str | None, work: LocalWork | ClusterJob) -> None:
        self._policy, self._kinds, self._partition, self.work = policy, kinds, partition, work
        self._shares = share_mu(policy, kinds)
        self._columns: tuple[Column, ...] | None = None
        if not self._shares.searched:
            self._columns = set_noise(policy, kinds, self._shares)

    @property
    def cost(self) -> Cost:
        """The cost of the release, known before anything is drawn."""
        return cost_of_rows(self._policy, self._kinds, self._shares, self._columns)

    def make(self, making: Making) -> tuple[Contents, list[Part]]:
        """Read the table, find bounds, add noise, and write the data members."""
        found = {}
        if self._shares.searched:
            found = making.begun.once("bounds", lambda: _search_bounds(self.work, self._kinds, self._shares, making))
        bounds = {name: (low, high) for name, (low, high) in found.items()}
        columns = self._columns or set_noise(self._policy, self._kinds, self._shares, found=bounds)
        kinds: Kinds = {column.name: column.kind for column in columns}
        guarantee = guarantee_of_rows(self._policy, columns, self._shares, self._partition)
        parts = self.work.write(kinds, columns, making)
        self.work.require_unchanged()
        report = self.work.report
        return Contents(report.n_rows, columns, guarantee, report), parts


Maker: TypeAlias = RowsMaker | CovarianceMaker | DiscoveringMaker


def _search_bounds(work: LocalWork | ClusterJob, kinds: Kinds, shares: Shares, making: Making) -> dict[str, Bounds]:
    """Find the bounds that the policy leaves out; what is learned on the way is what the search was charged for."""
    chosen = {name: kinds[name] for name in shares.searched}
    if not chosen:
        return {}
    counts, n_rows = work.total(chosen, partial(count_values, n_columns=len(chosen)), merge_values)
    making.drawing()
    half_widths = [half_width_for(n_rows, shares.columns[name]) for name in chosen]
    found = find_bounds(counts, chosen.values(), shares.choice_mu, half_widths, making.keystream)
    return dict(zip(chosen, found, strict=True))


@cache
def code_digest() -> str:
    r"""Return the digest of the code that runs, by which a copy of it can be compared with what made a release.

    It is the SHA-256 of a list, sorted by path, of the SHA-256 of each Python file of the four packages. In an unpacked
    source archive, this prints it::

    for d in common consumer publisher; do (cd $d && find dp_* -name '*.py' | LC_ALL=C sort | xargs sha256sum); done \
        | sha256sum
    """
    lines: list[str] = []
    for package in PACKAGES:
        spec = find_spec(package)
        for folder in map(Path, (spec and spec.submodule_search_locations) or ()):
            files = {f"{package}/{path.relative_to(folder).as_posix()}": path for path in folder.rglob("*.py")}
            ordered = sorted(files, key=lambda name: name.encode())
            lines += [f"{hashlib.sha256(files[name].read_bytes()).hexdigest()}  {name}\n" for name in ordered]
    return hashlib.sha256("".join(lines).encode()).hexdigest()
