"""Faults, each planted in the product: a pytest plugin (`-p faults --plant NAME`), and a table for tests."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from dp_bundle.data.rows import to_numpy
from dp_bundle.manifest.columns import Column
from dp_bundle.manifest.noise import Neighbours
from dp_publish.covariance import calibration as moments_calibration
from dp_publish.covariance.mechanisms import base, eigenvectors, gaussian, wishart, wishart_difference
from dp_publish.release import contribution_cap, parts
from dp_publish.release import covariance as covariance_release
from dp_publish.release import preparing as rows_release
from dp_publish.rows import calibration, noise, private_bounds
from dp_publish.rows import mechanism as rows
from dp_publish.sampling import places
from dp_publish.sampling.exponential import ExponentialMechanism
from dp_publish.sampling.keystream import Keystream, SecureKeystream, insecure_keystream
from faults_of_cells import FAULTS_OF_CELLS
from faults_of_margins import FAULTS_OF_MARGINS
from faults_of_tables import FAULTS_OF_TABLES
from faults_of_two_rounds import FAULTS_OF_TWO_ROUNDS
from planting import Plant, instead_of

__all__ = ["FAULTS"]

AddNoise = Callable[..., pa.RecordBatch]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let a run of the suite have a fault in it."""
    parser.addoption("--plant", choices=sorted(FAULTS), help="plant this fault in the product")


def pytest_configure(config: pytest.Config) -> None:
    """Plant it before a test is imported."""
    FAULTS[config.getoption("plant")](pytest.MonkeyPatch())


def _plant_add_noise(patch: pytest.MonkeyPatch, other: AddNoise) -> None:
    patch.setattr(rows, "add_noise", other)
    patch.setattr(parts, "add_noise", other)


def _zeros(_sigma: float, size: Any, _rng: Keystream | None = None) -> np.ndarray:
    return np.zeros(size, dtype=np.int64)


@instead_of("_search_bounds", rows_release)
def _search_ignores_the_cap(honest: Any, passes: Any, *rest: Any) -> Any:
    if passes.cap is not None:
        table, *others = passes.read.args
        passes = replace(passes, read=partial(passes.read.func, replace(table, keep=None), *others), ranges=None)
    return honest(passes, *rest)


def _typical_error_from_raw_moments(patch: pytest.MonkeyPatch) -> None:
    honest_sum, honest_estimate = base.sum_moments, covariance_release.estimate_errors
    raw: list[np.ndarray] = []

    def add_up(*given: Any) -> Any:
        sums = honest_sum(*given)
        raw.append(sums.matrix)
        return sums

    def estimate(noisy: Any, draw: Any) -> Any:
        return honest_estimate(noisy if noisy.unshrunk is None else replace(noisy, unshrunk=raw[-1]), draw)

    patch.setattr(base, "sum_moments", add_up)
    patch.setattr(covariance_release, "estimate_errors", estimate)


@instead_of("fill_missing", rows, covariance_release)
def _missing_filled_with_the_batch_mean(honest: Any, values: pa.Array, column: Column, report: Any) -> pa.Array:
    missing = pc.is_null(values, nan_is_null=True)
    if column.missing != "midpoint" or not pc.any(missing).as_py():
        return honest(values, column, report)
    low, high = column.bounds
    known = values.filter(pc.invert(missing)).to_numpy(zero_copy_only=False)
    mean = float(known.clip(low, high).mean()) if len(known) else 0.0
    return pc.if_else(missing, pa.scalar(round(mean) if column.kind == "integer" else mean, values.type), values)


@instead_of("share_mu", calibration, rows_release)
def _cap_ignored_in_calibration(honest: Any, policy: Any, kinds: Any) -> Any:
    privacy = policy.privacy
    if privacy.unit_name == "entity":
        unit = privacy.unit.model_copy(update={"max_rows": 1})
        policy = policy.model_copy(update={"privacy": privacy.model_copy(update={"unit": unit})})
    return honest(policy, kinds)


@instead_of("find_kept", contribution_cap)
def _cap_restarted_each_batch(honest: Any, batches: Any, *quota: Any) -> bytes:
    keep = [np.unpackbits(np.frombuffer(honest([batch], *quota), np.uint8))[: batch.num_rows] for batch in batches]
    return np.packbits(np.concatenate(keep)).tobytes()


