"""A table as a policy has it published: a section of the policy for each column, the columns chosen, and their kinds.

Facts that a release makes public under a policy, in the words of the manifest.
"""

import fnmatch
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import ValidationError

from dp_bundle.base.errors import PolicyError
from dp_bundle.base.quoting import listed
from dp_bundle.base.wording import LEAVE_IT_OUT, LEAVE_OUT, Phrase
from dp_bundle.manifest.columns import Column, source_names
from dp_bundle.manifest.guarantee import GAPS_PUBLIC, NUMBER_PUBLIC, ORDER_PUBLIC, PARTITION_PUBLIC, TOGETHER_PUBLIC
from dp_bundle.manifest.release import CONSTANT_LABEL, MAX_COLUMNS
from dp_publish.data.faults import KINDS_OF_WORDS
from dp_publish.data.kinds import AS_IT_IS, ColumnType, Kinds
from dp_publish.data.table import Source, Table, coded, open_table
from dp_publish.policy.coded_columns import (
    code_columns,
    is_coded,
    other_type,
    raw_names,
    signs_of,
    with_numbers_in_text,
)
from dp_publish.policy.mistakes import describe_mistake
from dp_publish.policy.model import ColumnPolicy, Policy
from dp_publish.policy.open_columns import find_candidates, is_open, require_printable, why_withheld

_MAX_NAME = 1_000  # characters; what a manifest takes
_PANDAS_INDEX = re.compile(r"__index_level_[0-9]+__")
_MAX_TEXT = 2**20  # bytes, in all columns, so that a manifest does not become too large to be read
_FILL_IN = Phrase("write a policy with `dp-publish policy DATA`, and fill in", "fill in")
_LEAVE_SOME_OUT = Phrase("set drop = true for some", "leave some out")
_SAY_KIND = Phrase("or a kind in the policy", "or say what it holds")
_OR_KIND = Phrase("or a kind", "or say what it holds")
_OF_NUMBERS = ("bounds", "center", "scale", "spread", "max_change")


@dataclass(frozen=True)
class Prepared:
    """A table that was opened and looked at, for a policy.

    Attributes
    ----------
    data : path, pyarrow.Table or data frame
        Where it is.
    table : Table
        With published columns in place of those that are no numbers.
    written : Policy
        As it was written.
    policy : Policy
        Resolved; but as it was written, like the table, where what columns are is yet to be found privately (`sought`).
    kinds : dict of str to str
        The columns to publish, each with its kind.
    left_out : dict of str to str
        All others, and why.
    """

    data: Source = field(repr=False)
    table: Table = field(repr=False)
    written: Policy = field(repr=False)
    policy: Policy
    kinds: Kinds
    left_out: dict[str, str] = field(repr=False)

    def count_rows(self) -> int:
        """Return the number of rows; see `Table.count_rows`."""
        return self.table.count_rows()

    @property
    def counted(self) -> Kinds:
        """The columns as a forecast counts them: as numbers where what they hold is yet to be found."""
        return self.kinds if self.policy.sought is None else dict.fromkeys(self.kinds, "continuous")


def prepare(data: Source, policy: Policy, withheld: Collection[str] = (), *, opened: Table | None = None) -> Prepared:
    """Open a table, unless it is `opened`, and work the policy in: see `resolve` and `choose_columns`.

    A scale names columns that may be published. What is found privately later, when the release is paid for, may leave
    some of them out, or make them categories. These have no scores then.
    """
    table, written = open_table(data, policy.table) if opened is None else opened, policy
    if is_open(policy):
        _require_entity(table, policy)
        policy = _by_name(table, policy)
        found = find_candidates(table, policy, withheld)
        policy = policy.changed(sought=found)
        kinds, left_out = dict.fromkeys(found.names, AS_IT_IS), found.left_out
    else:
        table, policy = resolve(table, policy, withheld)
        kinds, left_out = choose_columns(table, policy, withheld)
    scale, published = policy.privacy.scale, raw_names(kinds, policy.sources)
    unknown = [name for name in scale if name not in published] if isinstance(scale, tuple) else []
    if unknown:
        raise PolicyError(f"no column that is published is called {listed(unknown)}", "privacy.scale")
    return Prepared(data, table, written, policy, kinds, left_out)


