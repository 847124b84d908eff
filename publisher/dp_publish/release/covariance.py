"""A covariance release: exact second moments of the rows, batch by batch, then noise on them alone.

If noise does not act entry by entry, readers get an estimate of the error in a typical entry. For it the mechanism is
applied once more, to what it has released, and the error of that is measured: the parametric bootstrap. It starts from
the noisy eigenvalues before they were shrunk. Shrunk ones are nearly equal under much noise, and the vectors of equal
eigenvalues can be drawn without any error. Nothing but the release enters, so that the estimate costs no privacy, and
the mechanism may be applied in floating point, which is sooner done.

References
----------
Efron & Tibshirani (1993), An introduction to the bootstrap, section 6.5.
"""

from __future__ import annotations

import math
import operator
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

from dp_bundle.base.arrays import Floats
from dp_bundle.base.errors import DataError, PrivacyError
from dp_bundle.bundle.writing import sha256_of
from dp_bundle.data.margins import write_margins
from dp_bundle.data.matrix import stated_rows, write_triangle
from dp_bundle.data.rows import to_numpy
from dp_bundle.manifest.columns import Column, Scores, Standard
from dp_bundle.manifest.dataset import POSITIVE, WHOLE
from dp_bundle.manifest.matrix_noise import Margins, SecondMoments
from dp_bundle.manifest.release import CONSTANT_LABEL
from dp_publish.accounting.conversions import Cost
from dp_publish.covariance.calibration import cost_of_moments, guarantee_of_moments, moment_columns, set_mechanism
from dp_publish.covariance.exact_moments import ExactMoments
from dp_publish.covariance.mechanisms.base import Batches, Mechanism, NoisyMoments, OneSum
from dp_publish.covariance.scaling import Scaling
from dp_publish.data.kinds import Kinds
from dp_publish.data.row_ranges import RawBatches
from dp_publish.policy.model import Policy
from dp_publish.release.begun import Contents, Part
from dp_publish.release.parts import LocalWork, Making
from dp_publish.rows.missing import RowReport, drop_missing, fill_missing, mark_missing

if TYPE_CHECKING:
    from dp_publish.release.workers.distributed import ClusterJob

T = TypeVar("T")
_STATED_OF_NOISE = ("granularity", "distribution", "parameters", "diagonal_variance", "off_diagonal_variance", "bias")
_N_ENTRIES = 100  # on the diagonal, at least, over all repetitions