def _keystream_restarted_each_batch(patch: pytest.MonkeyPatch) -> None:
    honest, seeds = rows.add_noise, {}

    def add_noise(batch: pa.RecordBatch, columns: Any, keystream: Any, report: Any) -> pa.RecordBatch:
        seed = np.zeros(1, dtype=np.uint32)
        if keystream not in seeds:
            keystream.fill(seed)
        return honest(batch, columns, insecure_keystream(seeds.setdefault(keystream, int(seed[0]))), report)

    _plant_add_noise(patch, add_noise)


def _only_the_first_batch_gets_noise(patch: pytest.MonkeyPatch) -> None:
    honest, seen = rows.add_noise, set()

    def add_noise(batch: pa.RecordBatch, columns: Any, keystream: Any, report: Any) -> pa.RecordBatch:
        with pytest.MonkeyPatch.context() as inner:
            if keystream in seen:
                inner.setattr(noise, "sample_rounded_gaussian", _zeros)
                inner.setattr(noise, "sample_discrete_gaussian", _zeros)
            seen.add(keystream)
            return honest(batch, columns, keystream, report)

    _plant_add_noise(patch, add_noise)


def _search_without_noise(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ExponentialMechanism, "choose", lambda _, scores, _rng: int(np.argmin(scores)))


def _score_doubled(owner: object, name: str) -> Plant:
    def plant(patch: pytest.MonkeyPatch) -> None:
        honest = getattr(owner, name)
        patch.setattr(owner, name, lambda *counts: 2 * honest(*counts))

    return plant


@instead_of("weights", ExponentialMechanism)
def _epsilon_a_tenth_larger(honest: Any, self: ExponentialMechanism, n_scores: int) -> tuple[int, ...]:
    return honest(ExponentialMechanism(1.1 * self.mu), n_scores)


@instead_of("add_to_cells", places, private_bounds)
def _value_counted_twice(honest: Any, counts: np.ndarray, values: np.ndarray, grid: Any) -> None:
    honest(counts, np.concatenate([values, values]), grid)


def _search_not_booked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(calibration, "_search_mu", lambda *_: 0.0)


def _wishart_degrees_of_the_wrong_neighbours(patch: pytest.MonkeyPatch) -> None:
    honest_degrees, honest_delta = wishart.degrees_tight, wishart.delta_of_wishart
    patch.setattr(
        wishart, "degrees_tight", lambda d, epsilon, delta, _: honest_degrees(d, epsilon, delta, Neighbours.ADD_REMOVE)
    )
    patch.setattr(wishart, "delta_of_wishart", lambda nu, epsilon, _: honest_delta(nu, epsilon, Neighbours.ADD_REMOVE))


@instead_of("add_and_round", wishart_difference)
def _wishart_difference_of_half_the_scale(
    honest: Any, steps: Any, noise: Any, places: int, scale: float, grid: Any
) -> np.ndarray:
    return honest(steps, noise, places, scale / 2, grid)


@instead_of("_sample_basis", eigenvectors)
def _every_eigenvector_gets_half_of_epsilon(honest: Any, first: Any, kappas: np.ndarray, *rest: Any) -> np.ndarray:
    if len(kappas) > 2:
        kappas = np.where(kappas > 0, kappas.sum(), 0.0)
    return honest(first, kappas, *rest)


@instead_of("choose_for_policy", moments_calibration)
def _auto_looks_at_the_number_of_rows(honest: Any, privacy: Any, *rest: Any) -> Any:
    return honest(privacy.model_copy(update={"neighbours": Neighbours.REPLACE_ONE}), *rest)


@instead_of("make", covariance_release.CovarianceMaker)
def _exact_number_of_rows(honest: Any, self: Any, *rest: Any) -> Any:
    contents, parts = honest(self, *rest)
    return replace(contents, n_rows=max(1, contents.report.n_rows)), parts


