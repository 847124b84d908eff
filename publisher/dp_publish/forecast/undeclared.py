"""Columns of which nothing is declared, in a forecast: as one column each, or words that become several.

How many columns of words a table has, and how many levels they have, may be private. Public is which share of the rows
a level has to have to be told apart from the noise, so that no column has more levels than fit.
"""

from __future__ import annotations

from collections.abc import Collection

from dp_publish.discovery.finding import MOST_LEVELS
from dp_publish.discovery.levels import NoisyLevels
from dp_publish.discovery.shares import share_mu
from dp_publish.policy.model import Policy

_LEVELS = 3  # that a column of words is taken to have, and half of a text file's columns to be
MOSTLY = 2.0  # standard deviations above a threshold


def with_some_words(policy: Policy) -> tuple[Policy, dict[str, str]]:
    """Return the policy and its columns with words of three levels, which half of a text file's are taken to be."""
    sought = policy.sought
    assert sought is not None  # noqa: S101  nothing is declared
    return _with_words(policy, (*sought.words, *sought.looked[::2]), _LEVELS, 1)


def with_most_columns(policy: Policy, n_rows: int) -> tuple[Policy, dict[str, str]]:
    """Return the policy and the most columns that may be published, with gaps and all levels that can be told."""
    sought = policy.sought
    assert sought is not None  # noqa: S101  nothing is declared
    names = (*sought.words, *sought.looked)
    levels = min(int(1 / least_level(policy, n_rows, len(names), -MOSTLY)), MOST_LEVELS) if names else 0
    return _with_words(policy, names, levels + 2, 2)


def least_level(policy: Policy, n_rows: int, n_listed: int, away: float) -> float:
    """Return the share of the rows of a level that is told if its noise is so many standard deviations below zero."""
    sought, privacy = policy.sought, policy.privacy
    assert sought is not None and privacy.strength is not None  # noqa: PT018, S101  nothing is declared
    mu = share_mu(privacy.strength.mu / privacy.max_rows, n_rows, sought.square, n_listed).levels
    counts = NoisyLevels(mu, n_listed, privacy.max_rows)
    return (counts.threshold + away * counts.sigma) / n_rows


def tells_columns(policy: Policy, n_rows: int, *, any_columns: bool = False) -> bool:
    """Return whether two columns are left at least: numbers, or words whose levels can be told if there are three.

    All columns of a text file may be words if some are taken for words; with `any_columns`, all of those that are kept.
    """
    sought = policy.sought
    if sought is None or not sought.n_listed or (len(sought.typed) > 1 and not any_columns):
        return True
    return least_level(policy, n_rows, len(sought.looked) + len(sought.words), MOSTLY) <= 1 / _LEVELS


def rows_to_tell_columns(policy: Policy, n_rows: int) -> int:
    """Return the least number of rows, from so many on, of which columns are left."""
    while not tells_columns(policy, n_rows):
        n_rows += 1 + n_rows // 50
    return n_rows


def of_the_table(policy: Policy, n_columns: int) -> int:
    """Return how many columns the first so many are published for."""
    words = 0 if policy.sought is None else policy.sought.n_listed
    return n_columns - min(n_columns // _LEVELS, words) * (_LEVELS - 1)


def _with_words(policy: Policy, words: Collection[str], each: int, others: int) -> tuple[Policy, dict[str, str]]:
    """Return the policy with these columns as words, and the columns: so many for each of them, first, and others."""
    sought = policy.sought
    assert sought is not None  # noqa: S101  nothing is declared
    names = sorted((*sought.looked, *sought.typed, *sought.words), key=lambda name: name not in words)
    parts = {name: range(each if name in words else others) for name in names}
    kinds = {f"{name}={part}" if part else name: "continuous" for name in names for part in parts[name]}
    return policy.model_copy(update={"sought": sought._replace(n_listed=len(words))}), kinds
