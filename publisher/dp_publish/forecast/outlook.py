"""A forecast of what a researcher could still see at each strength of the noise, before anything is spent.

The forecast knows the number of rows, the declared bounds and the policy, and no value. Three assumptions stand in for
the values, and whoever shows a forecast shows them:

* a column's standard deviation is a share of its width: the policy's `spread`, or else one for all (`assumptions`);
* columns are related in pairs: p/2 edges, one in p - 1 of all p(p-1)/2 possible ones, of equal partial correlation rho.
  A denser graph, or unequal edges, needs more;
* means lie off the middle of the bounds, by the root of half the largest square that the spread allows.

**Release of second moments.** The mechanism is the policy's own, or else two rounds at the same mu, as for `auto`
(Gaussian noise for one column, or too many). It knows the noise on n times a correlation for an assumed spread
(`Mechanism.correlation_noise`), tau n / sqrt(2) below. A cell is protected as its row is. A mechanism whose noise has
no variance of its own is forecast as laplace. Its noise is scaled down if the expected error of the other, which is a
bound, is smaller (`Mechanism.expected_error`).

**Bounds that the policy leaves out.** A release of rows finds them privately, so many deviations to either side of the
center (`rows.private_bounds`). The forecast has that search paid, and the spread that such bounds leave. So has that of
two rounds, which look for centers and scales over all numbers; others are forecast for bounds yet to be declared. What
it costs to find out what columns are, where nothing is declared, is paid, too.

**What is tested.** The desparsified estimate ``T = 2 Theta - Theta S Theta`` of Jankova & van de Geer (2015), with S
the debiased covariance and Theta the graphical lasso's answer at the universal penalty ``sqrt(2 log p)`` standard
errors, and the Benjamini-Hochberg rule at 5 %. In units of the signal's standard deviation Theta is close to I there,
since the penalty holds back whatever is not far above the error. So T_ij = -S_ij and A = Theta S~ Theta = S~, S~ being
the noisy covariance. With a noise-to-signal variance ratio r, ``a_ii = 1 + r`` and ``a_ij = rho``; the asymptotic
variance ``(a_ii a_jj + a_ij^2) / n`` becomes

    rows:            ((1 + r)^2 + rho^2) / n
    second moments:  (1 + rho^2) / n + tau^2 / 2         tau: the noise on a variance; tau / sqrt 2: on a covariance

and a pair is seen with 80 % power when rho is (z_t + z_0.8) such standard errors. Writing u for the variance at
rho = 0 and z for z_t + z_0.8, ``rho = z sqrt(u / (1 - z^2 / n))``.

**The threshold.** Take m tests, m_1 = p/2 true edges and power b = 0.8. Benjamini-Hochberg at level q settles at the t
that solves ``t = q R / m`` for R = m_1 b + (m - m_1) t rejections: ``t = q b m_1 / (m - q (m - m_1))``, two-sided.

**Drowned columns.** A debiased variance has the standard error sqrt(2 u). It must be at most a fifth of the variance
itself. Else columns can no longer be told from their noise, and the forecast says "nothing" whatever rho is.

References
----------
Benjamini & Hochberg (1995), JRSS B 57(1). Genovese & Wasserman (2002), JRSS B 64(3), for where its threshold settles.
Jankova & van de Geer (2015), Confidence intervals for high-dimensional inverse covariance estimation, EJS 9.
"""

import functools
import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from scipy import special

from dp_bundle.base.errors import DataError, ParameterError, PolicyError, PrivacyError
from dp_bundle.manifest.columns import Column
from dp_bundle.manifest.noise import Neighbours
from dp_publish.accounting.strength import GaussianDP
from dp_publish.covariance.mechanisms.base import Mechanism
from dp_publish.covariance.mechanisms.gaussian import Gaussian
from dp_publish.covariance.mechanisms.two_round import TwoRound
from dp_publish.covariance.scaling import MAX_FEATURES, scaling_for
from dp_publish.covariance.two_rounds.places import Place
from dp_publish.data.kinds import Kinds
from dp_publish.forecast.assumptions import assumed_spreads, calibrate_assumed, with_entries
from dp_publish.forecast.planned import PlannedMoments, PlannedRelease, moments_error, plan_release, rows_error
from dp_publish.policy.choices import DEFAULT_SPREAD
from dp_publish.policy.coded_columns import blocks_of, gap_columns
from dp_publish.policy.columns import Prepared
from dp_publish.policy.model import Policy, Privacy, Sought
from dp_publish.policy.open_columns import share_mu as share_discovery
from dp_publish.rows.private_bounds import half_width_for

