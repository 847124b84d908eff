"""Assumptions of a forecast: how far values spread within their bounds, and which bounds would be found.

The assumed standard deviation of a column is a share of the width of its bounds. It is the policy's `spread` for the
column, or else `DEFAULT_SPREAD`. That is what bounds without knowledge of the values leave on real tables (ADR 0014).
Nothing else is needed of bounds that will be found privately. As noise is in proportion to the width, so is all of the
forecast, and a width of 1 stands for whatever is found. Their spread follows from how they are chosen (`outlook`).

A count that one person changes by at most m (`max_change`) gets noise that does not depend on its bounds. So wide ones
would promise what narrow ones do not. Its bounds rather say how many cases there are: the share of the width is assumed
of the mean count. Cases that come one by one then give a variance of m times that mean, as a compound Poisson
distribution with steps of m has. Contagion and trends give more.

Where nothing is declared, how many columns of words a table has, and how many levels they have, may be private. Public
is which share of the rows a level has to have to be told apart from the noise. So no column has more levels than fit.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any

from dp_bundle.manifest.columns import Column
from dp_publish.covariance.calibration import in_two_rounds
from dp_publish.data.kinds import Kinds
from dp_publish.discovery.levels import NoisyLevels
from dp_publish.policy.choices import DEFAULT_SPREAD
from dp_publish.policy.model import ColumnPolicy, Policy, Sought
from dp_publish.policy.open_columns import share_mu as share_discovery
from dp_publish.rows.calibration import cost_of_rows, set_noise, share_mu

_UNIT_WIDTH = (-0.5, 0.5)
_LEVELS = 3  # that a column of words is taken to have, and half of a text file's columns to be
MOSTLY = 2.0  # standard deviations above a threshold


def assumed_spreads(policy: Policy, names: Iterable[str], spread: float = DEFAULT_SPREAD) -> dict[str, float]:
    """Return every column's assumed spread: the policy's, or else this one; of counts, the root of their mean."""
    return {name: _spread_of(policy.column(name), spread) for name in names}


def _spread_of(entry: ColumnPolicy, spread: float) -> float:
    if entry.spread is not None:
        return entry.spread
    if entry.max_change is None or entry.bounds is None:
        return spread
    steps = (entry.bounds[1] - entry.bounds[0]) / entry.max_change
    return min(spread, math.sqrt(spread / steps))


def describe_spread(policy: Policy, spread: float = DEFAULT_SPREAD) -> str:
    """Return a phrase that says how far columns are assumed to spread: "columns vary ..."."""
    if policy.privacy.unit == "change":
        usual = f"as independent cases with a mean of {spread:.3g} of the bounds' width"
    else:
        usual = f"by {spread:.3g} of the width of declared bounds"
    return f"columns vary by the policy's spread, or {usual}"


def fill_bounds(policy: Policy, names: Iterable[str]) -> Policy:
    """Return the policy with an interval of width 1 in place of bounds that it leaves out, unless two rounds do."""
    names = [*names]
    if policy.privacy.is_moments and in_two_rounds(policy, dict.fromkeys(names, "continuous")):
        return policy
    return with_entries(policy, {name: {"bounds": _UNIT_WIDTH} for name in names if not policy.column(name).bounds})


def with_entries(policy: Policy, changes: Mapping[str, Mapping[str, Any]]) -> Policy:
    """Return the policy with these entries in the sections of columns."""
    changed = {name: policy.column(name).changed(**entries) for name, entries in changes.items()}
    return policy.changed(columns={**policy.columns, **changed})


def calibrate_assumed(policy: Policy, kinds: Kinds) -> tuple[tuple[Column, ...], float]:
    """Return the columns with the noise of a release of rows, and its mu; columns to be searched have a width of 1.

    Integer noise depends on the width in steps, so that a column to be searched counts as continuous.

    Raises
    ------
    PolicyError, PrivacyError
        The strength, the bounds and the kinds do not go together.
    """
    shares = share_mu(policy, kinds)
    searched = dict.fromkeys(shares.searched, _UNIT_WIDTH)
    counted = {name: "continuous" if name in searched else kind for name, kind in kinds.items()}
    columns = set_noise(policy, counted, shares, found=searched)
    return columns, cost_of_rows(policy, counted, shares).mu[policy.privacy.account]


def sought_of(policy: Policy) -> Sought:
    """Return what is to be found privately, of a policy that declares nothing of what columns hold."""
    assert policy.sought is not None  # noqa: S101
    return policy.sought


def with_some_words(policy: Policy) -> tuple[Policy, Kinds]:
    """Return the policy and its columns with words of three levels: half of a text file's, or all text of others."""
    sought = sought_of(policy)
    words = sought.looked[:: 1 if sought.n_listed else 2]
    parts = dict.fromkeys(words, range(_LEVELS)) | {name: range(1) for name in sought.names if name not in words}
    kinds = {f"{name}={part}" if part else name: "continuous" for name, each in parts.items() for part in each}
    return policy.changed(sought=sought._replace(n_listed=len(words))), kinds


def least_level(policy: Policy, n_rows: int, n_listed: int, away: float) -> float:
    """Return the share of the rows of a level that is told if its noise is so many standard deviations below zero."""
    privacy = policy.privacy
    assert privacy.strength is not None  # noqa: S101  nothing is declared
    mu = share_discovery(privacy.strength.mu / privacy.max_rows, n_rows, sought_of(policy).square, n_listed).levels
    counts = NoisyLevels(mu, n_listed, privacy.max_rows)
    return (counts.threshold + away * counts.sigma) / n_rows


def tells_columns(policy: Policy, n_rows: int, *, any_columns: bool = False) -> bool:
    """Return whether two columns are left at least: numbers, or words whose levels can be told if there are three.

    All columns of a text file may be words if some are taken for words; with `any_columns`, all of those that are kept.
    """
    sought = policy.sought
    if sought is None or not sought.n_listed or (len(sought.typed) > 1 and not any_columns):
        return True
    return least_level(policy, n_rows, len(sought.looked), MOSTLY) <= 1 / _LEVELS


def rows_to_tell_columns(policy: Policy, n_rows: int) -> int:
    """Return the least number of rows, from so many on, of which columns are left."""
    while not tells_columns(policy, n_rows):
        n_rows += 1 + n_rows // 50
    return n_rows


def of_the_table(policy: Policy, n_columns: int) -> int:
    """Return how many columns the first so many are published for."""
    words = 0 if policy.sought is None else policy.sought.n_listed
    return n_columns - min(n_columns // _LEVELS, words) * (_LEVELS - 1)