def resolve(table: Table, policy: Policy, withheld: Collection[str] = ()) -> tuple[Table, Policy]:
    """Return the policy with a section for every column of the table and no patterns, and the table that it is about.

    Columns that are no numbers (`coded_columns`) are replaced by those that are published for them, in both. What was
    resolved before may be resolved again.

    A name with `*` (any letters) or `?` (any one letter) that is no column's is a pattern. Each entry of a column is
    taken from the most specific place that gives it. That is the column's own section, else the longest pattern that
    matches, of equally long ones the last. A column of truth values has bounds 0 and 1 unless its own section gives
    others. A column that is not published keeps its own section alone.

    Parameters
    ----------
    table : Table
        The columns' names and types are taken from it.
    policy : Policy
        As it was written, or as it was returned from here.
    withheld : collection of str
        Columns that are never published.

    Raises
    ------
    PolicyError
        A name or a pattern is no column's, or what patterns say of a column contradicts its own section. A column is
        not of its kind, or one of a data frame has neither a type nor a kind.
    """
    table = with_numbers_in_text(coded(table, policy.sources), policy)
    in_order = {name: table.types[name] for name in policy.columns if policy.like and name in table.types}
    table = replace(table, types=in_order | table.types)
    patterns = _patterns(table, policy)
    skipped = {*withheld, policy.privacy.owner}
    sections = {name: _section(name, table, policy, patterns[name], name in skipped) for name in table.types}
    _require_types(table, {name: entry for name, entry in sections.items() if name not in skipped})
    policy = policy.changed(columns=sections)
    return code_columns(coded(table, (), signs_of(policy)), policy, skipped)


def _patterns(table: Table, policy: Policy) -> dict[str, list[str]]:
    """Return the patterns of the policy that match each column, the longest last; refuse names that are no column's."""
    patterns = sorted((name for name in policy.columns if name not in table.types and {"*", "?"} & {*name}), key=len)
    unknown = [name for name in policy.columns if name not in table.types and name not in patterns]
    if unknown:
        said = f"{policy.like or 'the policy'} names columns that the table does not have"
        raise PolicyError(f"{said}: {listed(unknown)}")
    matched = {pattern: set(fnmatch.filter(table.types, pattern.replace("[", "[[]"))) for pattern in patterns}
    idle = [pattern for pattern in patterns if not matched[pattern]]
    if idle:
        raise PolicyError(f"the policy has patterns that match no column of the table: {listed(idle)}")
    return {name: [pattern for pattern in patterns if name in matched[pattern]] for name in table.types}


def _by_name(table: Table, policy: Policy) -> Policy:
    """Return a policy that declares nothing of what columns hold with its patterns' entries in sections by name."""
    found = _patterns(table, policy)
    sections = {
        name: ColumnPolicy.model_validate(_given(policy, [*found[name], name]))
        for name in table.types
        if found[name] or name in policy.columns
    }
    return policy.changed(columns=sections)


def _given(policy: Policy, places: Sequence[str]) -> dict[str, Any]:
    """Return the entries that sections give, those of later ones in place of those of earlier ones."""
    given: dict[str, Any] = {}
    for place in places:
        given |= policy.column(place).model_dump(exclude_unset=True)
    return given


def _require_entity(table: Table, policy: Policy) -> None:
    """Refuse a unit of privacy that is no column of the table."""
    name = policy.privacy.owner
    if name is not None and name not in table.types:
        raise PolicyError(
            f"the unit of privacy is {name!r}, which is not a column of the table: correct its name",
            "privacy.unit.entity",
        )


def _require_types(table: Table, sections: Mapping[str, ColumnPolicy]) -> None:
    """Refuse columns of a data frame of which neither the frame nor the policy says what they are."""
    objects = [name for name, entry in sections.items() if table.types[name] is ColumnType.OBJECT and not entry.drop]
    undeclared = [name for name in objects if sections[name].kind is None]
    if not undeclared:
        return
    column = f"frame[{undeclared[0]!r}]"
    raise PolicyError(
        "columns of the data frame have no type (dtype object, or category without one), so that one cell would decide "
        f"how they are published: {listed(undeclared)}; give each a type, as in {column} = "
        f"{column}.astype('Float64') (or 'Int64', 'boolean', 'string'), {_SAY_KIND}, or {LEAVE_IT_OUT}",
        "kind",
        *undeclared,
    )


