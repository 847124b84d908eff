"""A forecast of what a researcher could still see at each strength of the noise, before anything is spent.

The forecast knows the number of rows, the declared bounds and the policy, and no value. Three assumptions stand in for
the values, and whoever shows a forecast shows them:

* a column's standard deviation is a share of its width: the policy's `spread`, or else one for all (`assumptions`);
* columns are related in pairs: p/2 edges, one in p - 1 of all p(p-1)/2 possible ones, of equal partial correlation rho
  (a denser graph, or unequal edges, needs more);
* means lie off the middle of the bounds, by the root of half the largest square that the spread allows.

From which error which partial correlation is seen is in `power`.

**Release of second moments.** The mechanism is the policy's own, or else two rounds at the same mu, as for `auto`
(Gaussian noise for one column, or too many). It knows the noise on n times a correlation for an assumed spread
(`Mechanism.correlation_noise`), tau n / sqrt(2) in `power`. A cell is protected as its row is. Mechanisms whose noise
has no variance of its own are forecast as laplace.

**Bounds that the policy leaves out.** A release of rows finds them privately, so many deviations to either side of the
center (`rows.private_bounds`): the forecast has that search paid, and the spread that such bounds leave.
Second moments are forecast for bounds yet to be declared.
"""

from __future__ import annotations

import functools
import math
import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from dp_bundle.base.errors import ParameterError, PolicyError, PrivacyError
from dp_bundle.manifest.columns import Column
from dp_bundle.privacy.neighbours import Neighbours
from dp_publish.accounting.strength import GaussianDP
from dp_publish.covariance.calibration import set_mechanism
from dp_publish.covariance.mechanisms.base import Mechanism
from dp_publish.covariance.mechanisms.gaussian import Gaussian
from dp_publish.covariance.mechanisms.two_round import TwoRound
from dp_publish.covariance.scaling import MAX_FEATURES, scaling_for
from dp_publish.covariance.two_rounds.places import Place
from dp_publish.forecast.assumptions import assumed_spreads, calibrate_assumed, check_spread, fill_bounds
from dp_publish.forecast.guarantees import epsilon_of_moments, epsilon_of_rows
from dp_publish.forecast.power import drowns, moments_error, rows_needed, smallest_seen
from dp_publish.policy.choices import DEFAULT_SPREAD
from dp_publish.policy.coded_columns import blocks_of, gap_columns
from dp_publish.policy.model import Policy, Privacy
from dp_publish.rows.private_bounds import half_width_for

GRID = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0)  # of mu
TARGETS = (0.1, 0.3)  # partial correlations that a number of rows is given for
DELTA = 1e-6
_NO_MOMENTS: dict[str, Any] = {  # of a unit that second moments are not released for
    "error_in_moments": math.nan,
    "seen_in_moments": None,
    "clearest_in_moments": None,
    "drowned_in_moments": None,
    "rows_needed_for_moments": {},
    "least_rows_for_moments": 0,
}


@dataclass(frozen=True)
class ForecastRow:
    """The forecast of one strength of the noise.

    Attributes
    ----------
    mu, epsilon, delta : float
        The guarantee for one unit of privacy, as mu and as (epsilon, delta).
    sigma : dict of str to float
        Each column's noise in a release of rows, as a standard deviation in data units; without those whose bounds, and
        so their units, are not known yet.
    sigma_over_width : float
        The same relative to the width of the bounds; the median over columns.
    noise_to_signal : float
        Variance of the noise over the assumed variance of the signal; the median over columns.
    error_in_rows, error_in_moments : float
        The standard error of a correlation near zero, from a release of rows and from one of second moments only.
    seen_in_rows, seen_in_moments : float or None
        The smallest partial correlation that is detected, between two median columns, from a release of rows and from
        one of second moments only; None if there is none below 1.
    clearest_in_rows, clearest_in_moments : float or None
        The same between the two columns that stand out most from their noise.
    drowned_in_rows, drowned_in_moments : int or None
        The number of columns whose variance is lost in the noise; None where there is no such release.
    rows_needed, rows_needed_for_moments : dict of float to int
        How many rows it takes to detect a partial correlation of that size.
    least_rows_for_moments : int
        How many rows it takes until second moments show anything of two median columns, or of the only one; 0 if there
        is no formula, or no such release.

    The repr leaves out what is computed from the table's number of rows, which may be protected.
    """

    mu: float
    epsilon: float
    delta: float
    sigma: Mapping[str, float]
    sigma_over_width: float
    noise_to_signal: float
    error_in_rows: float = field(repr=False)
    error_in_moments: float = field(repr=False)
    seen_in_rows: float | None = field(repr=False)
    seen_in_moments: float | None = field(repr=False)
    clearest_in_rows: float | None = field(repr=False)
    clearest_in_moments: float | None = field(repr=False)
    drowned_in_rows: int | None = field(repr=False)
    drowned_in_moments: int | None = field(repr=False)
    rows_needed: Mapping[float, int] = field(repr=False)
    rows_needed_for_moments: Mapping[float, int] = field(repr=False)
    least_rows_for_moments: int = field(repr=False)

    @property
    def moments_possible(self) -> bool:
        """False where second moments are no release for the unit, a change of a cell; then nothing is known of them."""
        return not math.isnan(self.error_in_moments)

    @property
    def rows_possible(self) -> bool:
        """False where rows do not take a strength that second moments do; then nothing is known of rows."""
        return not math.isnan(self.error_in_rows)


