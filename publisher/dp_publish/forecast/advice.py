"""Advice to a publisher whose release would show nothing: what would show something at the same guarantee, or nearly.

Every way out is forecast before it is named, from public facts alone.

A mechanism whose noise does not act entry by entry has errors that depend on the values. So it is applied to made-up
sums, with the assumed spreads and means of a forecast, and columns related strongly, in pairs or all by one common
factor. That is done in floating point with a fixed seed, and no value enters. What counts is the error of the
correlations of the columns that spread most, in the better of the two cases: whatever hides relations as strong as
these hides all others.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_bundle.base.arrays import Floats
from dp_bundle.base.errors import ParameterError, PolicyError, PrivacyError
from dp_bundle.base.quoting import round_up
from dp_bundle.base.wording import typed
from dp_publish.covariance.calibration import set_mechanism
from dp_publish.covariance.exact_moments import ExactMoments
from dp_publish.covariance.mechanisms.base import OneSum
from dp_publish.covariance.mechanisms.two_round import TwoRound
from dp_publish.covariance.scaling import scaled_variance
from dp_publish.data.kinds import Kinds
from dp_publish.forecast.assumptions import (
    assumed_spreads,
    of_the_table,
    tells_columns,
    with_entries,
    with_some_words,
)
from dp_publish.forecast.outlook import Outlook, describe_links, forecast, smallest_seen
from dp_publish.forecast.planned import PlannedMoments
from dp_publish.forecast.strengths import describe_weaker, describe_worth, round_down
from dp_publish.policy.choices import DEFAULT_SPREAD
from dp_publish.policy.columns import Prepared
from dp_publish.policy.model import Policy, Privacy
from dp_publish.sampling.keystream import insecure_keystream

_WEAKEST = 10.0  # mu of a guarantee that is worth advising
_STEP, _STEPS = 1.05, 100  # from one mu to the next; and of those that are tried for a link
_ROUNDING = 1e-9
MOST_TO_SEE = 3.0  # mu that is promised without more said
_RELATED = 0.9  # the made-up correlation
_COLUMNS = 100  # drawn at least, over all repetitions: of 100 columns and more, one draw
_MOST = 0.25  # of the largest variance: from there on a column is among those that spread most


def changes_for_moments(policy: Policy, mu: float) -> list[str]:
    """Return what else must change in a policy for rows, besides missing bounds, before it can release second moments.

    Parameters
    ----------
    policy : Policy
        Resolved; nothing has to change where it already releases second moments.
    mu : float
        What the policy promises to its unit of privacy.
    """
    privacy, changes = policy.privacy, []
    if privacy.is_moments:
        return []
    if any("weight" in entry.model_fields_set for entry in policy.columns.values()):
        changes.append("leave out weight")
    if privacy.sigma is not None:
        changes.append(f"give mu = {round_down(mu)} in place of sigma")
    return changes


def ways_out(row: Outlook) -> list[str]:
    """Return what would show something, as clauses, in place of a release that shows nothing by its forecast."""
    if not row.moments.is_possible:
        return []
    policy, kinds, n_rows = row.planned.policy, row.planned.kinds, row.n_rows
    of_moments = isinstance(row.planned, PlannedMoments)
    changes = changes_for_moments(policy, row.mu)
    first = f"{', '.join(changes)}, and " if changes else ""
    if not of_moments and row.moments.clearest is not None:
        shown = f"would show {describe_links(row.moments.clearest)}, under the same guarantee"
        return [f"{first}publish second moments alone{typed('--release covariance')}, which {shown}"]

    if len(kinds) == 1 and not of_moments:
        weaker = least_mu(policy, lambda weaker: forecast(weaker, kinds, n_rows).shows_something)
        return [] if weaker is None else [describe_weaker(weaker)]

    as_numbers = policy, kinds
    if policy.sought is not None:
        policy, kinds = with_some_words(policy)
    ways = list(_other_settings(policy, kinds, n_rows)) if of_moments else []
    if policy.sought is not None and policy.sought.looked and ways:
        least = least_mu(as_numbers[0], lambda weaker: _seen(weaker, as_numbers[1], n_rows))
        of_numbers = f" (mu = {round_up(least or 0, 2)}, or {row.least_rows_for_moments:,} rows, if all hold numbers)"
        ways[0] += of_numbers if least else ""
    if ways and ways[0].startswith("let dp-publish"):
        return ways[:1]
    for what, whole in (("", (policy, kinds)), (", if they hold numbers", as_numbers)):
        if 0 < (most := _most_columns(*whole, n_rows, row.mu)) < len(as_numbers[1]):
            fewer = f"publish second moments{typed('--release covariance')} of at most {most} columns{what}"
            return [f"{first}{fewer}", *ways]
    return ways


def forecast_drawn(policy: Policy, kinds: Kinds, n_rows: int) -> Outlook:
    """Return the forecast of a release with all bounds that it needs, drawn where there is no formula for the noise."""
    row = forecast(policy, kinds, n_rows, with_rows=False)
    row.planned.require_bounds()
    return draw_error(row)


def draw_error(row: Outlook) -> Outlook:
    """Return an outlook with its error drawn, if there is no formula for the noise."""
    if not isinstance(row.planned, PlannedMoments) or not row.planned.depends_on_values:
        return row
    policy, kinds, n_rows, mechanism = row.planned.policy, row.planned.kinds, row.n_rows, row.planned.mechanism
    if not isinstance(mechanism, OneSum):
        return row
    error = math.hypot(n_rows**-0.5, drawn_error(mechanism, n_rows, list(assumed_spreads(policy, kinds).values())))
    seen = smallest_seen(n_rows, len(kinds), error)
    return replace(row, moments=replace(row.moments, error=error, seen=seen, clearest=seen), least_rows_for_moments=0)


def _other_settings(policy: Policy, kinds: Kinds, n_rows: int) -> Iterator[str]:
    """Yield what else a covariance release of all columns could be."""
    chosen = policy.with_privacy(mechanism="auto", l2_radius=None)
    if chosen.privacy != policy.privacy and (seen := _seen(chosen, kinds, n_rows)):
        without = ", without l2_radius" if policy.privacy.l2_radius is not None else ""
        by = typed(f"--mechanism auto{without}")
        yield f"let dp-publish choose{by}, which would show {seen} under the same guarantee"
        return
    mechanism = set_mechanism(policy, kinds, lambda: n_rows)
    if isinstance(mechanism, TwoRound):
        yield from _ways_of_two_rounds(policy, kinds, n_rows, mechanism)


def _ways_of_two_rounds(policy: Policy, kinds: Kinds, n_rows: int, mechanism: TwoRound) -> Iterator[str]:
    """Yield what helps where centers and scales are to be found in too few rows, or noise is too strong."""
    if policy.sought is None and not all(place.is_declared for place in mechanism.places):
        placed = {name: {"center": 0.0, "scale": 1.0} for name in kinds}
        if seen := _seen(with_entries(policy, placed), kinds, n_rows):
            yield (
                "declare the center and the scale of every column if they are public knowledge (center = ..., "
                f"scale = ... in [columns.NAME]), which would show {seen}"
            )
    narrow = {name for name, spread in assumed_spreads(policy, kinds).items() if spread < DEFAULT_SPREAD}
    if narrow:
        filled = {name: {"spread": DEFAULT_SPREAD} for name in narrow}
        if seen := _seen(with_entries(policy, filled), kinds, n_rows):
            width = round(1 / DEFAULT_SPREAD)
            yield f"narrow the bounds to about {width} standard deviations in all, which would show {seen}"
    weaker = least_mu(policy, lambda weaker: _seen(weaker, kinds, n_rows))
    if weaker is not None:
        yield describe_weaker(weaker)


def mu_to_see(prepared: Prepared, rho: float, most: float = MOST_TO_SEE) -> float:
    """Return about the smallest mu at which links of rho are seen in a table, by its columns and the number of rows.

    Parameters
    ----------
    prepared : Prepared
        The table; of what a text file's columns hold, it is assumed what `with_some_words` does.
    rho : float
        The partial correlation, from 0 to 1.
    most : float
        The largest mu that is promised.

    Raises
    ------
    PolicyError
        They are not seen at that mu.
    """
    policy, kinds, n_rows = prepared.policy, prepared.kinds, prepared.count_rows()
    if policy.sought is not None:
        policy, kinds = with_some_words(policy)
    strong = policy.with_privacy(epsilon=None, delta=None, rho=None, mu=most / _STEP**_STEPS)
    found = least_mu(strong, lambda weaker: (forecast(weaker, kinds, n_rows).shown.seen or math.inf) <= rho, most)
    if found is None:
        raise PolicyError(
            f"links of {rho:g} are not seen at mu = {most:g}, where {describe_worth(most)}: publish fewer columns, "
            "give a larger --see, or a larger --mu, which --see keeps to",
            "privacy.mu",
        )
    return found


def least_mu(policy: Policy, suffices: Callable[[Policy], object], most: float = _WEAKEST) -> float | None:
    """Return about the smallest mu, above a policy's own, that suffices, if there is one worth advising."""
    others: dict[str, Any] = dict.fromkeys(("epsilon", "delta", "rho"))
    mu = policy.privacy.strength.mu if policy.privacy.strength is not None else math.inf
    while (mu := mu * _STEP) <= most * (1 + _ROUNDING):
        if suffices(policy.with_privacy(**others, mu=mu)):
            return mu
    return None


