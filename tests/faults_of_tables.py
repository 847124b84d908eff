"""Faults of what a table's other cells decide: gaps, levels, dates, caps, batches and ranges, and budgets."""

import datetime
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from dp_bundle.data.rows import to_numpy
from dp_publish.accounting import conversions, curve
from dp_publish.covariance.mechanisms import two_round
from dp_publish.data import kinds, table, typed
from dp_publish.data.table import Table
from dp_publish.ledger.ledger import Ledger
from dp_publish.policy import columns
from dp_publish.policy.model import Policy
from dp_publish.release import contribution_cap, parts
from dp_publish.release import preparing as rows_release
from dp_publish.rows import calibration, mechanism
from dp_publish.sampling.keystream import SecureKeystream, insecure_keystream
from planting import Plant, instead_of

__all__ = ["FAULTS_OF_TABLES"]


@instead_of("_filled", two_round)
def _gaps_at_the_mean(honest: Any, batches: Any, fills: np.ndarray) -> Any:
    for values in batches:
        known = np.where(np.isfinite(values), values, np.nan)
        some = np.isfinite(known).any(axis=0)
        means = np.array([np.nanmean(column) if any_ else 0.0 for column, any_ in zip(known.T, some, strict=True)])
        yield from honest(iter([values]), np.where(some, means, fills))


def _passing_the_cap(passes: Callable[[pa.RecordBatch], np.ndarray]) -> Plant:
    def plant(patch: pytest.MonkeyPatch) -> None:
        def kept(batch: pa.RecordBatch, keep: typed.Keep, start: int) -> pa.RecordBatch:
            return batch.filter(pa.array(keep(start, start + batch.num_rows) | passes(batch))) if keep else batch

        patch.setattr(typed, "kept_rows", kept)
        patch.setattr(table, "kept_rows", kept)

    return plant


def _with_a_gap(batch: pa.RecordBatch) -> np.ndarray:
    gaps = [pc.is_null(column, nan_is_null=True).to_numpy(zero_copy_only=False) for column in batch.columns]
    return np.asarray(np.logical_or.reduce(gaps))


def _with_a_first_level(batch: pa.RecordBatch) -> np.ndarray:
    """Return which rows have a 1 in the first column of a category."""
    for name in batch.schema.names:
        if "=" in name and not name.endswith("=(no value)"):
            return np.asarray(pc.fill_null(pc.equal(batch.column(name), 1), False).to_numpy(zero_copy_only=False))
    return np.zeros(batch.num_rows, dtype=bool)


def _dates_from_the_earliest(patch: pytest.MonkeyPatch) -> None:
    """Let days be counted from the first one of a batch, which stands at the first one of all."""
    date, origin = kinds.KINDS["date"], 10957  # 2000-01-01

    def days(values: pa.Array) -> pa.Array:
        counted = date.encode(values)
        first = pc.min(counted).as_py()
        return counted if first is None else pc.add(pc.subtract(counted, first), origin)

    patch.setitem(kinds.KINDS, "date", replace(date, encode=days))


@instead_of("_codes", typed)
def _ranked_among_those_seen(honest: Any, values: pa.Array, source: Any, missing: Any) -> Any:
    found = honest(values, source, missing)
    if source.kind != "ordered":
        return found
    seen = pc.unique(found.values.drop_null())
    ranks = pc.index_in(found.values, seen.take(pc.sort_indices(seen)), skip_nulls=True)
    return found._replace(values=pc.cast(ranks, pa.int64()))


@instead_of("respond", mechanism)
def _rare_levels_kept(honest: Any, codes: np.ndarray, *rest: Any) -> np.ndarray:
    out = honest(codes, *rest)
    counts = np.bincount(codes.astype(np.int64))[codes.astype(np.int64)]
    return np.where(counts < min(10, len(codes)), codes, out)


