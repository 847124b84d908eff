"""The row mechanism alone under the audit's checks: any mechanism can be judged, by canaries that are not mixed."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dp_audit.canaries import Canaries, Draft, Unit, Values, at_bounds, close, inside, outside
from dp_audit.checks import check_confidence, judge_canaries, make_check, not_in_the_middle
from dp_audit.report import AuditReport
from dp_audit.whole_row_releases import N_CHECKS, choose_canaries
from dp_bundle.base.errors import MissingValuesError, PrivacyError
from dp_bundle.data.row_reader import to_arrow
from dp_bundle.data.rows import batch_rows, part_schema
from dp_bundle.manifest.columns import Column
from dp_publish.accounting.conversions import unit_mu
from dp_publish.data.missing import RowReport
from dp_publish.rows.mechanism import add_noise
from dp_publish.sampling.keystream import Keystream, SecureKeystream

__all__ = ["audit"]

_EMPTY_CELLS = 1000  # twice as many
_Floats: TypeAlias = NDArray[np.float64]
Mechanism: TypeAlias = Callable[[pa.RecordBatch, Sequence[Column], Keystream, RowReport], pa.RecordBatch]


def audit(
    columns: Sequence[Column],
    unit: Unit,
    *,
    n_canaries: int | None = None,
    confidence: float = 0.9999,
    mechanism: Mechanism = add_noise,
    new_keystream: Callable[[], Keystream] = SecureKeystream,
    rng: np.random.Generator | None = None,
) -> AuditReport:
    """Attack the row mechanism and test its noise.

    Parameters
    ----------
    columns : sequence of Column
        Bounds and noise, as calibration sets them; all with bounds.
    unit : {"cell", "row"}
        What one person may change, and so what a canary is.
    n_canaries : int, optional
        Rows of canaries of each kind, from 1000 to 2^26; by default enough for a bound within a factor 2.
    confidence : float
        In [0.5, 1): the chance that a sound mechanism passes every check, and that the lower bound holds.
    mechanism : callable
        `add_noise`, or another that is to be judged by the same claims.
    new_keystream : callable
        Where the mechanism's random bits come from; each kind of canaries gets a stream of its own.
    rng : numpy.random.Generator, optional
        The auditor's own coins; unpredictable by default.

    Returns
    -------
    AuditReport
        The bound, and the checks with their results.

    Raises
    ------
    ParameterError
        `n_canaries` or `confidence` is outside its range.
    PrivacyError
        A column has no bounds, or the mechanism loses rows.
    """
    check_confidence(confidence)
    stated_mu = unit_mu(unit, [column.cell_mu for column in columns])
    n = choose_canaries(n_canaries, stated_mu, len(columns))
    rng = np.random.default_rng() if rng is None else rng
    rig, alpha = Rig(columns, mechanism, new_keystream), (1 - confidence) / N_CHECKS
    nearest = close(columns, unit, n, rng)
    widest, beyond = rig.run(at_bounds(columns, unit, n, rng)), rig.run(outside(columns, unit, n, rng))
    attacked = [widest] if nearest is None else [widest, rig.run(nearest)]
    within = [*attacked, rig.run(inside(columns, n, rng))]
    signs = [np.sign(canaries.residuals).astype(np.int8) for canaries in within]
    mu_lower, checks = judge_canaries(
        columns, unit, attacked, within, beyond, signs, lambda *cells: empty_cells(rig, *cells), alpha, rng
    )
    if rig.wrong_types:
        faults = [f"column {name!r} comes out as {kind}" for name, kind in rig.wrong_types.items()]
        checks[2] = make_check("grid", faults, "")
    return AuditReport(unit, stated_mu, mu_lower, confidence, n, tuple(checks))


@dataclass
class Rig:
    """The mechanism under audit; `wrong_types` collects columns that come out as another type, with that type."""

    columns: Sequence[Column]
    mechanism: Mechanism
    new_keystream: Callable[[], Keystream]
    wrong_types: dict[str, str] = field(default_factory=dict)

    def run(self, draft: Draft) -> Canaries:
        """Run the mechanism over canaries, with random bits of their own."""
        return draft.after(self.noisy_steps(draft.values))

    def noisy_steps(self, values: Sequence[Values]) -> _Floats:
        """Run the mechanism over whole columns, in batches as a release does, with random bits of their own.

        Raises
        ------
        PrivacyError
            Rows are missing, or too many.
        """
        keystream, rows, parts = self.new_keystream(), batch_rows(len(self.columns)), []
        for start in range(0, len(values[0]), rows):
            batch = [to_arrow(np.ascontiguousarray(column[start : start + rows])) for column in values]
            parts.append(self.noisy_batch(batch, keystream))
            if len(parts[-1]) != len(batch[0]):
                raise PrivacyError(f"the audit failed: the mechanism made {len(parts[-1])} rows of {len(batch[0])}")
        return np.concatenate(parts)

    def noisy_batch(self, values: Sequence[pa.Array], keystream: Keystream) -> _Floats:
        """Run the mechanism on one batch and return what comes out, in steps; what is not a number is infinite."""
        batch = pa.RecordBatch.from_arrays(list(values), names=[column.name for column in self.columns])
        out = self.mechanism(batch, self.columns, keystream, RowReport())
        steps = np.empty((out.num_rows, len(self.columns)))
        for index, (column, promised) in enumerate(zip(self.columns, part_schema(self.columns), strict=True)):
            found = out.column(index)
            if found.type != promised.type:
                self.wrong_types[column.name] = str(found.type)
            with np.errstate(over="ignore", invalid="ignore"):
                steps[:, index] = found.to_numpy(zero_copy_only=False) / column.cell_noise.granularity
        return np.nan_to_num(steps, nan=math.inf, posinf=math.inf, neginf=-math.inf)


def empty_cells(rig: Rig, column: Column, usual: NDArray[np.float64], alpha: float) -> str:
    """Return what is wrong with the treatment of one column's empty cells, or nothing."""
    integer = column.kind == "integer"
    values = pa.array([None, None if integer else float("nan")] * _EMPTY_CELLS, pa.int64() if integer else pa.float64())
    try:
        steps = Rig([column], rig.mechanism, rig.new_keystream).noisy_batch([values], rig.new_keystream())
    except MissingValuesError:
        return "" if column.missing == "refuse" else f"column {column.name!r} refuses empty cells against the policy"
    if column.missing == "drop":
        return "" if not len(steps) else f"column {column.name!r} does not drop its empty cells"
    if column.missing == "refuse" or column.bounds is None:
        return f"column {column.name!r} does not refuse its empty cells"
    return not_in_the_middle(column, steps[:, 0], usual, alpha)