GRID = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0)  # of mu
TARGETS = (0.1, 0.3)  # partial correlations that a number of rows is given for
POWER = 0.8
FDR = 0.05
_DROWNED = 2.0  # standard errors of zero within which a reader takes a debiased variance for none
_CLEAR = 5.0  # standard errors that a debiased variance must stand clear of zero
_LARGEST = 0.8  # partial correlation that is looked for: what shows none so large shows nothing


@dataclass(frozen=True)
class Sight:
    """What rows, or second moments, would show; nothing is known of what is no release.

    Attributes
    ----------
    error : float
        The standard error of a correlation near zero.
    seen : float or None
        The smallest partial correlation that is detected, between two median columns; None if there is none up to 0.8.
    clearest : float or None
        The same between the two columns that stand out most from their noise.
    drowned : int or None
        The number of columns whose variance is lost in the noise.
    needed : dict of float to int
        How many rows it takes to detect a partial correlation of that size.
    """

    error: float = math.nan
    seen: float | None = None
    clearest: float | None = None
    drowned: int | None = None
    needed: Mapping[float, int] = field(default_factory=dict)

    @property
    def is_possible(self) -> bool:
        """False where there is no such release for the unit, or at the strength."""
        return not math.isnan(self.error)


@dataclass(frozen=True)
class Outlook:
    """The outlook of researchers on one release: what they would see, with its error.

    Attributes
    ----------
    planned : PlannedRelease
        The release.
    n_rows : int
        The number of rows.
    sigma : dict of str to float
        Each column's noise in a release of rows, as a standard deviation in data units. Those whose bounds, and so
        their units, are not known yet are left out.
    sigma_over_width : float
        The same relative to the width of the bounds; the median over columns.
    noise_to_signal : float
        Variance of the noise over the assumed variance of the signal; the median over columns.
    rows, moments : Sight
        What a release of rows would show, and one of second moments only.
    least_rows_for_moments : int
        How many rows it takes until second moments show anything of two median columns, or of the only one. It is 0 if
        there is no formula, or no such release.

    The repr leaves out what is computed from the table's number of rows, which may be protected.
    """

    planned: PlannedRelease = field(repr=False)
    n_rows: int = field(repr=False)
    sigma: Mapping[str, float]
    sigma_over_width: float
    noise_to_signal: float
    rows: Sight = field(repr=False)
    moments: Sight = field(repr=False)
    least_rows_for_moments: int = field(repr=False)

    @property
    def mu(self) -> float:
        """The mu of one unit of privacy."""
        return self.planned.mu

    def of(self, release: str) -> Sight:
        """Return what that release would show."""
        return self.rows if release == "rows" else self.moments

    def under(self, policy: Policy, kinds: Kinds | None = None) -> "Outlook":
        """Return what these rows would leave visible under another policy, or of other columns; see `forecast`."""
        return forecast(policy, kinds or self.planned.kinds, self.n_rows, with_rows=not policy.privacy.is_moments)

    @property
    def shown(self) -> Sight:
        """What the release itself would show."""
        return self.of(self.planned.release)

    @property
    def n_columns(self) -> int:
        """How many columns would be published."""
        return len(self.planned.kinds)

    @property
    def shows_something(self) -> bool:
        """Whether anything of the columns can be seen: of a single one, its variance."""
        return is_clear(self.shown.error) if self.n_columns == 1 else self.shown.clearest is not None

    @property
    def is_hopeless(self) -> bool:
        """Whether the rows are too few to show how columns are related, even without noise."""
        return self.n_columns > 1 and smallest_seen(self.n_rows, self.n_columns, self.n_rows**-0.5) is None


def forecast(
    policy: Policy,
    kinds: Kinds,
    n_rows: int,
    *,
    spread: float = DEFAULT_SPREAD,
    with_rows: bool = True,
) -> Outlook:
    """Return what a release by a policy would leave visible; no value is read and nothing is spent.

    Parameters
    ----------
    policy : Policy
        Strength, bounds and spreads; resolved.
    kinds : mapping of str to str
        The published columns and their kinds, "continuous" or "integer", as `choose_columns` gives them.
    n_rows : int
        Number of rows, at least 1.
    spread : float
        Assumed standard deviation of a column as a share of its width, from 1e-6 to 0.5, where the policy gives none.
    with_rows : bool
        Whether to forecast, beside a release of second moments, one of rows.

    Raises
    ------
    ParameterError
        `n_rows` or `spread` is out of range.
    PolicyError, PrivacyError
        No release of these columns is possible.
    """
    if n_rows < 1:
        raise ParameterError("n_rows", "at least 1", n_rows)
    if not 1e-6 <= spread <= 0.5:
        raise ParameterError("spread", "from 1e-06 to 0.5, as no standard deviation exceeds half the width", spread)
    planned = plan_release(policy, kinds, lambda: n_rows)
    columns, mechanism = _both_ways(planned, with_rows=with_rows)
    spreads = assumed_spreads(policy, kinds, spread)
    rows, typical_ratio = _sight_of_rows(planned, columns, spreads, n_rows)
    moments, least_rows = Sight(), 0
    if mechanism is not None:
        moments, least_rows = _sight_of_moments(policy, mechanism, [*spreads.values()], n_rows)
    return Outlook(
        planned=planned,
        n_rows=n_rows,
        sigma={column.name: column.noise_sigma for column in columns if not column.bounds_found},  # or in no unit yet
        sigma_over_width=statistics.median([each.noise_spread / each.width for each in columns] or [math.nan]),
        noise_to_signal=typical_ratio,
        rows=rows,
        moments=moments,
        least_rows_for_moments=least_rows,
    )