class CovarianceMaker:
    """A release of second moments in the making.

    Parameters
    ----------
    policy : Policy
        Bounds, mechanism and strength.
    kinds : dict of str to str
        The columns, in order.
    partition : str or None
        The part of the rows that the table is.
    work : LocalWork or ClusterJob
        The rows that may be published; read once more, to count them, where `auto` chooses by their number.

    Raises
    ------
    PolicyError, ParameterError, PrivacyError
        Mechanism, strength and bounds do not go together.
    """

    def __init__(self, policy: Policy, kinds: Kinds, partition: str | None, work: LocalWork | ClusterJob) -> None:
        self._policy, self._kinds, self._partition, self.work = policy, kinds, partition, work
        self._columns = moment_columns(policy, kinds)

    @cached_property
    def _mechanism(self) -> Mechanism:
        return set_mechanism(self._policy, self._kinds, self._count_rows)

    @property
    def cost(self) -> Cost:
        """The cost of the release, known before anything is drawn."""
        return cost_of_moments(self._policy, self._mechanism)

    def make(self, making: Making) -> tuple[Contents, list[Part]]:
        """Read the table, and write its second moments with noise."""
        return self.state(self.draw(making), making)

    def draw(self, making: Making) -> NoisyMoments:
        """Return the second moments with noise."""
        raw_rows = partial(self._pass, progress=making.progress)
        witness = _Witness(making.drawing, making.begun.once, self.work.report, list(self._kinds))
        noisy = self._mechanism.release(raw_rows, making.keystream, witness)
        self.work.require_unchanged()
        return noisy

    def found_gaps(self, noisy: NoisyMoments) -> list[str]:
        """Return the columns whose gaps were found, and have a column each in what was drawn."""
        described = noisy.earlier and noisy.earlier.described
        return [[*self._kinds][place] for place in described.gaps] if described else []

    def state(self, noisy: NoisyMoments, making: Making) -> tuple[Contents, list[Part]]:
        """Write second moments with noise, for the columns that they are of."""
        mechanism, report, errors = self._mechanism, self.work.report, None
        guarantee = guarantee_of_moments(self._policy, mechanism, self._columns, self._partition)
        for column in self._columns:
            if column.missing == "indicator":
                report.count(report.indicated, column.name, report.filled.pop(column.name, 0))
        if isinstance(mechanism, OneSum):
            errors = estimate_errors(noisy, lambda sums: mechanism.insecure_draw(sums, making.keystream))
        stated = state_moments(mechanism, noisy, errors)
        n_rows = noisy.n_rows or stated_rows(noisy.matrix, stated.constant, stated.bias)
        columns = state_columns(self._policy, self._columns, noisy)
        if noisy.earlier is not None:
            guarantee = guarantee.model_copy(update={"bounds_mu": noisy.earlier.choices_mu})
        ends = natural_ends(self._policy, columns, noisy)
        contents = Contents(n_rows, columns, guarantee, report, mechanism.reason, second_moments=stated, ends=ends)
        return contents, self._write(noisy, making)

    def _pass(
        self, add: Callable[[Batches], T], merge: Callable[[T, T], T], *, progress: Callable[[int], None] | None
    ) -> T:
        """Return what comes of the rows as numbers, with what the policy says of gaps done; see `Rows`.

        The first pass reports what was done.
        """
        add_numbers: Callable[[RawBatches], tuple[T, RowReport]]
        add_numbers = partial(_add_numbers, add=add, columns=self._columns, places_gaps=self._mechanism.places_gaps)
        total: T
        total, report = self.work.total(self._kinds, add_numbers, partial(_merge_both, merge), progress)
        if not self.work.report.n_rows:
            self.work.report.add(report)
        return total

    def _write(self, noisy: NoisyMoments, making: Making) -> list[Part]:
        """Write the data of the release, in the order of their members."""
        labels = [*self._kinds, CONSTANT_LABEL]
        matrices = [(noisy.matrix, labels)]
        if noisy.earlier is not None:
            matrices += [(noisy.earlier.moments.matrix, labels), (noisy.earlier.transform, labels[:-1])]
        writers = [partial(write_triangle, matrix, names) for matrix, names in matrices]
        if noisy.earlier is not None and noisy.earlier.described is not None:
            writers.append(partial(write_margins, noisy.earlier.described.margins))
        parts = []
        for place, write in enumerate(writers):
            file = making.new_file()
            write(file)
            parts.append(Part(place, file, sha256_of(file)))
        return parts

    def _count_rows(self) -> int:
        """Return how many rows will be summed, from as few columns as tell it."""
        dropping = [column for column in self._columns if column.missing == "drop"]
        chosen = dropping or list(self._columns[:1])
        kinds = {column.name: self._kinds[column.name] for column in chosen}
        n_rows: int = self.work.total(kinds, partial(_count_complete, columns=chosen), operator.add)
        if n_rows == 0:
            raise DataError("the table has no rows to publish")
        return n_rows


class _Witness(NamedTuple):
    """Told how far the release has come."""

    drawing: Callable[[], None]
    once: Callable[[str, Callable[[], Any]], Any]
    report: RowReport
    names: Sequence[str]

    def clipped(self, n_rows: int, values: Sequence[int] = ()) -> None:
        """Report rows that were clipped, and values of every column beyond what was found for it."""
        self.report.n_clipped_rows = n_rows
        self.report.beyond = Counter({name: each for name, each in zip(self.names, values, strict=False) if each})


def state_moments(
    mechanism: Mechanism, released: NoisyMoments, errors: tuple[float, float] | None = None
) -> SecondMoments:
    """Return what a manifest says of noisy second moments, and of their errors as `estimate_errors` gives them."""
    on, off = errors or (None, None)
    stated = _describe_matrix(released) | {"mechanism": mechanism.published_as}
    stated |= {"estimated_diagonal_error": on, "estimated_off_diagonal_error": off}
    if (earlier := released.earlier) is not None:
        fourth = {"total": earlier.fourth_powers, "sigma": earlier.fourth_sigma, "granularity": earlier.fourth_step}
        stated |= {"first_round": _describe_matrix(earlier.moments), "fourth_moment": fourth}
        stated["column_clip"] = earlier.clip
        stated["margins"] = None if earlier.described is None else Margins(sigma=earlier.described.sigma)
    return SecondMoments.model_validate(stated)


