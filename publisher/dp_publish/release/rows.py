"""A release of rows: bounds found if they must be, then noise on every row, into Parquet parts."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from dp_bundle.manifest.columns import Column
from dp_publish.accounting.conversions import Cost
from dp_publish.policy.model import Policy
from dp_publish.release.begun import Contents, Part
from dp_publish.release.parts import LocalWork, Making
from dp_publish.rows.calibration import Shares, cost_of_rows, guarantee_of_rows, set_noise, share_mu
from dp_publish.rows.noise import Bounds
from dp_publish.rows.private_bounds import count_values, find_bounds, half_width_for, merge_values

if TYPE_CHECKING:
    from dp_publish.release.workers.distributed import ClusterJob


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

    def __init__(
        self, policy: Policy, kinds: dict[str, str], partition: str | None, work: LocalWork | ClusterJob
    ) -> None:
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
        kinds: dict[str, str] = {column.name: column.kind for column in columns}
        guarantee = guarantee_of_rows(self._policy, columns, self._shares, self._partition)
        parts = self.work.write(kinds, columns, making)
        self.work.require_unchanged()
        report = self.work.report
        return Contents(report.n_rows, columns, guarantee, report), parts


def _search_bounds(
    work: LocalWork | ClusterJob, kinds: dict[str, str], shares: Shares, making: Making
) -> dict[str, Bounds]:
    """Find the bounds that the policy leaves out; what is learned on the way is what the search was charged for."""
    chosen = {name: kinds[name] for name in shares.searched}
    if not chosen:
        return {}
    counts, n_rows = work.total(chosen, partial(count_values, n_columns=len(chosen)), merge_values)
    making.drawing()
    half_widths = [half_width_for(n_rows, shares.columns[name]) for name in chosen]
    found = find_bounds(counts, chosen.values(), shares.choice_mu, half_widths, making.keystream)
    return dict(zip(chosen, found, strict=True))