def forecast_table(prepared: Prepared) -> Outlook:
    """Return the forecast of a table's release."""
    return forecast(prepared.policy, prepared.counted, count_rows(prepared))


def count_rows(prepared: Prepared) -> int:
    """Return the number of rows for a forecast; where it is protected, none counts as one."""
    try:
        return prepared.count_rows()
    except DataError:
        if prepared.policy.privacy.neighbours.n_rows_public:
            raise
        return 1


def _both_ways(planned: PlannedRelease, *, with_rows: bool) -> tuple[tuple[Column, ...], Mechanism | None]:
    """Return the columns of a release of rows, and the mechanism of one of second moments: the planned, and another.

    There are none where there is no other for the unit, or at the strength.
    """
    policy, kinds = planned.policy, planned.kinds
    if isinstance(planned, PlannedMoments):
        instead = Privacy(unit=policy.privacy.unit, mu=planned.mu)
        return _rows_instead(policy, kinds, instead) if with_rows else (), planned.mechanism
    if policy.privacy.unit != "change":
        with suppress(ParameterError, PolicyError, PrivacyError):
            return planned.columns, stand_in(len(kinds), policy.privacy.max_rows, planned.mu)
    return planned.columns, None


def _sight_of_rows(
    planned: PlannedRelease, columns: Sequence[Column], spreads: Mapping[str, float], n_rows: int
) -> tuple[Sight, float]:
    """Return what rows would show, and the noise's variance over that of the values."""
    # of columns whose bounds would be found, so many deviations to either side of the center
    in_rows = {**spreads} | {
        column.name: 0.5 / half_width_for(n_rows, column.cell_mu)
        for column in columns
        if column.bounds_found and planned.policy.column(column.name).spread is None
    }
    ratios = sorted(column.noise_variance / (in_rows[column.name] * column.width) ** 2 for column in columns)
    if not ratios:
        return Sight(), math.nan
    typical, least = statistics.median(ratios), math.sqrt((1 + ratios[0]) * (1 + ratios[:2][-1])) - 1
    return _sight(n_rows, len(columns), rows_error, (typical, least), ratios), typical


def _sight_of_moments(policy: Policy, mechanism: Mechanism, spreads: Sequence[float], n_rows: int) -> tuple[Sight, int]:
    """Return what second moments would show, and how many rows it takes to show anything."""

    @functools.cache  # numbers of rows for several targets are looked for among the same powers of two
    def error(own: float, n_rows: int) -> float:
        noise = after_search(mechanism, policy.sought, n_rows).for_forecast().correlation_noise(n_rows, own)
        return moments_error(n_rows, noise * _scaled_down(mechanism, n_rows))

    squares = sorted((spread**2 for spread in spreads), reverse=True)
    typical, most = math.sqrt(statistics.median(squares)), (squares[0] * squares[:2][-1]) ** 0.25
    shown = _sight(n_rows, len(spreads), error, (typical, most), spreads)
    return shown, rows_needed(len(spreads), functools.partial(error, typical))


def _sight(
    n_rows: int,
    n_columns: int,
    error_of: Callable[[float, int], float],
    middle: tuple[float, float],
    each: Iterable[float],
) -> Sight:
    """Return what is shown of columns, given the error of a correlation for a kind of column and a number of rows.

    The kinds in the `middle` are of a median column, and of the two that stand out most.
    """
    typical, clearest = middle
    error = functools.partial(error_of, typical)
    return Sight(
        error=error(n_rows),
        seen=smallest_seen(n_rows, n_columns, error(n_rows)),
        clearest=smallest_seen(n_rows, n_columns, error_of(clearest, n_rows)),
        drowned=sum(number for own, number in Counter(each).items() if drowns(error_of(own, n_rows))),
        needed={rho: rows_needed(n_columns, error, rho) for rho in TARGETS if n_columns > 1},
    )


def after_search(mechanism: Mechanism, sought: Sought | None, n_rows: int) -> Mechanism:
    """Return the mechanism at what is left of its strength once it was found privately what the columns are."""
    if sought is None or not isinstance(mechanism, TwoRound):
        return mechanism
    rest = share_discovery(mechanism.row_mu, n_rows, sought.square, sought.n_listed).rest
    return replace(mechanism, strength=GaussianDP(rest * mechanism.max_rows))


