"""Advice to a publisher whose release would show nothing: what would show something at the same guarantee, or nearly.

Every way out is forecast before it is named, from public facts alone.
"""

import math
from collections.abc import Callable, Iterator

from dp_bundle.base.errors import ParameterError, PolicyError, PrivacyError
from dp_bundle.base.quoting import round_up
from dp_bundle.base.wording import typed
from dp_publish.covariance.mechanisms.two_round import TwoRound
from dp_publish.forecast.assumptions import (
    assumed_spreads,
    of_the_table,
    tells_columns,
    with_entries,
    with_some_words,
)
from dp_publish.forecast.outlook import Outlook, describe_links, forecast
from dp_publish.forecast.planned import PlannedMoments
from dp_publish.forecast.strengths import describe_weaker, describe_worth, policy_at, round_down
from dp_publish.policy.choices import DEFAULT_SPREAD
from dp_publish.policy.columns import Prepared
from dp_publish.policy.model import Policy, Privacy

_WEAKEST = 10.0  # mu of a guarantee that is worth advising
_STEP, _STEPS = 1.05, 100  # from one mu to the next; and of those that are tried for a link
_ROUNDING = 1e-9
MOST_TO_SEE = 3.0  # mu that is promised without more said


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
    policy, kinds = row.planned.policy, row.planned.kinds
    of_moments = isinstance(row.planned, PlannedMoments)
    changes = changes_for_moments(policy, row.mu)
    first = f"{', '.join(changes)}, and " if changes else ""
    if not of_moments and row.moments.clearest is not None:
        shown = f"would show {describe_links(row.moments.clearest)}, under the same guarantee"
        return [f"{first}publish second moments alone{typed('--release covariance')}, which {shown}"]
    if len(kinds) == 1 and not of_moments:
        weaker = least_mu(policy, lambda weaker: row.under(weaker).shows_something)
        return [] if weaker is None else [describe_weaker(weaker)]

    in_words = row if policy.sought is None else row.under(*with_some_words(policy))
    ways = list(_other_settings(in_words)) if of_moments else []
    if policy.sought is not None and policy.sought.looked and ways:
        least = least_mu(policy, lambda weaker: _seen(row, weaker))
        of_numbers = f" (mu = {round_up(least or 0, 2)}, or {row.least_rows_for_moments:,} rows, if all hold numbers)"
        ways[0] += of_numbers if least else ""
    if ways and ways[0].startswith("let dp-publish"):
        return ways[:1]
    for what, whole in (("", in_words), (", if they hold numbers", row)):
        if 0 < (most := _most_columns(whole, row.mu)) < len(kinds):
            fewer = f"publish second moments{typed('--release covariance')} of at most {most} columns{what}"
            return [f"{first}{fewer}", *ways]
    return ways


def _other_settings(row: Outlook) -> Iterator[str]:
    """Yield what else a covariance release of all columns could be."""
    policy = row.planned.policy
    chosen = policy.with_privacy(mechanism="auto", l2_radius=None)
    if chosen.privacy != policy.privacy and (seen := _seen(row, chosen)):
        without = ", without l2_radius" if policy.privacy.l2_radius is not None else ""
        by = typed(f"--mechanism auto{without}")
        yield f"let dp-publish choose{by}, which would show {seen} under the same guarantee"
    elif isinstance(row.planned, PlannedMoments) and isinstance(row.planned.mechanism, TwoRound):
        yield from _ways_of_two_rounds(row, row.planned.mechanism)


def _ways_of_two_rounds(row: Outlook, mechanism: TwoRound) -> Iterator[str]:
    """Yield what helps where centers and scales are to be found in too few rows, or noise is too strong."""
    policy, kinds = row.planned.policy, row.planned.kinds
    if policy.sought is None and not all(place.is_declared for place in mechanism.places):
        placed = {name: {"center": 0.0, "scale": 1.0} for name in kinds}
        if seen := _seen(row, with_entries(policy, placed)):
            yield (
                "declare the center and the scale of every column if they are public knowledge (center = ..., "
                f"scale = ... in [columns.NAME]), which would show {seen}"
            )
    narrow = {name for name, spread in assumed_spreads(policy, kinds).items() if spread < DEFAULT_SPREAD}
    if narrow and (seen := _seen(row, with_entries(policy, {name: {"spread": DEFAULT_SPREAD} for name in narrow}))):
        width = round(1 / DEFAULT_SPREAD)
        yield f"narrow the bounds to about {width} standard deviations in all, which would show {seen}"
    weaker = least_mu(policy, lambda weaker: _seen(row, weaker))
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
    strong = policy_at(policy, most / _STEP**_STEPS)
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
    mu = policy.privacy.strength.mu if policy.privacy.strength is not None else math.inf
    while (mu := mu * _STEP) <= most * (1 + _ROUNDING):
        if suffices(policy_at(policy, mu)):
            return mu
    return None


def _seen(row: Outlook, policy: Policy) -> str:
    """Return what these columns would show under another policy, in words; nothing, or no such release, is empty."""
    try:
        other = row.under(policy)
        other.planned.require_bounds()
    except (ParameterError, PolicyError, PrivacyError):
        return ""
    if not other.shows_something or not tells_columns(policy, row.n_rows):
        return ""
    least = other.moments.clearest
    return "variances" if least is None else describe_links(least)


def _most_columns(row: Outlook, mu: float) -> int:
    """Return the largest number of columns, from the first on, of which second moments would still show something."""
    policy, names = row.planned.policy, list(row.planned.kinds)
    open_policy = policy.with_privacy(l2_radius=None)
    if not policy.privacy.is_moments:
        of_moments = Privacy(release="covariance", unit=policy.privacy.unit, mu=mu)
        open_policy = policy.changed(privacy=of_moments)
    shown, hidden = 1, len(names)
    while hidden - shown > 1:
        middle = (shown + hidden) // 2
        fewer = row.under(open_policy, dict.fromkeys(names[:middle], "continuous"))
        shown, hidden = (middle, hidden) if fewer.moments.clearest is not None else (shown, middle)
    return of_the_table(policy, shown) if shown > 1 and tells_columns(policy, row.n_rows, any_columns=True) else 0
