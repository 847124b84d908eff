"""Columns of which a policy declares nothing: what they are is found privately, if that can be, and at what cost.

The part of mu that goes into what columns are follows from public facts: the number of rows, and of columns of either
kind. Noise on counts of looks and gaps is to be a few percent of the rows. The threshold of levels is to be as few as
noise on second moments leaves worth distinguishing. But the rest, which is what correlations are released with, is to
be most of mu (ADR 0043 has the measurement).
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from dp_bundle.base.errors import PolicyError
from dp_bundle.base.quoting import listed, require_one_line
from dp_bundle.base.wording import LEAVE_IT_OUT
from dp_bundle.manifest.columns import MAX_LEVELS
from dp_publish.data.kinds import OF_TEXT, ColumnType
from dp_publish.data.table import Table
from dp_publish.policy.column_survey import named_like_an_identifier
from dp_publish.policy.model import MAX_LEVEL, Policy, Sought

_NEVER = (ColumnType.NESTED, ColumnType.OTHER)
IDENTIFIER = "by its name an identifier"
_OPEN = {"drop", "description", "unit"}  # entries of a section that declare nothing of what a column holds
_COUNTS, _LEAST_COUNTS, _MOST_COUNTS = 0.015, 0.001, 0.04  # noise over rows; the share, at least and at most
_LEVELS, _LEAST_LEVELS, _MOST_LEVELS = 0.006, 0.002, 0.12
_ROUND_DOWN = 1 - 2.0**-40  # far above the rounding of the few operations on a share


def is_open(policy: Policy) -> bool:
    """Return whether a policy says of no column what it holds, of a release before which that is found privately.

    That is one of second moments in two rounds, or one of rows where it was asked for (`Policy.find`). It is at mu or
    rho, as the search excepts a delta.
    """
    privacy = policy.privacy
    moments = privacy.is_moments and privacy.mechanism in ("auto", "two-round")
    return (
        (moments or policy.find)
        and privacy.neighbours.n_rows_public
        and privacy.l2_radius is None
        and (privacy.mu is not None or privacy.rho is not None)
        and not policy.sources
        and all(section.model_fields_set <= _OPEN for section in policy.columns.values())
    )


def declares_no_values(policy: Policy) -> bool:
    """Return whether nothing is declared but what becomes of gaps, as where a release was chosen for the publisher."""
    return all(section.model_fields_set <= {*_OPEN, "missing"} for section in policy.columns.values())


def find_candidates(table: Table, policy: Policy, withheld: Collection[str] = ()) -> Sought:
    """Return the columns that may be published, from their names and declared types alone."""
    left_out: dict[str, str] = {}
    for name, declared in table.types.items():
        if why := why_withheld(name, policy, withheld):
            left_out[name] = why
        elif named_like_an_identifier(name):
            left_out[name] = IDENTIFIER
        elif declared in _NEVER:
            left_out[name] = "neither numbers nor words"
    kept = [name for name in table.types if name not in left_out]
    for name in kept:
        require_printable(name)
    if not kept:
        raise PolicyError(f"there is no column to publish: {reasons(left_out)}")
    looked = tuple(name for name in kept if table.types[name] in OF_TEXT and not ordered_levels(table, name))
    typed = tuple(name for name in kept if name not in looked)
    return Sought(looked, typed, left_out, len(looked) * (ColumnType.UNKNOWN not in table.types.values()))


def why_withheld(name: str, policy: Policy, withheld: Collection[str]) -> str:
    """Return why a column is not published whatever it holds; nothing if it may be."""
    if policy.column(name).drop:
        return "dropped"
    if name == policy.privacy.owner:
        return "the unit of privacy"
    return "the unit of privacy of an earlier release" if name in withheld else ""


def ordered_levels(table: Table, name: str) -> tuple[str, ...]:
    """Return the levels of a column of words to which a code book gives an order, the lowest first; else none.

    Levels that a policy could not list are none, and so are those between whose codes others have no label.
    """
    book = table.described.get(name)
    if book is None or not (book.has_order and book.is_complete) or table.types[name] is not ColumnType.TEXT:
        return ()
    levels = book.levels
    fit = len({*levels}) == len(levels) <= MAX_LEVELS and all(len(level) <= MAX_LEVEL for level in levels)
    return levels if fit else ()


def require_printable(name: str) -> None:
    """Refuse a column to be published whose name does not fit on a line, as a manifest takes it.

    Raises
    ------
    PolicyError
        The name, and what to do.
    """
    try:
        require_one_line(name)
    except ValueError as error:
        raise PolicyError(f"the name of a column to be published, {error}, or {LEAVE_IT_OUT}", "drop", name) from error


def reasons(left_out: Mapping[str, str]) -> str:
    """Return which columns are left out, for a message: those of every reason together."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in left_out.items():
        by_reason.setdefault(reason, []).append(name)
    return "; ".join(f"{listed(names)} ({reason})" for reason, names in by_reason.items())


@dataclass(frozen=True)
class DiscoveryShares:
    """The mu of one row: of all counts of cells, of all counts of levels, and the rest.

    Attributes
    ----------
    counts, levels, rest : float
    """

    counts: float
    levels: float
    rest: float


def share_mu(mu: float, n_rows: int, squares: float, n_listed: int) -> DiscoveryShares:
    """Return the shares of the strength for one row.

    Parameters
    ----------
    mu : float
        The strength.
    n_rows : int
        How many rows are counted.
    squares : float
        The square of the sensitivity of all counts of looks and gaps together.
    n_listed : int
        Of how many columns the values are counted.
    """
    counts = _share(squares, _COUNTS * n_rows * mu, _LEAST_COUNTS, _MOST_COUNTS)
    levels = _share(2 * n_listed, _LEVELS * n_rows * mu, _LEAST_LEVELS, _MOST_LEVELS)
    mu *= _ROUND_DOWN
    return DiscoveryShares(mu * math.sqrt(counts), mu * math.sqrt(levels), mu * math.sqrt(1 - counts - levels))


def _share(squares: float, sigma: float, least: float, most: float) -> float:
    return min(max(squares / sigma**2, least), most) if squares else 0.0