def _scaled_down(mechanism: Mechanism, n_rows: int) -> float:
    """Return what the noise of the mechanism that stands for another is multiplied by; 1 where none does."""
    if mechanism.forecast_as is None:
        return 1.0
    own, other = mechanism.expected_error(n_rows), mechanism.for_forecast().expected_error(n_rows)
    return 1.0 if own is None or other is None else min(1.0, own / other)


def stand_in(n_features: int, max_rows: int, mu: float) -> Mechanism:
    """Return the mechanism that second moments would be released by, in place of rows."""
    limits = [(-1.0, 1.0)] * min(n_features, MAX_FEATURES)  # no more columns than a release can have
    setting = (scaling_for(limits), Neighbours.REPLACE_ONE, GaussianDP(mu), max_rows)
    if TwoRound.takes(n_features):
        return TwoRound(*setting, places=tuple(Place(*each) for each in limits))
    return Gaussian(*setting)


def _rows_instead(policy: Policy, kinds: Kinds, strength: Privacy) -> tuple[Column, ...]:
    """Return the columns as a release of rows would have them; none where rows do not take a strength like that."""
    blocks = blocks_of(policy.sources)
    highest = {
        name: 1.0 if name in blocks else len(source.levels) - 1.0
        for source in policy.sources
        if source.levels and not source.has_gap_column
        for name in source.columns
    }
    of_gaps = dict.fromkeys(gap_columns(policy.sources), 1.0)
    of_rows = with_entries(policy, {name: {"bounds": (0.0, high)} for name, high in (highest | of_gaps).items()})
    whole = {name: "integer" if name in highest else kind for name, kind in kinds.items()}
    try:
        return calibrate_assumed(of_rows.changed(privacy=strength), whole)[0]
    except (ParameterError, PolicyError, PrivacyError):
        return ()


def describe_held(row: Outlook, held: str = "") -> str:
    """Return what researchers would see, in words for everybody, and what the release holds if that is known."""
    held, seen = held or row.planned.held(row.n_rows), row.shown.seen
    if row.n_columns == 1 or row.planned.depends_on_values:
        return held
    if seen is None:
        return f"{held} By the forecast, no relation between columns is found."
    where = f"stronger than about {seen:.2g}, on a scale from 0 to 1"
    return f"{held} By the forecast, relations between columns are found if {where}."


def describe_links(seen: float | None) -> str:
    """Return which partial correlations are seen, the smallest given, if any is."""
    return "nothing" if seen is None else f"partial correlations from about {seen:.2g} on"


def is_clear(error: float) -> bool:
    """Return whether a column stands clear of its noise where a correlation has this standard error."""
    return 2 * (error * _CLEAR) ** 2 <= 1


def drowns(error: float) -> bool:
    """Return whether a column's variance is lost where a correlation of two like it has this standard error."""
    return error > 1.0 / (math.sqrt(2.0) * _DROWNED)


def smallest_seen(n_rows: int, n_features: int, error: float) -> float | None:
    """Return the smallest partial correlation that is seen where a correlation has this standard error, if any is."""
    z, variance = _standard_errors_needed(n_features), error**2
    if n_rows <= z * z:
        return None
    rho = z * math.sqrt(variance / (1 - z * z / n_rows))
    return rho if rho <= _LARGEST else None


def rows_needed(n_features: int, error: Callable[[int], float], rho: float | None = None) -> int:
    """Return the smallest n at which rho is seen, or, if it is None, any partial correlation at all.

    Parameters
    ----------
    n_features : int
        Number of columns; a single one is seen where its variance stands clear of zero.
    error : callable
        Returns the standard error of a correlation near zero from n rows, which falls with n.
    rho : float, optional
        The partial correlation, in (0, 1).
    """

    def suffices(n_rows: int) -> bool:
        if n_features == 1:
            return is_clear(error(n_rows))
        seen = smallest_seen(n_rows, n_features, error(n_rows))
        return seen is not None and (rho is None or seen <= rho)

    enough = 1
    while not suffices(enough):
        enough *= 2
    too_few = enough // 2
    while enough - too_few > 1:
        middle = (too_few + enough) // 2
        too_few, enough = (too_few, middle) if suffices(middle) else (middle, enough)
    return enough


def _standard_errors_needed(n_features: int) -> float:
    """Return z_t + z_0.8: how many standard errors an edge needs; infinite for a single column, which has no edge."""
    m, m_1 = n_features * (n_features - 1) // 2, n_features // 2
    if m == 0:
        return math.inf
    t = FDR * POWER * m_1 / (m - FDR * (m - m_1))
    return float(special.ndtri(POWER) - special.ndtri(t / 2))