def forecast(
    n_rows: int,
    policy: Policy,
    kinds: Mapping[str, str],
    strengths: Sequence[Privacy],
    *,
    spread: float = DEFAULT_SPREAD,
    with_epsilon: bool = True,
) -> list[ForecastRow]:
    """Return what each strength would leave visible; no value is read and nothing is spent.

    Parameters
    ----------
    n_rows : int
        Number of rows, at least 1.
    policy : Policy
        Bounds and spreads; its own strength is not used.
    kinds : mapping of str to str
        The published columns and their kinds, "continuous" or "integer", as `choose_columns` gives them.
    strengths : sequence of Privacy
        Unit and strength, one for each row of the forecast; not by snr_db, which needs the values.
    spread : float
        Assumed standard deviation of a column as a share of its width, from 1e-6 to 0.5, where the policy gives none.
    with_epsilon : bool
        Whether to compute epsilon, which takes a while for discrete noise; nan if not.

    Raises
    ------
    ParameterError
        `n_rows` or `spread` is out of range.
    PolicyError, PrivacyError
        No release of these columns is possible at one of these strengths.
    """
    if n_rows < 1:
        raise ParameterError("n_rows", "at least 1", n_rows)
    check_spread(spread)
    return [_forecast_one(n_rows, policy, kinds, strength, spread, with_epsilon) for strength in strengths]


def _forecast_one(
    n_rows: int, policy: Policy, kinds: Mapping[str, str], strength: Privacy, spread: float, with_epsilon: bool
) -> ForecastRow:
    if strength.snr_db is not None:
        raise PrivacyError("a forecast reads no value, and noise by snr_db needs them: give another strength")
    mechanism = _mechanism_of(n_rows, fill_bounds(policy, kinds), kinds, strength)
    if mechanism is None:
        columns, mu = calibrate_assumed(policy.model_copy(update={"privacy": strength}), kinds)
        mechanism = stand_in(len(columns), strength.max_rows, mu)
        epsilon = epsilon_of_rows(strength, kinds, columns, mu, DELTA) if with_epsilon else math.nan
    else:
        mu = mechanism.spends(mechanism.max_rows).mu
        columns = _rows_instead(policy, kinds, Privacy(unit=strength.unit, mu=mu))
        epsilon = epsilon_of_moments(mechanism, DELTA) if with_epsilon else math.nan

    p, spreads = len(kinds), assumed_spreads(policy, kinds, spread)
    widths = {column.name: _width(column, p) for column in columns}
    in_rows = {**spreads, **found_spreads(n_rows, policy, columns)}
    deviations = {name: in_rows[name] * width for name, width in widths.items()}
    ratios = sorted(column.noise_variance / deviations[column.name] ** 2 for column in columns) or [math.nan]
    row_error = _row_error(statistics.median(ratios))
    least_row_error = _row_error(math.sqrt((1 + ratios[0]) * (1 + ratios[min(1, len(ratios) - 1)])) - 1)

    squares = sorted((spreads[name] ** 2 for name in kinds), reverse=True)
    moment_error = _moment_error(mechanism, math.sqrt(statistics.median(squares)))
    least_moment_error = _moment_error(mechanism, (squares[0] * squares[min(1, len(squares) - 1)]) ** 0.25)

    found = {column.name for column in columns if column.bounds_found}  # in no unit yet
    noise_over_width = [column.noise_spread / widths[column.name] for column in columns]
    row = ForecastRow(
        mu=mu,
        epsilon=epsilon,
        delta=DELTA,
        sigma={column.name: column.noise_sigma for column in columns if column.name not in found},
        sigma_over_width=statistics.median(noise_over_width or [math.nan]),
        noise_to_signal=statistics.median(ratios),
        error_in_rows=row_error(n_rows),
        error_in_moments=moment_error(n_rows),
        seen_in_rows=smallest_seen(n_rows, p, row_error(n_rows)),
        seen_in_moments=smallest_seen(n_rows, p, moment_error(n_rows)),
        clearest_in_rows=smallest_seen(n_rows, p, least_row_error(n_rows)),
        clearest_in_moments=smallest_seen(n_rows, p, least_moment_error(n_rows)),
        drowned_in_rows=sum(drowns(_row_error(ratio)(n_rows)) for ratio in ratios) if columns else None,
        drowned_in_moments=sum(
            number for own, number in Counter(spreads.values()).items() if drowns(_moment_error(mechanism, own)(n_rows))
        ),
        rows_needed=_needed(p, row_error) if columns else {},
        rows_needed_for_moments=_needed(p, moment_error),
        least_rows_for_moments=rows_needed(p, moment_error),
    )
    return replace(row, **_NO_MOMENTS) if strength.unit == "change" else row


