"""Refusals, before anything is spent, of releases that are not worth their cost; the publisher may insist.

Two kinds of release help nobody. In one, the noise hides everything that a researcher would look for. In the other, it
is so weak that a column of whole numbers is published unchanged. Both are judged from public facts alone: the number of
rows, the bounds, the declared types and the strength. No value is read, and rows are not counted if their number is
protected. Nothing is refused if the noise depends on the values (`snr_db`). If a mechanism's error has no formula, it
is found by drawing the mechanism on made-up sums (`drawn`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

from scipy import special

from dp_bundle.errors import PolicyError
from dp_bundle.manifest import Column
from dp_bundle.quoting import listed
from dp_publish.covariance import OneSum, mechanism_named, set_mechanism
from dp_publish.data import ColumnType
from dp_publish.forecast.assumptions import assumed_spreads, calibrate_assumed
from dp_publish.forecast.drawn import drawn_error
from dp_publish.forecast.outlook import ForecastRow, forecast
from dp_publish.forecast.power import is_clear, smallest_seen
from dp_publish.policy import Policy, Privacy
from dp_publish.rows import ENOUGH_SIGMA

_VERBATIM = 0.99  # share of values that come out as they went in
_ENOUGH_SIGMA = {"integer": ENOUGH_SIGMA, "continuous": 0.2}  # at which fewer do, of whole numbers
_ANYWAY = "or publish it all the same with --anyway"


def refuse_pointless(
    policy: Policy, kinds: Mapping[str, str], types: Mapping[str, ColumnType], count_rows: Callable[[], int]
) -> None:
    """Refuse a release that shows nothing, or one that shows a column as it is.

    Parameters
    ----------
    policy : Policy
        What would be published, and how.
    kinds : mapping of str to str
        The columns, as `choose_columns` gives them.
    types : mapping of str to ColumnType
        Every column's declared type.
    count_rows : callable
        Returns the number of rows; called only where that is public.

    Raises
    ------
    PolicyError
        The release would help nobody; the sentence says why, and what would.
    """
    privacy = policy.privacy
    if privacy.snr_db is not None:
        return
    if privacy.release == "rows":
        _refuse_verbatim(policy, kinds, types)
    if privacy.neighbours.n_rows_public:
        _refuse_hidden(policy, kinds, count_rows())


def share_unchanged(column: Column) -> float:
    """Return the share of whole numbers that the noise leaves as they are, after rounding where it is continuous.

    That is 1 / sum_k exp(-k^2 / (2 sigma^2)) for discrete noise, and 2 Phi(1 / (2 sigma)) - 1 for continuous noise.
    """
    sigma = column.cell_noise.sigma
    if column.kind == "continuous":
        return float(special.erf(0.5 / (math.sqrt(2) * sigma)))
    if sigma > 10:
        return 0.0
    steps = range(1, math.ceil(13 * sigma) + 1)
    return 1 / (1 + 2 * math.fsum(math.exp(-0.5 * (k / sigma) ** 2) for k in steps))


def why_hidden(n_rows: int, n_columns: int, row: ForecastRow, release: str) -> str:
    """Return the reason why nothing can be seen at one strength: too few rows even without noise, or the noise."""
    if n_columns > 1 and smallest_seen(n_rows, n_columns, n_rows**-0.5) is None:
        return f"{n_rows:,} rows are too few to show how {n_columns} columns are related, even without noise"
    if release == "rows":
        ratio = row.noise_to_signal
        shown = f"{ratio:,.0f}" if 100 <= ratio < 1e7 else f"{ratio:.3g}"
        return f"the noise has {shown} times the variance of the values"
    return f"the noise raises the standard error of a correlation from {n_rows**-0.5:.2g} to {row.error_in_moments:.2g}"


def changes_for_moments(policy: Policy, kinds: Mapping[str, str], mu: float) -> list[str]:
    """Return what else must change in a policy for rows, besides missing bounds, before it can release second moments.

    Parameters
    ----------
    policy : Policy
        Resolved; nothing has to change where it already releases second moments.
    kinds : mapping of str to str
        The columns, as `choose_columns` gives them.
    mu : float
        What the policy promises to its unit of privacy.
    """
    privacy, changes = policy.privacy, []
    if privacy.release == "covariance":
        return []
    if any(policy.column(name).missing == "center" for name in kinds):
        changes.append('give missing = "drop" in place of "center"')
    if any("weight" in entry.model_fields_set for entry in policy.columns.values()):
        changes.append("leave out weight")
    if privacy.l2_radius is not None:
        changes.append("leave out l2_radius, center and scale")
    if privacy.sigma is not None:
        changes.append(f"give mu = {_round_down(mu)} in place of sigma")
    return changes


def _refuse_verbatim(policy: Policy, kinds: Mapping[str, str], types: Mapping[str, ColumnType]) -> None:
    columns, mu = calibrate_assumed(policy, kinds)
    whole = [column for column in columns if not column.bounds_found and _holds_integers(column, types)]
    verbatim = [column for column in whole if share_unchanged(column) > _VERBATIM]
    if not verbatim:
        return
    worst = max(verbatim, key=share_unchanged)
    sigma, enough = worst.cell_noise.sigma, _ENOUGH_SIGMA[worst.kind]
    weaker = min(column.cell_noise.sigma / _ENOUGH_SIGMA[column.kind] for column in verbatim)
    rounded = " once they are rounded" if worst.kind == "continuous" else ""
    raise PolicyError(
        f"noise this weak would publish {listed([column.name for column in verbatim])} unchanged: at sigma "
        f"{sigma:.3g}, {100 * share_unchanged(worst):.4g} % of the values of {worst.name!r} stay the same{rounded}, "
        f"and only a sigma of {enough:g} changes more than one in a hundred; choose mu = {_round_down(mu * weaker)} "
        f"or less, drop the column, {_ANYWAY}"
    )


def _holds_integers(column: Column, types: Mapping[str, ColumnType]) -> bool:
    return column.kind == "integer" or types[column.name] is ColumnType.INTEGER


def _refuse_hidden(policy: Policy, kinds: Mapping[str, str], n_rows: int) -> None:
    release = policy.privacy.release
    row = _forecast(policy, kinds, n_rows)
    if _shows_something(row, release, len(kinds)):
        return
    what = "this column" if len(kinds) == 1 else f"these {len(kinds)} columns"
    raise PolicyError(
        f"this release would show nothing of {what}, and its privacy cost would be wasted: at mu = {row.mu:.4g} per "
        f"{policy.privacy.unit_name}, {why_hidden(n_rows, len(kinds), row, release)}; "
        f"{_what_instead(policy, kinds, n_rows, row)}see `dp-publish plan DATA` for other strengths, {_ANYWAY}"
    )


def _forecast(policy: Policy, kinds: Mapping[str, str], n_rows: int) -> ForecastRow:
    """Return the forecast of the policy's own release, drawn where there is no formula for the noise."""
    (row,) = forecast(n_rows, policy, kinds, [policy.privacy], with_epsilon=False)
    if policy.privacy.release == "rows":
        return row
    mechanism = set_mechanism(policy, kinds, lambda: n_rows)
    if mechanism.forecast_as is None or not isinstance(mechanism, OneSum):
        return row
    error = math.hypot(n_rows**-0.5, drawn_error(mechanism, n_rows, list(assumed_spreads(policy, kinds).values())))
    seen = smallest_seen(n_rows, len(kinds), error)
    return replace(row, error_in_moments=error, seen_in_moments=seen, clearest_in_moments=seen)


