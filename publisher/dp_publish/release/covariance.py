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
from dp_bundle.manifest import CONSTANT_LABEL, Column, SecondMoments
from dp_publish.accounting import Cost
from dp_publish.covariance import (
    ExactMoments,
    Mechanism,
    NoisyMoments,
    cost_of_moments,
    estimate_errors,
    guarantee_of_moments,
    merge,
    moment_columns,
    moments_of_batch,
    set_mechanism,
)
from dp_publish.data import RowReport, drop_missing, fill_missing
from dp_publish.policy import Policy
from dp_publish.release.contents import Contents, NewFile, Progress, Read, could_reveal_noise
from dp_publish.sampling import Keystream


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
    def _mechanism(self) -> Mechanism:
        return set_mechanism(self._policy, self._kinds, self._count_rows)

    @property
    def cost(self) -> Cost:
        """The cost of the release."""
        return cost_of_moments(self._policy, self._mechanism)

    @property
    def remark(self) -> str | None:
        """The reason for the mechanism, where `auto` chose it."""
        return self._mechanism.reason

    def make(
        self, keystream: Keystream, new_file: NewFile, progress: Progress | None, drawn: contextlib.ExitStack
    ) -> Contents:
        """Sum the rows' products, add noise and write it; see `Maker`."""
        guarantee = guarantee_of_moments(self._policy, self._mechanism, self._columns, self._partition)
        moments = self._sum(progress)
        if self._mechanism.draws_depend_on_data:  # and so does the time that they take
            drawn.enter_context(could_reveal_noise())
        noisy = self._mechanism.draw(moments, keystream)
        drawn.enter_context(could_reveal_noise())
        errors = estimate_errors(noisy, lambda sums: self._mechanism.insecure_draw(sums, keystream))
        stated = state_moments(self._mechanism, noisy, errors)
        n_rows = noisy.n_rows or stated_rows(noisy.matrix, stated.constant, stated.bias)
        file = new_file()
        write_triangle(noisy.matrix, [*self._kinds, CONSTANT_LABEL], file)
        return Contents([file], n_rows, self._columns, guarantee, second_moments=stated)

    def _sum(self, progress: Progress | None) -> ExactMoments:
        p = len(self._kinds)
        total = moments_of_batch(np.empty((0, p)), self._mechanism.scaling)
        for batch in self._read(self._kinds):
            total = merge([total, moments_of_batch(_values(batch, self._columns, self._report), total.scaling)])
            self._report.n_rows = total.n_rows
            if progress is not None:
                progress(total.n_rows)
        self._report.n_clipped_rows = total.n_clipped
        if total.n_rows == 0 and self._mechanism.neighbours.n_rows_public:  # else their absence is protected
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


def state_moments(
    mechanism: Mechanism, released: NoisyMoments, errors: tuple[float, float] | None = None
) -> SecondMoments:
    """Return what a manifest says of noisy second moments, and of their errors as `estimate_errors` gives them."""
    noise, (on, off) = released.noise, errors or (None, None)
    return SecondMoments.model_validate(
        {
            "mechanism": mechanism.published_as,
            "radius": min(released.scaling.radius, math.sqrt(released.scaling.n_features)),
            "constant": released.scaling.constant,
            "granularity": noise.granularity,
            "distribution": noise.distribution,
            "parameters": noise.parameters,
            "diagonal_variance": noise.diagonal_variance,
            "off_diagonal_variance": noise.off_diagonal_variance,
            "bias": noise.bias,
            "estimated_diagonal_error": on,
            "estimated_off_diagonal_error": off,
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