def found_spreads(n_rows: int, policy: Policy, columns: Sequence[Column]) -> dict[str, float]:
    """Return the spreads of columns whose bounds would be found, so many deviations to either side of the center."""
    return {
        column.name: 0.5 / half_width_for(n_rows, column.cell_mu)
        for column in columns
        if column.bounds_found and policy.column(column.name).spread is None
    }


def _row_error(ratio: float) -> Callable[[int], float]:
    """Return the standard error of a correlation from noisy rows, by their number."""
    return lambda n_rows: (1 + ratio) / math.sqrt(n_rows)


def _moment_error(mechanism: Mechanism, spread: float) -> Callable[[int], float]:
    """Return the same from second moments."""

    @functools.cache  # numbers of rows for several targets are looked for among the same powers of two
    def error(n_rows: int) -> float:
        return moments_error(n_rows, mechanism.correlation_noise(n_rows, spread))

    return error


def _needed(n_columns: int, error: Callable[[int], float]) -> dict[float, int]:
    """Return how many rows each target takes; none for a single column, which has no edge."""
    return {rho: rows_needed(n_columns, error, rho) for rho in TARGETS if n_columns > 1}


def _mechanism_of(n_rows: int, policy: Policy, kinds: Mapping[str, str], strength: Privacy) -> Mechanism | None:
    """Return the mechanism of a covariance release, or the one that stands for it; None for a release of rows."""
    if strength.release != "covariance":
        return None
    mechanism = set_mechanism(policy.model_copy(update={"privacy": strength}), kinds, lambda: n_rows)
    return mechanism.for_forecast()


def stand_in(n_features: int, max_rows: int, mu: float) -> Mechanism:
    """Return the mechanism that second moments would be released by, in place of rows."""
    limits = [(-1.0, 1.0)] * min(n_features, MAX_FEATURES)  # no more columns than a release can have
    setting = (scaling_for(limits), Neighbours.REPLACE_ONE, GaussianDP(mu), max_rows)
    if TwoRound.takes(n_features):
        return TwoRound(*setting, places=tuple(Place(*each) for each in limits))
    return Gaussian(*setting)


def _rows_instead(policy: Policy, kinds: Mapping[str, str], strength: Privacy) -> tuple[Column, ...]:
    """Return the columns as a release of rows would have them; none where rows do not take a strength like that."""
    of_gaps = gap_columns(policy.sources)
    levels = {
        name: len(source.levels)
        for source in policy.sources
        if source.levels and not source.has_gap_column
        for name in source.columns
    }
    indicators = {*blocks_of(policy.sources)}
    highest = {name: 1.0 if name in indicators else n_levels - 1.0 for name, n_levels in levels.items()}
    sections = {
        name: policy.column(name).model_copy(update={"bounds": (0.0, high)})
        for name, high in {**highest, **dict.fromkeys(of_gaps, 1.0)}.items()
    }
    of_rows = policy.model_copy(update={"privacy": strength, "columns": {**policy.columns, **sections}})
    whole = {name: "integer" if name in levels else kind for name, kind in kinds.items()}
    try:
        return calibrate_assumed(of_rows, whole)[0]
    except (ParameterError, PolicyError, PrivacyError):
        return ()


def _width(column: Column, n_features: int) -> float:
    """Return the width of a column's bounds, or of its side of the box that fits into the ball of clipped rows."""
    if column.ball is not None:
        return 2 * column.ball.radius * column.ball.scale / math.sqrt(n_features)
    if column.bounds is None:
        raise PrivacyError(f"column {column.name!r} has no bounds, so nothing can be forecast for it: declare them")
    return column.bounds[1] - column.bounds[0]