def state_columns(policy: Policy, columns: tuple[Column, ...], released: NoisyMoments) -> tuple[Column, ...]:
    """Return the columns, with the standards by which two rounds took them."""
    if released.earlier is None:
        return columns
    described = released.earlier.described
    rounds, stated = (released.earlier.moments.scaling, released.scaling), []
    for index, column in enumerate(columns):
        declared = "scale" in policy.column(column.name).model_fields_set
        places = [(each.centers[index].item(), each.half_widths[index].item()) for each in rounds]
        standards = tuple(Standard(center=center, scale=scale) for center, scale in places)
        by_cells = described is not None and bool(described.by_cells[index])
        obtained = "margins" if by_cells else "declared" if declared else "private-quantiles"
        said: dict[str, Any] = {"standards": standards, "standard_obtained": obtained}
        if described is not None and index in described.maps:
            said["transform"] = Scores(name="scores")
        stated.append(column.model_copy(update=said))
    return tuple(stated)


def natural_ends(policy: Policy, columns: Sequence[Column], released: NoisyMoments) -> dict[str, list[str]]:
    """Return what is public of where numbers end, by field of the manifest's dataset; histograms tell it themselves."""
    earlier = released.earlier
    if earlier is not None and earlier.described is not None:
        return {}
    found = {
        WHOLE: [column.name for column in columns if policy.column(column.name).kind == "integer"],
        POSITIVE: [columns[index].name for index in earlier.positive] if earlier is not None else [],
    }
    return {field: names for field, names in found.items() if names}


def _describe_matrix(released: NoisyMoments) -> dict[str, Any]:
    noise = {name: getattr(released.noise, name) for name in _STATED_OF_NOISE}
    radius = min(released.scaling.radius, math.sqrt(released.scaling.n_features))
    return {"radius": radius, "constant": released.scaling.constant, **noise}


def _count_complete(batches: RawBatches, *, columns: Sequence[Column]) -> int:
    """Return the number of rows that are not left out for want of a value."""
    return sum(int(drop_missing(batch, columns, RowReport()).num_rows) for batch in batches)


def _add_numbers(
    batches: RawBatches, *, add: Callable[[Batches], T], columns: tuple[Column, ...], places_gaps: bool
) -> tuple[T, RowReport]:
    """Return what comes of rows as numbers, and what was done to them."""
    report = RowReport()
    return add(_values(batch, columns, report, places_gaps=places_gaps) for batch in batches), report


def _merge_both(
    merge: Callable[[T, T], T], one: tuple[T, RowReport], other: tuple[T, RowReport]
) -> tuple[T, RowReport]:
    one[1].add(other[1])
    return merge(one[0], other[0]), one[1]


def _values(batch: pa.RecordBatch, columns: tuple[Column, ...], report: RowReport, *, places_gaps: bool) -> Floats:
    """Return a batch as numbers, with what the policy says of missing ones done, unless the mechanism places them."""
    kept = drop_missing(batch, columns, report)
    filled = [
        (mark_missing if places_gaps and column.has_gap_cell else fill_missing)(values, column, report)
        for column, values in zip(columns, kept.columns, strict=True)
    ]
    values = [to_numpy(each) for each in filled]
    for column, each in zip(columns, values, strict=True):
        low, high = column.limits
        report.count(report.clipped, column.name, int(np.count_nonzero((each < low) | (each > high))))
    return np.stack(values).T  # column after column, as they come


def estimate_errors(noisy: NoisyMoments, draw: Callable[[ExactMoments], NoisyMoments]) -> tuple[float, float] | None:
    """Return the root mean square error of the columns' entries on and off the diagonal.

    Parameters
    ----------
    noisy : NoisyMoments
        What was released.
    draw : callable
        Applies the same mechanism to other sums.

    Returns
    -------
    tuple of float, or None
        In the matrix's units; None for one column, where the noise acts entry by entry, or where the sampler has
        reached its bound on work.
    """
    p = noisy.scaling.n_features
    if noisy.unshrunk is None or p < 2:
        return None
    truth = _as_sums(noisy.unshrunk, noisy.scaling, noisy.n_rows)
    exact, upper = truth.matrix[:p, :p], np.triu_indices(p, 1)
    on, beside = [], []
    try:
        for _ in range(-(-_N_ENTRIES // p)):
            error = draw(truth).matrix[:p, :p] - exact
            on.append(np.mean(np.diagonal(error) ** 2))
            beside.append(np.mean(error[upper] ** 2))
    except PrivacyError:
        return None
    return float(np.sqrt(np.mean(on))), float(np.sqrt(np.mean(beside)))


def _as_sums(matrix: Floats, scaling: Scaling, n_rows: int | None) -> ExactMoments:
    """Return noisy sums as if they were exact."""
    p, c = scaling.n_features, scaling.constant
    if n_rows is None:
        n_rows = max(1, round(matrix[-1, -1] / c**2))
    sums = matrix[:p, -1] / c if c else np.zeros(p)
    return ExactMoments.near(scaling, n_rows, matrix[:p, :p], sums)