def _shows_something(row: ForecastRow, release: str, n_columns: int) -> bool:
    rows = release == "rows"
    if n_columns == 1:  # has a mean and a variance to see
        return is_clear(row.error_in_rows if rows else row.error_in_moments)
    return (row.clearest_in_rows if rows else row.clearest_in_moments) is not None


def _what_instead(policy: Policy, kinds: Mapping[str, str], n_rows: int, row: ForecastRow) -> str:
    """Return what would show something at the same guarantee, as the beginning of advice; empty if nothing would."""
    declared = all(policy.column(name).bounds is not None for name in kinds)
    changes = [] if declared else ["declare bounds (`dp-publish policy DATA` writes a policy to fill in)"]
    changes += changes_for_moments(policy, kinds, row.mu)
    first = f"{', '.join(changes)}, and " if changes else ""
    if policy.privacy.release == "rows" and row.clearest_in_moments is not None:
        shown = f"would show partial correlations from about {row.clearest_in_moments:.2g} on, under the same guarantee"
        return f"{first}publish second moments alone (--release covariance), which {shown}; "
    kind = mechanism_named(policy.privacy.mechanism)
    if kind is not None and kind.forecast_as is not None:
        other = policy.model_copy(update={"privacy": policy.privacy.model_copy(update={"mechanism": "auto"})})
        better = _forecast(other, kinds, n_rows)
        if _shows_something(better, "covariance", len(kinds)):
            least = better.clearest_in_moments
            seen = "variances" if least is None else f"partial correlations from about {least:.2g} on"
            return f"let dp-publish choose (--mechanism auto), which would show {seen} under the same guarantee; "
    most = _most_columns(policy, kinds, n_rows, row.mu)
    return f"{first}publish second moments (--release covariance) of at most {most} columns; " if most else ""


def _most_columns(policy: Policy, kinds: Mapping[str, str], n_rows: int, mu: float) -> int:
    """Return the largest number of columns, from the first on, of which second moments would still show something."""
    privacy = policy.privacy
    if privacy.release == "rows":
        privacy = Privacy(release="covariance", mechanism="gaussian", unit=privacy.unit, mu=mu)
    open_policy = policy.model_copy(update={"privacy": privacy.model_copy(update={"l2_radius": None})})
    names = list(kinds)
    shown, hidden = 1, len(names)
    while hidden - shown > 1:
        middle = (shown + hidden) // 2
        fewer = dict.fromkeys(names[:middle], "continuous")
        (row,) = forecast(n_rows, open_policy, fewer, [open_policy.privacy], with_epsilon=False)
        shown, hidden = (middle, hidden) if row.clearest_in_moments is not None else (shown, middle)
    return shown if shown > 1 else 0


def _round_down(value: float) -> str:
    size = 10.0 ** (math.floor(math.log10(value)) - 2)
    return f"{math.floor(value / size) * size:.3g}"