def _section(name: str, table: Table, policy: Policy, patterns: list[str], withheld: bool) -> ColumnPolicy:
    own = policy.column(name)
    entry, privacy = own, policy.privacy
    if patterns:
        given, meant = _given(policy, [*patterns, name]), own.model_fields_set
        if given.get("kind") not in ("date", "time") and "format" not in meant:
            given.pop("format", None)
        if given.get("categories") or given.get("levels"):  # what patterns say of numbers is not about levels
            given = {entry: value for entry, value in given.items() if entry not in _OF_NUMBERS or entry in meant}
        try:
            entry = ColumnPolicy.model_validate(given)
        except ValidationError as error:
            said = describe_mistake(error, start=("columns", name))
            raise PolicyError(f"the policy's patterns and sections together, at {said}", "", name) from error

    declared, left_out = table.types[name], entry.drop or withheld
    if not left_out and is_coded(entry, declared):
        return entry
    if left_out or not declared.may_be_numbers:
        if own.kind is not None and not left_out:
            raise other_type(name, own.kind, declared)
        return own.changed(drop=entry.drop)

    if not entry.holds.is_truth and name not in table.booleans:
        whole = entry.kind is None and declared is ColumnType.INTEGER and privacy.is_moments
        return entry.changed(kind="integer") if whole else entry
    kind = "integer" if entry.holds.is_truth else entry.kind
    bounds = own.bounds if own.bounds is not None else (0.0, 1.0)
    is_plain = own.bounds is None and entry.missing in ("refuse", "drop")
    if privacy.is_moments and name in table.booleans and is_plain:
        return entry.changed(kind="boolean", levels=["false", "true"], bounds=None)
    return entry.changed(kind=kind, bounds=bounds)


def choose_columns(table: Table, policy: Policy, withheld: Collection[str] = ()) -> tuple[Kinds, dict[str, str]]:
    """Return the columns to publish, each with its kind, and those left out, each with the reason.

    Parameters
    ----------
    table : Table
        Its columns' names and declared types.
    policy : Policy
        What holds for them; resolved.
    withheld : collection of str
        Columns that are never published: those that were the unit of privacy of an earlier release.

    Raises
    ------
    PolicyError
        The policy and the table do not fit.
    """
    _require_entity(table, policy)
    kinds: Kinds = {}
    left_out: dict[str, str] = {}
    for name, declared in table.types.items():
        entry, why = policy.column(name), why_withheld(name, policy, withheld)
        if why or not declared.may_be_numbers:
            left_out[name] = why or "neither a number nor given a kind of its own"
        elif policy.privacy.is_moments:
            kinds[name] = "continuous"  # second moments of numbers, whatever their kind
        elif entry.kind is not None:
            kinds[name] = "integer" if entry.holds.is_truth else entry.kind
        else:
            kinds[name] = "integer" if declared is ColumnType.INTEGER else "continuous"

    _require_publishable(policy, kinds, left_out)
    return kinds, left_out


def require_bounds(policy: Policy, kinds: Kinds) -> None:
    """Refuse columns without declared bounds, where none can be found privately.

    Raises
    ------
    PolicyError
        The columns, and how to get bounds for them.
    """
    unbounded = [name for name in kinds if policy.column(name).bounds is None]
    if not unbounded:
        return
    which = listed(unbounded)
    said = f"bounds are missing for {which}, and only publishing with mu, rho or epsilon can find them privately"
    if policy.privacy.is_moments:
        others = "a covariance release by another mechanism than two rounds"
        said = f"{others} needs declared bounds, which are missing for {which}"
    raise PolicyError(
        f"{said}: {_FILL_IN} the bounds from public knowledge, or {LEAVE_OUT}",
        "bounds",
        *unbounded,
    )