def _seen(policy: Policy, kinds: Kinds, n_rows: int) -> str:
    """Return what a covariance release would show, in words; nothing, or a release that cannot be, is empty."""
    try:
        row = forecast_drawn(policy, kinds, n_rows)
    except (ParameterError, PolicyError, PrivacyError):
        return ""
    if not row.shows_something or not tells_columns(policy, n_rows):
        return ""
    least = row.moments.clearest
    return "variances" if least is None else describe_links(least)


def _most_columns(policy: Policy, kinds: Kinds, n_rows: int, mu: float) -> int:
    """Return the largest number of columns, from the first on, of which second moments would still show something."""
    open_policy = policy.with_privacy(l2_radius=None)
    if not policy.privacy.is_moments:
        of_moments = Privacy(release="covariance", unit=policy.privacy.unit, mu=mu)
        open_policy = policy.changed(privacy=of_moments)
    names = list(kinds)
    shown, hidden = 1, len(names)
    while hidden - shown > 1:
        middle = (shown + hidden) // 2
        fewer = dict.fromkeys(names[:middle], "continuous")
        row = forecast(open_policy, fewer, n_rows, with_rows=False)
        shown, hidden = (middle, hidden) if row.moments.clearest is not None else (shown, middle)
    return of_the_table(policy, shown) if shown > 1 and tells_columns(policy, n_rows, any_columns=True) else 0