def _ranges_share_bits(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(parts, "SecureKeystream", lambda: insecure_keystream(5))


def _releases_share_bits(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SecureKeystream, "_key_and_counter", lambda _: (bytes(32), bytes(16)))


@instead_of("add", mechanism.ROW_NOISE["continuous"].__class__)
def _last_row_of_a_batch_in_the_clear(honest: Any, self: Any, values: Any, column: Any, keystream: Any) -> Any:
    noisy, outside = honest(self, values, column, keystream)
    if column.bounds is not None and len(noisy):
        step = column.cell_noise.granularity
        last = values[len(values) - 1].as_py()
        noisy[-1] = np.rint(np.clip(last, *column.bounds) / step) * step
    return noisy, outside


@instead_of("_noisy_column", mechanism)
def _noise_for_what_a_batch_spans(honest: Any, values: pa.Array, column: Any, *rest: Any) -> pa.Array:
    if column.kind != "continuous" or column.bounds is None or len(values) < 2:
        return honest(values, column, *rest)
    low, high = column.bounds
    known = np.clip(values.drop_null().to_numpy(), low, high)
    if np.isnan(known).all():
        return honest(values, column, *rest)
    share = float(np.nanmax(known) - np.nanmin(known)) / (high - low)
    narrow = column.noise.model_copy(update={"sigma": max(share, 1e-3) * column.noise.sigma})
    return honest(values, column.model_copy(update={"noise": narrow}), *rest)


def _exact_mean_in_the_second_round(patch: pytest.MonkeyPatch) -> None:
    honest_play, honest_shown = two_round.TwoRound._play_round, two_round._shown_by
    exact: list[Any] = []

    def play_round(self: Any, name: str, sums: Any, frame: Any, mu: float, offset: float, play: Any) -> Any:
        def watched(step: Any, statistic: Any) -> Any:
            if step.name == "first round":
                exact.append(statistic)
            return play(step, statistic)

        return honest_play(self, name, sums, frame, mu, offset, watched)

    def shown(first: Any) -> Any:
        _, covariance_, noise = honest_shown(first)
        steps = exact[-1].steps.astype(float)
        mean = steps[-1, :-1] / steps[-1, -1] * first.scaling.constant
        return first.scaling.centers + first.scaling.half_widths * mean, covariance_, noise

    patch.setattr(two_round.TwoRound, "_play_round", play_round)
    patch.setattr(two_round, "_shown_by", shown)


@instead_of("resolve", columns)
def _levels_by_frequency(honest: Any, table: Any, policy: Policy, withheld: Any = ()) -> Any:
    sources = list(policy.sources)
    for index, source in enumerate(sources):
        if source.kind == "category" and source.has_level_columns and source.name in table.types:
            counts: Counter[Any] = Counter()
            for batch in table.read({source.name: "text"}, 10_000):
                counts.update(batch.column(0).to_pylist())
            order = sorted(range(len(source.levels)), key=lambda at: -counts[source.levels[at]])
            update = {name: tuple(getattr(source, name)[at] for at in order) for name in ("levels", "columns")}
            sources[index] = source.model_copy(update=update)
    return honest(table, policy.model_copy(update={"sources": tuple(sources)}), withheld)


def _delta_with_the_wrong_sign(patch: pytest.MonkeyPatch) -> None:
    """Let the logarithm of delta lack the sign of epsilon: half of what is exceeded is taken off twice."""
    honest = conversions.delta_for_epsilon

    def delta(mu: float, epsilon: float) -> float:
        return honest(mu, epsilon) / (1 + math.exp(epsilon))

    for module in (conversions, curve, calibration):
        if hasattr(module, "delta_for_epsilon"):
            patch.setattr(module, "delta_for_epsilon", delta)


def _weights_without_a_sum(patch: pytest.MonkeyPatch) -> None:
    """Let every column have the share of mu of its weight over the largest, not over their sum."""
    honest = calibration.math

    class Largest:
        def __getattr__(self, name: str) -> Any:
            return getattr(honest, name)

        @staticmethod
        def fsum(weights: Any) -> float:
            return max(weights)

    patch.setattr(calibration, "math", Largest())


def _columns_lean_on_each_other(patch: pytest.MonkeyPatch) -> None:
    """Let three tenths of a column's noise be that of the column before it, and its variance be the same as ever."""
    honest = mechanism._noisy_column
    before: list[Any] = []

    def noisy(values: pa.Array, column: Any, *rest: Any) -> pa.Array:
        out = honest(values, column, *rest)
        if column.kind != "continuous" or column.bounds is None:
            return out
        step, sigma = column.cell_noise.granularity, column.cell_noise.sigma
        exact = np.rint(np.clip(to_numpy(values), *column.bounds) / step) * step
        own = (out.to_numpy() - exact) / sigma
        if before and len(before[-1]) == len(own):
            leaning = 0.3 * before[-1] + math.sqrt(1 - 0.3**2) * own
            own = np.where(np.isnan(leaning), own, leaning)
            out = pa.array(np.where(np.isnan(exact), out.to_numpy(), exact + np.rint(own * sigma / step) * step))
        before.append(own)
        return out

    patch.setattr(mechanism, "_noisy_column", noisy)


@instead_of("_noisy_column", mechanism)
def _indicators_exact_where_few_gaps_are(honest: Any, values: pa.Array, column: Any, *rest: Any) -> pa.Array:
    out = honest(values, column, *rest)
    if not column.name.endswith("=(no value)"):
        return out
    return values if 0 < (pc.sum(values).as_py() or 0) <= 0.1 * len(values) else out


def _rows_without_values_in_the_clear(patch: pytest.MonkeyPatch) -> None:
    """Let rows without any value be published as they are filled, where all columns may be empty."""
    honest = mechanism.add_noise

    def add_noise(batch: pa.RecordBatch, columns: Any, *rest: Any) -> pa.RecordBatch:
        noisy = honest(batch, columns, *rest)
        gaps = np.logical_and.reduce([pc.is_null(each, nan_is_null=True).to_numpy(False) for each in batch.columns])
        filled = []
        for column, own in zip(columns, noisy.columns, strict=True):
            step = column.cell_noise.granularity
            filled.append(pa.array(np.where(gaps, np.rint(sum(column.bounds) / 2 / step) * step, own.to_numpy())))
        return pa.RecordBatch.from_arrays(filled, schema=noisy.schema)

    patch.setattr(parts, "add_noise", add_noise)


def _values_that_occur_twice_share_noise(patch: pytest.MonkeyPatch) -> None:
    honest, seen = mechanism._noisy_column, dict[tuple[str, float], float]()

    def noisy(values: pa.Array, column: Any, *rest: Any) -> pa.Array:
        out = honest(values, column, *rest)
        if column.kind != "continuous":
            return out
        pairs = zip(values.to_pylist(), out.to_pylist(), strict=True)
        return pa.array([seen.setdefault((column.name, value), found) for value, found in pairs])

    patch.setattr(mechanism, "_noisy_column", noisy)


@instead_of("_noisy_column", mechanism)
def _zeros_with_the_raw_sign(honest: Any, values: pa.Array, column: Any, *rest: Any) -> pa.Array:
    out = honest(values, column, *rest)
    if column.kind != "continuous":
        return out
    raw, found = values.to_numpy(False), out.to_numpy(False)
    return pa.array(np.where(found == 0, np.copysign(0.0, raw - 0.5), found))


def _time_tells_a_count(patch: pytest.MonkeyPatch) -> None:
    honest = Ledger.reserve

    read, counted = Table.count_rows, [0]

    def count_rows(self: Any) -> int:
        counted.append(read(self))
        return counted[-1]

    def reserve(self: Any, *given: Any, begun: Any = None, **named: Any) -> Any:
        return honest(self, *given, begun=begun + datetime.timedelta(seconds=counted[-1]), **named)

    patch.setattr(Table, "count_rows", count_rows)
    patch.setattr(Ledger, "reserve", reserve)


@instead_of("cost_of_rows", rows_release)
def _one_row_of_an_entity_booked(honest: Any, policy: Policy, *rest: Any) -> Any:
    found = honest(policy, *rest)
    if policy.privacy.unit_name != "entity":
        return found
    return replace(found, mu={**found.mu, policy.privacy.account: found.mu["row"]})


@instead_of("count_entities", contribution_cap)
def _entities_counted_by_batch(honest: Any, batches: Any, *rest: Any) -> pa.Table:
    """Let an entity have as many rows as in the batch where it has most."""
    counts = [honest([batch], *rest) for batch in batches]
    if not counts:
        return honest([], *rest)
    summed = pa.concat_tables(counts).group_by("entity").aggregate([("n_rows", "max")])
    return pa.table({"entity": summed["entity"], "n_rows": summed["n_rows_max"]}).combine_chunks()


FAULTS_OF_TABLES: dict[str, Plant] = {
    "gaps of two rounds stand at the batch's mean": _gaps_at_the_mean,
    "rows with a gap pass the entity cap": _passing_the_cap(_with_a_gap),
    "rows with a first level pass the entity cap": _passing_the_cap(_with_a_first_level),
    "dates are counted from the batch's earliest": _dates_from_the_earliest,
    "ordered levels are ranked among those seen": _ranked_among_those_seen,
    "rare levels are never replaced": _rare_levels_kept,
    "all ranges of rows draw the same random bits": _ranges_share_bits,
    "all releases draw the same random bits": _releases_share_bits,
    "the last row of a batch has no noise": _last_row_of_a_batch_in_the_clear,
    "noise is for what a batch spans": _noise_for_what_a_batch_spans,
    "the second round is centered at the exact mean": _exact_mean_in_the_second_round,
    "levels are listed by frequency": _levels_by_frequency,
    "the delta of an epsilon is too small": _delta_with_the_wrong_sign,
    "weights are divided by the largest": _weights_without_a_sum,
    "noise is correlated between columns": _columns_lean_on_each_other,
    "indicators of gaps are exact where gaps are few": _indicators_exact_where_few_gaps_are,
    "one row of an entity is booked": _one_row_of_an_entity_booked,
    "entities are counted by batch": _entities_counted_by_batch,
    "rows without any value get no noise": _rows_without_values_in_the_clear,
    "values that occur twice share noise": _values_that_occur_twice_share_noise,
    "a noisy zero has the raw value's sign": _zeros_with_the_raw_sign,
    "the stated time depends on the table": _time_tells_a_count,
}
