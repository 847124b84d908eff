"""Faults in what categories, gaps and second moments become, each of which an audit finds."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pytest

from dp_bundle.manifest.columns import NO_VALUE
from dp_publish.covariance import calibration as moments
from dp_publish.covariance import exact_moments
from dp_publish.covariance.mechanisms import eigenvectors, gaussian, spectral, wishart_difference
from dp_publish.covariance.mechanisms.base import DyadicGrid
from dp_publish.covariance.scaling import Scaling
from dp_publish.policy import coded_columns
from dp_publish.policy import columns as resolving
from dp_publish.release import covariance
from dp_publish.rows import calibration, mechanism, noise
from dp_publish.sampling.keystream import insecure_keystream
from planting import Plant, instead_of

__all__ = ["FAULTS_OF_CELLS"]


def _category_as_one_column(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(calibration, "_moved", lambda *_: 1.0)


def _levels_stay_more_often(patch: pytest.MonkeyPatch) -> None:
    honest = noise.sample_replacements
    patch.setattr(noise, "sample_replacements", lambda n, numerator, *rest: honest(n, int(numerator * 0.9), *rest))


@instead_of("sample_replacements", noise)
def _never_the_last_level(honest: Any, n: int, numerator: int, n_levels: int, keystream: Any) -> Any:
    places, levels = honest(n, numerator, n_levels, keystream)
    return places, levels % (n_levels - 1)


@instead_of("resolve", resolving)
def _levels_of_the_data(honest: Any, table: Any, policy: Any, withheld: Any = ()) -> Any:
    if "town" not in {source.name for source in policy.sources}:
        return honest(table, policy, withheld)
    seen = {town for batch in table.read({"town": "text"}, 10_000) for town in batch.column(0).to_pylist()}
    sources, kept = [], set()
    for source in policy.sources:
        if source.name == "town":
            levels = tuple(each for each in source.levels if (None if each == source.gaps else each) in seen)
            gaps = source.gaps if source.gaps in levels else None
            update = {"levels": levels, "columns": tuple(f"town={each}" for each in levels), "gaps": gaps}
            source = source.model_copy(update=update)
        sources.append(source)
        kept |= {*source.columns}
    columns = {name: entry for name, entry in policy.columns.items() if "town" not in name or name in kept}
    return honest(table, policy.model_copy(update={"sources": tuple(sources), "columns": columns}), withheld)


def _half_of_a_change(patch: pytest.MonkeyPatch) -> None:
    honest = calibration._reach
    patch.setattr(calibration, "_reach", lambda *each: honest(*each) / 2)


def _gaps_alone_in_their_cell(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(calibration, "_sigma_beside", lambda _policy, value, shares: 1 / shares.columns[value.name])


def _filled(module: Any, place: Callable[[Any, Any], Any]) -> Plant:
    """Return the plant of gaps that stand at another place than the middle of the bounds."""

    @instead_of("fill_missing", module)
    def plant(honest: Any, values: Any, column: Any, report: Any) -> Any:
        if column.missing != "indicator":
            return honest(values, column, report)
        found = pc.if_else(pc.is_null(values, nan_is_null=True), None, values)
        return pc.fill_null(found, place(found, column))

    return plant


def _at_the_lower_bound(_found: Any, column: Any) -> float:
    return float(column.bounds[0])


def _at_the_mean(found: Any, _column: Any) -> float:
    return pc.mean(found).as_py() or 0.0


@instead_of("_noisy_column", mechanism)
def _gaps_without_noise(honest: Any, values: Any, column: Any, *rest: Any) -> Any:
    return values if column.name.endswith(NO_VALUE) else honest(values, column, *rest)


def _never_shortened(plant: Plant) -> Plant:
    """Return a plant in rows that are left as long as they are, as if their coding alone kept them in the ball."""

    def both(patch: pytest.MonkeyPatch) -> None:
        plant(patch)
        patch.setattr(Scaling, "clips", property(lambda _: False))

    return both


@instead_of("_limits", coded_columns)
def _levels_from_zero(honest: Any, highest: float, policy: Any, around_zero: bool) -> dict[str, Any]:
    return honest(highest, policy, around_zero and highest > 1)


@instead_of("ball_radius", moments)
def _radius_without_categories(honest: Any, policy: Any, kinds: dict[str, str]) -> float | None:
    rest = [name for name in kinds if not name.startswith("town=")]
    return honest(policy, kinds) if policy.privacy.l2_radius else math.sqrt(len(rest) - 1)


def _sums_of_half_the_sensitivity(patch: pytest.MonkeyPatch) -> None:
    honest = gaussian.frobenius_sensitivity
    patch.setattr(gaussian, "frobenius_sensitivity", lambda *given: honest(*given) / 2)


def _sums_of_unclipped_rows(patch: pytest.MonkeyPatch) -> None:
    def scale(values: np.ndarray, scaling: Scaling) -> tuple[np.ndarray, int]:
        with np.errstate(over="ignore"):
            return np.trunc(((values - scaling.centers) / scaling.half_widths).clip(-8, 8) * 2**20), 0

    patch.setattr(exact_moments, "_scale", scale)


def _sums_off_the_grid(patch: pytest.MonkeyPatch) -> None:
    honest = DyadicGrid.add
    patch.setattr(DyadicGrid, "add", lambda *given: honest(*given) * (1 + 2.0**-40))


def _sums_of_the_same_noise(patch: pytest.MonkeyPatch) -> None:
    honest = gaussian.sample_rounded_gaussian
    patch.setattr(gaussian, "sample_rounded_gaussian", lambda sigma, n, _: honest(sigma, n, insecure_keystream(1)))


def _one_degree_less(patch: pytest.MonkeyPatch) -> None:
    honest = wishart_difference.WishartDifference.degrees
    patch.setattr(wishart_difference.WishartDifference, "degrees", property(lambda self: honest.fget(self) - 1))


def _four_times_the_preference(patch: pytest.MonkeyPatch) -> None:
    honest = eigenvectors.Eigenvectors.exponent
    patch.setattr(eigenvectors.Eigenvectors, "exponent", property(lambda self: 4 * honest.fget(self)))


def _exact_eigenvalues(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(spectral, "sample_discrete_laplace", lambda _scale, size, _rng, **_: np.zeros(size))


FAULTS_OF_CELLS: dict[str, Plant] = {
    "a category counts as one column": _category_as_one_column,
    "levels stay more often than stated": _levels_stay_more_often,
    "the last level replaces no other": _never_the_last_level,
    "levels that do not occur are left out": _levels_of_the_data,
    "noise is for half of a change": _half_of_a_change,
    "a gap's indicator counts as a cell alone": _gaps_alone_in_their_cell,
    "gaps of rows stand at the lower bound": _filled(mechanism, _at_the_lower_bound),
    "gaps are published without noise": _gaps_without_noise,
    "levels are as long as their columns": _never_shortened(_levels_from_zero),
    "the radius leaves categories out": _never_shortened(_radius_without_categories),
    "gaps are as long as their columns": _never_shortened(_filled(covariance, _at_the_lower_bound)),
    "gaps of sums stand at the lower bound": _filled(covariance, _at_the_lower_bound),
    "gaps of sums stand at the others' mean": _filled(covariance, _at_the_mean),
    "sums have half their sensitivity": _sums_of_half_the_sensitivity,
    "rows of sums are not clipped": _sums_of_unclipped_rows,
    "sums are off their grid": _sums_off_the_grid,
    "all entries draw the same random bits": _sums_of_the_same_noise,
    "a difference of Wisharts lacks a degree of freedom": _one_degree_less,
    "vectors are drawn with four times their exponent": _four_times_the_preference,
    "eigenvalues have no noise": _exact_eigenvalues,
}
