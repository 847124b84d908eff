"""A release of rows: bounds found if they must be, then noise on every row, into Parquet parts."""

from __future__ import annotations

import contextlib
import math
import operator
import shutil
from collections.abc import Callable
from functools import partial
from typing import BinaryIO, Protocol, TypeVar

from dp_bundle.manifest import Column
from dp_publish.accounting import Cost
from dp_publish.data import RowReport, Table, TypedRanges, standard_deviations
from dp_publish.policy import Policy
from dp_publish.release.contents import (
    Contents,
    NewFile,
    Progress,
    Records,
    could_reveal_noise,
    one_ahead,
    stays_booked,
)
from dp_publish.release.distributed import Job
from dp_publish.release.parts import ParallelWriter, Part, write_parts
from dp_publish.release.passes import Passes
from dp_publish.rows import (
    Bounds,
    Shares,
    add_noise,
    conditional_mu,
    cost_of_rows,
    count_values,
    find_bounds,
    find_centers,
    guarantee_of_rows,
    half_width_for,
    merge_values,
    set_noise,
    share_mu,
    steps_for,
    sum_complete_rows,
)
from dp_publish.sampling import Keystream

T = TypeVar("T")

_COPIED = 2**23  # bytes at a time


class Once(Protocol):
    """`Records.once`, or what draws without a record."""

    def __call__(self, name: str, draw: Callable[[], T], /) -> T:
        """Return what is drawn under a name."""


class RowsMaker:
    """A `Maker` for rows.

    Parameters
    ----------
    policy : Policy
        Bounds and strength.
    kinds : dict of str to str
        The columns to publish.
    table : Table
        Read here for strength by SNR alone.
    partition : str or None
        The part of the rows that the table is.
    passes : Passes
        The rows that may be published.
    report : RowReport
        Counts are added to it.
    ranges : callable, optional
        Returns the same rows by their numbers, so that every core may read some of them, with random bits of its own.
    job : Job, optional
        Has the workers of a cluster add the noise; it needs `ranges`.

    Raises
    ------
    PolicyError, PrivacyError
        Strength, bounds and kinds do not go together, as far as that can be said before bounds are found.
    """

    remark = None

    def __init__(
        self,
        policy: Policy,
        kinds: dict[str, str],
        table: Table,
        partition: str | None,
        passes: Passes,
        report: RowReport,
        ranges: Callable[[], TypedRanges] | None = None,
        job: Job | None = None,
    ) -> None:
        self._policy, self._kinds, self._partition = policy, kinds, partition
        self._passes, self._report, self._ranges = passes, report, ranges
        self._job = job
        self._shares = share_mu(policy, kinds)
        self._deviations = None
        if policy.privacy.snr_db is not None:
            self._deviations = standard_deviations(table, kinds, {name: policy.column(name).bounds for name in kinds})
        self._columns: tuple[Column, ...] | None = None
        if not self._shares.searched:
            self._columns = set_noise(policy, kinds, self._shares, deviations=self._deviations)

    @property
    def cost(self) -> Cost:
        """The cost of the release."""
        return cost_of_rows(self._policy, self._kinds, self._shares, self._columns)

    def make(
        self,
        keystream: Keystream,
        new_file: NewFile,
        progress: Progress | None,
        drawn: contextlib.ExitStack,
        records: Records | None = None,
    ) -> Contents:
        """Find bounds, add noise and write it; see `Maker`."""
        once: Once = records.once if records is not None else _draw
        found = {}
        if self._shares.searched:
            found = once("bounds", lambda: _search_bounds(self._passes, self._kinds, self._shares, keystream))
            drawn.enter_context(could_reveal_noise())
        bounds = {name: (low, high) for name, (low, high) in found.items()}
        columns = self._columns or set_noise(self._policy, self._kinds, self._shares, found=bounds)
        if math.isfinite(self._shares.centers_sigma):
            sigma = self._shares.centers_sigma
            centers = once("centers", lambda: _search_centers(columns, self._passes, self._kinds, sigma, keystream))
            columns = tuple(column.model_copy(update={"fill": centers[column.name]}) for column in columns)
            drawn.enter_context(could_reveal_noise())
        guarantee = guarantee_of_rows(self._policy, columns, self._shares, self._partition)
        if self._job is not None and self._ranges is not None:
            drawn.enter_context(stays_booked())
            parts = self._job.write(self._ranges(), self._kinds, columns, progress, self._report)
            if records is not None:
                parts = [_copy(part, records.new_file()) for part in parts]
        else:
            parts = self._write(columns, keystream, new_file, progress, records)
        files, digests = [part.file for part in parts], [part.sha256 for part in parts]
        conditional = conditional_mu(columns) if guarantee is None else None
        return Contents(files, self._report.n_rows, columns, guarantee, conditional, digests=digests)

    def _write(
        self,
        columns: tuple[Column, ...],
        keystream: Keystream,
        new_file: NewFile,
        progress: Progress | None,
        records: Records | None,
    ) -> list[Part]:
        """Add noise and write it: on all cores if that is worth it, and the rows are known by their numbers."""
        if self._ranges is not None and all(column.missing != "drop" for column in columns):
            writer = ParallelWriter(self._ranges(), self._kinds, columns)
            if records is not None and writer.ranges.raw.n_rows:
                return writer.write_recorded(records, progress, self._report)
            if len(planned := writer.plan()) > 1:
                return writer.write(planned, new_file, progress, self._report)
        batches = (add_noise(batch, columns, keystream, self._report) for batch in self._passes.read(self._kinds))
        return write_parts(one_ahead(batches), columns, new_file, progress)


def _copy(part: Part, file: BinaryIO) -> Part:
    """Return a part that was staged elsewhere as a file of the job."""
    with part.file as staged:
        shutil.copyfileobj(staged, file, _COPIED)
    return part._replace(file=file)


def _draw(_: str, draw: Callable[[], T]) -> T:
    return draw()


def _search_bounds(passes: Passes, kinds: dict[str, str], shares: Shares, keystream: Keystream) -> dict[str, Bounds]:
    """Find the bounds that the policy leaves out; what is learned on the way is what the search was charged for."""
    chosen = {name: kinds[name] for name in shares.searched}
    if not chosen:
        return {}
    counts, n_rows = passes.total(chosen, partial(count_values, n_columns=len(chosen)), merge_values)
    half_widths = [half_width_for(n_rows, shares.columns[name]) for name in chosen]
    found = find_bounds(counts, chosen.values(), shares.choice_mu, half_widths, keystream)
    return dict(zip(chosen, found, strict=True))


def _search_centers(
    columns: tuple[Column, ...], passes: Passes, kinds: dict[str, str], sigma: float, keystream: Keystream
) -> dict[str, float]:
    """Return the means, found privately, at which rows with gaps will stand."""
    add = partial(sum_complete_rows, columns=columns, steps=steps_for(sigma))
    return find_centers(passes.total(kinds, add, operator.iadd), columns, sigma, keystream)