def _require_publishable(policy: Policy, kinds: Kinds, left_out: Collection[str]) -> None:
    meant = [name for name in left_out if policy.column(name).bounds is not None and not policy.column(name).drop]
    if meant:
        raise PolicyError(
            f"the policy gives bounds to columns that are not published: {listed(meant)}, being text or a unit of "
            f'privacy. Give dates kind = "date" or "time", and words {KINDS_OF_WORDS} in place of bounds. Convert text '
            f"that holds numbers in the data, or {LEAVE_OUT}",
            "bounds",
            *meant,
        )
    if not kinds:
        raise PolicyError(
            "there is no column to publish: the policy drops each, or gives no kind "
            f'({KINDS_OF_WORDS}; "date" or "time") to its text'
        )
    _require_no_index(policy, kinds)
    _require_size(policy, kinds)
    for name in kinds:
        require_printable(name)

    if policy.privacy.release == "rows":
        if policy.privacy.sigma is not None:
            require_bounds(policy, kinds)
        return
    if CONSTANT_LABEL in kinds:
        raise PolicyError(
            f"a column is called {CONSTANT_LABEL}, a name that is reserved for the constant of a covariance: rename it",
            "drop",
            CONSTANT_LABEL,
        )


def _require_no_index(policy: Policy, kinds: Kinds) -> None:
    """Refuse the labels of rows, which are written along with a table unasked, unless the policy declares them."""
    if "" in kinds:
        leave_out = _leave_index_out('""')
        raise PolicyError(
            f"a column has no name, like an index that was saved with the data: {leave_out}, or rename it in the data",
            "drop",
            "",
        )
    undeclared = [name for name in kinds if policy.column(name).bounds is None and policy.column(name).kind is None]
    indexes = [name for name in undeclared if _PANDAS_INDEX.fullmatch(name)]
    if indexes:
        raise PolicyError(
            f"the table holds row labels, which pandas saved as {listed(indexes)}: "
            f"{_leave_index_out(indexes[0])}, {_OR_KIND} to publish it",
            "drop",
            *indexes,
        )


def _leave_index_out(name: str) -> Phrase:
    return Phrase(
        f"set drop = true under [columns.{name}] in the policy, as `dp-publish policy DATA` does", LEAVE_OUT.chosen
    )


def _require_size(policy: Policy, kinds: Kinds) -> None:
    """Refuse more columns, and longer names and descriptions, than a reader takes in a manifest."""
    if len(kinds) > MAX_COLUMNS:
        raise PolicyError(f"a bundle has at most {MAX_COLUMNS} columns, not {len(kinds)}: {_LEAVE_SOME_OUT}")
    described = (policy.column(name) for name in kinds)
    if sum(len(f"{entry.description}{entry.unit}".encode()) for entry in described) > _MAX_TEXT:
        raise PolicyError(f"descriptions and units have more than {_MAX_TEXT} bytes together: shorten them")
    if any(len(name) > _MAX_NAME for name in kinds):
        raise PolicyError(
            f"a column to be published has a name of more than {_MAX_NAME} characters: rename it in the data, "
            f"or {LEAVE_IT_OUT}"
        )


def stated_of_policy(policy: Policy, columns: Sequence[Column], partition: str | None) -> dict[str, Any]:
    """Return what a guarantee says that follows from the policy: whom it protects, and what not."""
    privacy, entity = policy.privacy, policy.privacy.entity
    unit = {"unit": privacy.unit_name, **(entity.model_dump() if entity else {})}
    return {**unit, "neighbours": privacy.neighbours, "public": _public_facts(policy, columns, partition)}


def _public_facts(policy: Policy, columns: Sequence[Column], partition: str | None) -> tuple[str, ...]:
    """Return what the guarantee does not protect; where rows may come and go, at most the partition's name."""
    privacy = policy.privacy
    part = [f"{PARTITION_PUBLIC}{partition!r}"] if partition is not None else []
    if not privacy.neighbours.n_rows_public:
        return tuple(part)

    together = [TOGETHER_PUBLIC] if privacy.entity else []
    dropping = source_names([column for column in columns if column.missing == "drop"])
    gaps = [f"{GAPS_PUBLIC}{listed(dropping)}"] if dropping else []
    if privacy.is_moments:
        return (NUMBER_PUBLIC, *part, *together, *gaps)
    return (ORDER_PUBLIC, *together, *part, *gaps)
