"""The choice of the columns to publish, and of what kind each is.

Facts that a release makes public under a policy, in the words of the manifest.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from dp_bundle.base.errors import DataError, PolicyError
from dp_bundle.base.quoting import listed, require_one_line
from dp_bundle.manifest.columns import Column, source_names
from dp_bundle.manifest.guarantee import GAPS_PUBLIC, NUMBER_PUBLIC, ORDER_PUBLIC, PARTITION_PUBLIC, TOGETHER_PUBLIC
from dp_bundle.manifest.release import CONSTANT_LABEL, MAX_COLUMNS
from dp_publish.data.cells import KINDS_OF_WORDS
from dp_publish.data.table import ColumnType, Table
from dp_publish.policy.model import Policy


def public_facts(policy: Policy, columns: Sequence[Column], partition: str | None) -> tuple[str, ...]:
    """Return what the guarantee does not protect; where rows may come and go, at most the partition's name."""
    privacy = policy.privacy
    part = [f"{PARTITION_PUBLIC}{partition!r}"] if partition is not None else []
    if not privacy.neighbours.n_rows_public:
        return tuple(part)

    together = [TOGETHER_PUBLIC] if privacy.entity else []
    dropping = source_names([column for column in columns if column.missing == "drop"])
    gaps = [f"{GAPS_PUBLIC}{listed(dropping)}"] if dropping else []
    if privacy.release == "covariance":
        return (NUMBER_PUBLIC, *part, *together, *gaps)
    return (ORDER_PUBLIC, *together, *part, *gaps)


_MAX_NAME = 1_000  # characters; what a manifest takes
_PANDAS_INDEX = re.compile(r"__index_level_[0-9]+__")
_MAX_TEXT = 2**20  # bytes, in all columns, so that a manifest does not become too large to be read