@instead_of("_noisy_column", rows)
def _unsnapped_values(honest: Any, values: pa.Array, column: Column, *rest: Any) -> pa.Array:
    out = honest(values, column, *rest)
    if column.kind == "integer" or column.bounds is None or values.null_count:
        return out
    raw, step = np.clip(to_numpy(values), *column.bounds), column.cell_noise.granularity
    return pa.array(out.to_numpy() + np.nan_to_num(raw - np.rint(raw / step) * step))


@instead_of("_noisy_column", rows)
def _shared_noise(honest: Any, values: pa.Array, column: Column, keystream: Any, report: Any) -> pa.Array:
    return honest(values, column, insecure_keystream(len(values)), report)


def _time_seeded_key(patch: pytest.MonkeyPatch) -> None:
    def key_and_counter(_: SecureKeystream) -> tuple[bytes, bytes]:
        return time.time_ns().to_bytes(32, "big"), bytes(16)

    patch.setattr(SecureKeystream, "_key_and_counter", key_and_counter)


@instead_of("sample_rounded_gaussian", gaussian)
def _off_diagonal_noise_halved(honest: Any, steps: float, size: Any, rng: Any = None) -> np.ndarray:
    return honest(0.5 * steps if isinstance(size, tuple) else steps, size, rng)


@instead_of("add_noise", rows, parts)
def _last_column_unclipped(honest: Any, batch: pa.RecordBatch, columns: Sequence[Column], *rest: Any) -> pa.RecordBatch:
    if columns[-1].bounds is None or columns[-1].missing != "refuse":
        return honest(batch, columns, *rest)
    free = columns[-1].model_copy(update={"bounds": None, "bounds_obtained": "none"})
    return honest(batch, [*columns[:-1], free], *rest)


@instead_of("add_noise", rows, parts)
def _clipped_rows_dropped(honest: Any, batch: pa.RecordBatch, columns: Sequence[Column], *rest: Any) -> pa.RecordBatch:
    keep = np.ones(batch.num_rows, dtype=bool)
    for index, column in enumerate(columns):
        if column.bounds is not None:
            values = batch.column(index).to_numpy(zero_copy_only=False)
            keep &= ~((values < column.bounds[0]) | (values > column.bounds[1]))
    return honest(batch.filter(pa.array(keep)), columns, *rest)


FAULTS: dict[str, Plant] = {
    "the bounds search ignores the entity cap": _search_ignores_the_cap,
    "the typical error is computed from raw moments": _typical_error_from_raw_moments,
    "missing values are filled with the batch's mean": _missing_filled_with_the_batch_mean,
    "the cap is ignored in calibration": _cap_ignored_in_calibration,
    "the cap is restarted in each batch": _cap_restarted_each_batch,
    "the keystream is restarted in each batch": _keystream_restarted_each_batch,
    "only the first batch gets noise": _only_the_first_batch_gets_noise,
    "the bounds search is without noise": _search_without_noise,
    "the cost of the bounds search is not booked": _search_not_booked,
    "a value moves the score of a center by two": _score_doubled(places, "center_scores"),
    "a value moves the score of a scale by two": _score_doubled(places.ScaleSearch, "scores"),
    "the search's epsilon is a tenth larger than stated": _epsilon_a_tenth_larger,
    "the search counts every value twice": _value_counted_twice,
    "Wishart degrees are those of the wrong neighbours": _wishart_degrees_of_the_wrong_neighbours,
    "a difference of Wisharts has half its scale": _wishart_difference_of_half_the_scale,
    "every eigenvector gets epsilon/2 at d > 2": _every_eigenvector_gets_half_of_epsilon,
    "auto looks at n under add-remove": _auto_looks_at_the_number_of_rows,
    "the number of rows is exact under add-remove": _exact_number_of_rows,
    "values are not snapped to the grid": _unsnapped_values,
    "columns share their noise": _shared_noise,
    "the key is seeded with the time": _time_seeded_key,
    "off-diagonal noise is halved": _off_diagonal_noise_halved,
    "the last column is not clipped": _last_column_unclipped,
    "clipped rows are dropped": _clipped_rows_dropped,
    **FAULTS_OF_CELLS,
    **FAULTS_OF_TWO_ROUNDS,
    **FAULTS_OF_TABLES,
    **FAULTS_OF_MARGINS,
}
