"""A covariance release: exact second moments of the rows, batch by batch, then noise on them alone."""

from __future__ import annotations

import contextlib
import math
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dp_bundle.data import stated_rows, to_numpy, write_triangle
from dp_bundle.errors import DataError
from dp_bundle.manifest import CONSTANT_LABEL, Column
from dp_bundle.manifest import SecondMoments as StatedMoments
from dp_publish.accounting import Cost
from dp_publish.covariance import (
    BY_EIGENVECTORS,
    MechanismSetting,
    NoisyMoments,
    SecondMoments,
    cost_of_moments,
    draw_moments,
    estimate_errors,
    guarantee_of_moments,
    insecure_draw,
    merge,
    moment_columns,
    moments_of_batch,
    set_mechanism,
)
from dp_publish.data import RowReport, drop_missing, fill_missing
from dp_publish.policy import Policy
from dp_publish.release.contents import Contents, NewFile, Progress, Read, could_reveal_noise
from dp_publish.sampling import Keystream

__all__ = ["CovarianceMaker", "state_moments"]


class CovarianceMaker:
    """A `Maker` for second moments.

    Parameters
    ----------
    policy : Policy
        Bounds, mechanism and strength.
    kinds : dict of str to str
        The columns, in order.
    partition : str or None
        The part of the rows that the table is.
    read : callable
        Yields the rows that may be published; read once more, to count them, where `auto` chooses by their number.
    report : RowReport
        Counts are added to it.

    Raises
    ------
    PolicyError, ParameterError, PrivacyError
        Mechanism, strength and bounds do not go together.
    """

    def __init__(
        self, policy: Policy, kinds: dict[str, str], partition: str | None, read: Read, report: RowReport
    ) -> None:
        self._policy, self._kinds, self._partition = policy, kinds, partition
        self._read, self._report = read, report
        self._columns = moment_columns(policy, kinds)

    @cached_property
    def _setting(self) -> MechanismSetting:
        return set_mechanism(self._policy, self._kinds, self._count_rows)

    @property
    def cost(self) -> Cost:
        """What the release costs."""
        return cost_of_moments(self._policy, self._setting)

    @property
    def remark(self) -> str | None:
        """Why this mechanism, where `auto` chose."""
        return self._setting.reason

    def make(
        self, keystream: Keystream, new_file: NewFile, progress: Progress | None, drawn: contextlib.ExitStack
    ) -> Contents:
        """Sum the rows' products, add noise and write it; see `Maker`."""
        guarantee = guarantee_of_moments(self._policy, self._setting, self._columns, self._partition)
        moments = self._sum(progress)
        if self._setting.mechanism in BY_EIGENVECTORS:  # the time that they take
            drawn.enter_context(could_reveal_noise())
        noisy = draw_moments(self._setting, moments, keystream)
        drawn.enter_context(could_reveal_noise())
        errors = estimate_errors(noisy, lambda sums: insecure_draw(self._setting, sums, keystream))
        stated = state_moments(noisy, errors)
        n_rows = noisy.n_rows or stated_rows(noisy.matrix, stated.constant, stated.bias)
        file = new_file()
        write_triangle(noisy.matrix, [*self._kinds, CONSTANT_LABEL], file)
        return Contents([file], n_rows, self._columns, guarantee, second_moments=stated)

    def _sum(self, progress: Progress | None) -> SecondMoments:
        p = len(self._kinds)
        total = moments_of_batch(np.empty((0, p)), self._setting.scaling)
        for batch in self._read(self._kinds):
            total = merge([total, moments_of_batch(_values(batch, self._columns, self._report), total.scaling)])
            self._report.n_rows = total.n_rows
            if progress is not None:
                progress(total.n_rows)
        self._report.n_clipped_rows = total.n_clipped
        if total.n_rows == 0 and self._setting.neighbours.n_rows_public:  # else their absence is protected
            raise DataError("the table has no rows to publish")
        return total

    def _count_rows(self) -> int:
        """Return how many rows will be summed, from as few columns as tell it."""
        dropping = [column for column in self._columns if column.missing == "drop"]
        chosen = dropping or list(self._columns[:1])
        batches = self._read({column.name: self._kinds[column.name] for column in chosen})
        n_rows = sum(int(drop_missing(batch, chosen).num_rows) for batch in batches)
        if n_rows == 0:
            raise DataError("the table has no rows to publish")
        return n_rows


def state_moments(noisy: NoisyMoments, errors: tuple[float, float] | None = None) -> StatedMoments:
    """Return what a manifest says of noisy second moments, and of their errors as `estimate_errors` gives them."""
    on, beside = errors or (None, None)
    return StatedMoments.model_validate(
        {
            "mechanism": noisy.mechanism,
            "radius": min(noisy.scaling.radius, math.sqrt(noisy.scaling.n_features)),
            "constant": noisy.scaling.constant,
            "granularity": noisy.granularity,
            "distribution": noisy.distribution,
            "parameters": dict(noisy.parameters),
            "diagonal_variance": noisy.diagonal_variance,
            "off_diagonal_variance": noisy.off_diagonal_variance,
            "bias": noisy.bias,
            "estimated_diagonal_error": on,
            "estimated_off_diagonal_error": beside,
        }
    )


def _values(batch: pa.RecordBatch, columns: tuple[Column, ...], report: RowReport) -> NDArray[np.float64]:
    """Return a batch as numbers, with what the policy says of missing ones done."""
    kept = drop_missing(batch, columns)
    report.n_dropped += batch.num_rows - kept.num_rows
    filled = [fill_missing(kept.column(index), column, report) for index, column in enumerate(columns)]
    values = [to_numpy(each) for each in filled]
    for column, each in zip(columns, values, strict=True):
        low, high = column.bounds or (-math.inf, math.inf)
        report.count(report.clipped, column.name, int(np.count_nonzero((each < low) | (each > high))))
    return np.column_stack(values)