def choose_columns(
    table: Table, policy: Policy, withheld: Collection[str] = (), *, without_bounds: bool = False
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the columns to publish, each with its kind, and the names of those left out; `policy` is resolved.

    Parameters
    ----------
    table : Table
        Its columns' names and declared types.
    policy : Policy
        What holds for them.
    withheld : collection of str
        Columns that are never published: those that were the unit of privacy of an earlier release.
    without_bounds : bool
        Whether a covariance release may lack bounds, as it may as long as it is only planned.

    Raises
    ------
    PolicyError
        The policy and the table do not fit.
    """
    unknown = [name for name in policy.columns if name not in table.types]
    if unknown:
        raise PolicyError(f"the policy names columns that the table does not have: {listed(unknown)}")
    unit = policy.privacy.entity
    entity = unit.entity if unit else None
    if entity is not None and entity not in table.types:
        raise PolicyError(
            f"the unit of privacy is {entity!r}, which is not a column of the table: correct its name in the policy"
        )

    covariance = policy.privacy.release == "covariance"
    whole = "continuous" if policy.privacy.l2_radius is not None else "integer"  # what integers are published as
    kinds: dict[str, str] = {}
    left_out: list[str] = []
    for name, declared in table.types.items():
        entry = policy.column(name)
        if not declared.may_be_numbers or entry.drop or name == entity or name in withheld:
            left_out.append(name)
        elif covariance:
            kinds[name] = "continuous"  # second moments of numbers, whatever their kind
        elif entry.kind is not None:
            kinds[name] = whole if entry.kind == "boolean" else entry.kind
        else:
            kinds[name] = whole if declared is ColumnType.INTEGER else "continuous"

    _require_publishable(policy, kinds, left_out, without_bounds=without_bounds)
    return kinds, tuple(left_out)


def require_bounds(policy: Policy, kinds: dict[str, str]) -> None:
    """Refuse columns without declared bounds, where none can be found privately.

    Raises
    ------
    PolicyError
        The columns, and how to get bounds for them.
    """
    privacy = policy.privacy
    unbounded = [name for name in kinds if policy.column(name).bounds is None]
    if unbounded and privacy.release == "covariance":
        raise PolicyError(
            f"a covariance release needs declared bounds, which are missing for {listed(unbounded)}: write a policy "
            "with `dp-publish policy DATA`, and fill in the bounds from public knowledge, give words a kind "
            f"({KINDS_OF_WORDS}), or set drop = true"
        )
    if unbounded and privacy.snr_db is None and privacy.l2_radius is None:
        raise PolicyError(
            f"bounds are missing for {listed(unbounded)}, and only publishing with mu, rho or epsilon can find them "
            "privately: write a policy with `dp-publish policy DATA`, fill in the bounds from public knowledge (or set "
            "drop = true), and try again"
        )


def require_rows(table: Table, policy: Policy, kinds: dict[str, str]) -> None:
    """Refuse a table without rows before anything is booked, unless their number is private.

    Raises
    ------
    DataError
        There is no row.
    """
    if not policy.privacy.neighbours.n_rows_public:
        return
    first = dict(list(kinds.items())[:1])
    if not any(batch.num_rows for batch in table.read(first, 1)):
        raise DataError("the table has no rows to publish")


def _require_publishable(policy: Policy, kinds: dict[str, str], left_out: list[str], *, without_bounds: bool) -> None:
    meant = [name for name in left_out if policy.column(name).bounds is not None and not policy.column(name).drop]
    if meant:
        raise PolicyError(
            f"the policy gives bounds to columns that are not published: {listed(meant)}, being text or a unit of "
            f'privacy; give dates kind = "date" or "time", and words {KINDS_OF_WORDS} in place of bounds, convert text '
            "that holds numbers in the data, or set drop = true"
        )
    if not kinds:
        raise PolicyError(
            "there is no column to publish: the policy drops each, or gives no kind "
            f'({KINDS_OF_WORDS}; "date" or "time") to its text'
        )
    _require_no_index(policy, kinds)
    _require_size(policy, kinds)
    for name in kinds:
        try:
            require_one_line(name)
        except ValueError as error:
            raise PolicyError(f"the name of a column to be published, {error}, or set drop = true for it") from error

    if policy.privacy.release == "rows":
        _require_limits_of_rows(policy, kinds)
        return
    if CONSTANT_LABEL in kinds:
        raise PolicyError(
            f"a column is called {CONSTANT_LABEL}, a name that is reserved for the constant of a covariance: rename it"
        )
    if not without_bounds:
        require_bounds(policy, kinds)


def _require_no_index(policy: Policy, kinds: dict[str, str]) -> None:
    """Refuse the labels of rows, which are written along with a table unasked, unless the policy declares them."""
    if "" in kinds:
        raise PolicyError(
            'a column has no name, like an index that was saved with the data: set drop = true under [columns.""] in '
            "the policy, as `dp-publish policy DATA` does, or rename it in the data"
        )
    undeclared = [name for name in kinds if policy.column(name).bounds is None and policy.column(name).kind is None]
    indexes = [name for name in undeclared if _PANDAS_INDEX.fullmatch(name)]
    if indexes:
        raise PolicyError(
            f"the table holds row labels, which pandas saved as {listed(indexes)}: set drop = true "
            f"under [columns.{indexes[0]}] in the policy, as `dp-publish policy DATA` does, or a kind to publish it"
        )


def _require_size(policy: Policy, kinds: dict[str, str]) -> None:
    """Refuse more columns, and longer names and descriptions, than a reader takes in a manifest."""
    if len(kinds) > MAX_COLUMNS:
        raise PolicyError(f"a bundle has at most {MAX_COLUMNS} columns, not {len(kinds)}: set drop = true for some")
    described = (policy.column(name) for name in kinds)
    if sum(len(f"{entry.description}{entry.unit}".encode()) for entry in described) > _MAX_TEXT:
        raise PolicyError(f"descriptions and units have more than {_MAX_TEXT} bytes together: shorten them")
    if any(len(name) > _MAX_NAME for name in kinds):
        raise PolicyError(
            f"a column to be published has a name of more than {_MAX_NAME} characters: rename it in the data, "
            "or set drop = true for it"
        )


def _require_limits_of_rows(policy: Policy, kinds: dict[str, str]) -> None:
    """Refuse rows without bounds where these cannot be found, and bounds where rows are clipped to a ball."""
    if policy.privacy.sigma is not None:
        require_bounds(policy, kinds)
    if policy.privacy.l2_radius is None:
        return
    bounded = [name for name in kinds if policy.column(name).bounds is not None]
    whole = [name for name, kind in kinds.items() if kind == "integer"]
    if bounded or whole:
        raise PolicyError(
            f"rows clipped to a ball (l2_radius) have neither bounds nor integer columns, unlike "
            f'{listed(bounded or whole)}: give center and scale, and kind = "continuous"'
        )