def drawn_error(mechanism: OneSum, n_rows: int, spreads: Sequence[float]) -> float:
    """Return the root mean square error that the mechanism would leave in the correlations of related columns.

    Parameters
    ----------
    mechanism : Mechanism
        The mechanism and its strength.
    n_rows : int
        The number of rows, which is public.
    spreads : sequence of float
        Every column's standard deviation as a share of its width.

    Returns
    -------
    float
        At most 2; for a single column, the relative error of its variance over sqrt(2), which compares with it.
    """
    scaling = mechanism.scaling
    p, largest = scaling.n_features, scaling.radius**2 / scaling.n_features
    variances = np.array([scaled_variance(spread, scaling) for spread in spreads])
    means = np.sqrt(np.maximum(0.0, min(1.0, largest) - variances) / 2.0)
    pairs = np.kron(np.eye(-(-p // 2)), np.ones((2, 2)))[:p, :p]
    clear = variances >= _MOST * variances.max()
    errors = []
    for related in (pairs, np.ones((p, p))):
        correlation = np.where(related > 0.0, _RELATED, 0.0)
        np.fill_diagonal(correlation, 1.0)
        errors.append(_error(mechanism, n_rows, correlation, variances, means, clear))
    return min(errors)


def _error(
    mechanism: OneSum, n_rows: int, correlation: Floats, variances: Floats, means: Floats, clear: NDArray[np.bool_]
) -> float:
    """Return the larger of the errors of strong correlations and of zeros, between clear columns if possible."""
    p, constant = len(means), mechanism.scaling.constant
    covariance = correlation * np.sqrt(np.outer(variances, variances))
    products = n_rows * (covariance + np.outer(means, means))
    sums = ExactMoments.near(mechanism.scaling, n_rows, products, n_rows * means)
    rng = insecure_keystream(1)

    squares = np.zeros((p, p))
    n_draws = -(-_COLUMNS // p)
    for _ in range(n_draws):
        noisy = mechanism.insecure_draw(sums, rng).matrix / n_rows
        found = noisy[:p, :p] - np.outer(noisy[:p, -1], noisy[:p, -1]) / constant**2
        if p == 1:
            squares += (found / covariance - 1.0) ** 2 / 2.0
        else:
            squares += (_correlations(found) - correlation) ** 2
    squares /= n_draws

    if p == 1:
        return math.sqrt(float(squares[0, 0]))
    beside = np.triu(np.ones((p, p), dtype=bool), 1)
    both = beside & np.outer(clear, clear)
    counted = both if (both & (correlation > 0.0)).any() else beside
    parts = [squares[counted & chosen] for chosen in (correlation > 0.0, correlation == 0.0)]
    return math.sqrt(max(float(part.mean()) for part in parts if part.size))


def _correlations(covariance: Floats) -> Floats:
    """Return a noisy covariance's correlations in [-1, 1], zero where a variance is not positive."""
    variances = np.diagonal(covariance)
    seen = variances > 0.0
    root = np.sqrt(np.where(seen, variances, np.inf))
    correlations: Floats = np.clip(covariance / np.outer(root, root), -1.0, 1.0)
    return correlations
