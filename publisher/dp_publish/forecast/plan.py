"""The forecast for one table and its policy, which `dp-publish plan` shows.

Only names, declared types and the number of rows are read. They are in the metadata of Parquet and Arrow files, and are
counted in a text file.

**Which release**, where neither the policy nor an option says so: second moments, which are told far better than rows.
Take n rows of p columns of standard deviation s in bounds of width w. The noise of rows leaves an error of at least
sqrt(2 p / n) s w / mu in a covariance. That of second moments is at most one of sqrt(2) p w^2 / (4 mu n). For rows to
be as good, n has to be below p w^2 / (4 s)^2. That is a few times the number of columns, where chance alone hides
nearly all. So rows are of whoever asks for them, and a weaker guarantee never shows less.
"""

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from dp_bundle.base.errors import ParameterError, PolicyError, PrivacyError
from dp_bundle.base.machine import require_memory
from dp_bundle.base.quoting import listed
from dp_bundle.base.wording import typed
from dp_publish.covariance.calibration import in_two_rounds
from dp_publish.covariance.mechanisms.base import PureMechanism, mechanism_named
from dp_publish.data.faults import KINDS_OF_WORDS
from dp_publish.data.kinds import ColumnType, Kinds
from dp_publish.data.table import Source, Table, open_table
from dp_publish.forecast.assumptions import describe_spread
from dp_publish.forecast.outlook import GRID, Outlook, count_rows, forecast
from dp_publish.forecast.strengths import forecast_each, takes_mu
from dp_publish.policy.choices import DEFAULT_SPREAD
from dp_publish.policy.columns import Prepared, prepare
from dp_publish.policy.memory import plan_memory
from dp_publish.policy.model import Policy
from dp_publish.policy.open_columns import is_open
from dp_publish.rows.calibration import share_mu
from dp_publish.rows.private_bounds import rows_for_search

_CHOSEN = ("release", "mechanism", "neighbours", "sigma")  # entries that leave no choice
_WHY = "second moments are published, of which noise as a rule hides less than of noisy rows at the same price"
_OR_ROWS = typed("--release rows: rows, which any tool reads")


def choose_release(
    data: Source,
    policy: Policy,
    withheld: Collection[str] = (),
    *,
    opened: Table | None = None,
    may_search: bool = True,
) -> tuple[Prepared, str]:
    """Return the release of a policy that leaves it open, and its table, which is prepared once.

    Rows are of whoever asks for them, and of a single column, which has no correlations. Of a text file, what its
    columns are is found privately.

    Parameters
    ----------
    data : path, pyarrow.Table or data frame
        The table, of which names, types and the number of rows are read.
    policy : Policy
        As it was written.
    withheld : collection of str
        Columns that are never published.
    opened : Table, optional
        The same table, if it is open.
    may_search : bool
        Whether what columns are may be found privately; if not, the release is the policy's own.

    Returns
    -------
    prepared : Prepared
        The table, and the policy: as it was written, with the release, and resolved for its columns.
    why : str
        A sentence that says why this release; none where it was said before.

    Raises
    ------
    SchemaError, DataError, PolicyError
        The table and the policy do not go together.
    """
    table = open_table(data, policy.table) if opened is None else opened
    privacy, rows = policy.privacy, _changed(policy, "rows", find=True)
    covariance, chosen = _changed(policy, "covariance"), policy
    if privacy.model_fields_set & {*_CHOSEN} or privacy.unit == "change":
        is_left = privacy.release == "rows" and not privacy.model_fields_set & {*_CHOSEN[1:]} and is_open(rows)
        if may_search and is_left and ColumnType.UNKNOWN in table.types.values():
            chosen = rows
    elif may_search and is_open(covariance):
        prepared = prepare(data, covariance, withheld, opened=table)
        found = prepared.policy.sought
        if found is not None and in_two_rounds(covariance, dict.fromkeys(found.names, "continuous")):
            return prepared, f"{_WHY}{_OR_ROWS}"
        if found is not None and found.looked:
            chosen = rows
    return prepare(data, chosen, withheld, opened=table), ""


def _changed(policy: Policy, release: str, *, find: bool = False) -> Policy:
    return policy.with_privacy(release=release).changed(find=find)  # which counts as given from now on


@dataclass(frozen=True)
class Plan:
    """A forecast for one table.

    Attributes
    ----------
    prepared : Prepared
        The table, and what is known of its columns.
    n_rows : int
        How many rows it has.
    mechanism : str or None
        The mechanism of a covariance release; "auto" only where the policy's own strength would be refused.
    spread : float
        The assumed standard deviation of a column as a share of its width, where the policy gives none.
    rows : list of Outlook
        The forecast by increasing mu, the policy's own strength among them.
    own : Outlook or None
        The one at the policy's own strength, unless that cannot be forecast.
    focus : Outlook
        The strength that sentences are about: the policy's own, or else the one nearest to mu = 1.
    notes : list of str
        Sentences about what could not be forecast, or limits it.

    The repr leaves out the number of rows, which may be protected, and what is computed from it.
    """

    prepared: Prepared = field(repr=False)
    n_rows: int = field(repr=False)
    mechanism: str | None
    spread: float
    rows: list[Outlook] = field(repr=False)
    own: Outlook | None = field(repr=False)
    focus: Outlook = field(repr=False)
    notes: list[str] = field(default_factory=list, repr=False)

    @property
    def policy(self) -> Policy:
        """What is known of the columns; resolved."""
        return self.prepared.policy

    @property
    def kinds(self) -> Kinds:
        """The columns that would be published, and their kinds."""
        return self.prepared.counted

    @property
    def table(self) -> Table:
        """The table whose rows were counted."""
        return self.prepared.table

    @property
    def name(self) -> str:
        """The dataset's name."""
        return self.policy.dataset.name

    @property
    def unit(self) -> str:
        """The unit of privacy."""
        return self.policy.privacy.unit_name

    @property
    def release(self) -> str:
        """What the policy would release: "rows" or "covariance"."""
        return self.focus.planned.release

    @property
    def assumed(self) -> str:
        """What is assumed of the columns' standard deviations, as a phrase."""
        return describe_spread(self.policy, self.spread)

    def at(self, mus: Sequence[float]) -> list[Outlook]:
        """Return the outlook at other strengths, without those at which a release would be refused.

        Raises
        ------
        ParameterError, PrivacyError
            That is all of them.
        """
        return forecast_each(self.policy, self.kinds, self.n_rows, mus, self.spread, self.mechanism)[0]

    @property
    def is_pure(self) -> bool:
        """True where the second moments are released with a pure epsilon."""
        kind = None if self.mechanism is None else mechanism_named(self.mechanism)
        return kind is not None and issubclass(kind, PureMechanism)


def make_plan(data: Source, policy: Policy, *, spread: float = DEFAULT_SPREAD, max_memory: int | None = None) -> Plan:
    """Forecast what a release of a table would leave visible; nothing is spent, and no value is read.

    Parameters
    ----------
    data : Path, RemotePath, or a table in memory
        A table that `open_table` reads.
    policy : Policy
        As it was written. Bounds left open are forecast as if they were found privately, or, of a covariance release,
        declared later.
    spread : float
        The assumed standard deviation of a column as a share of its width, from 1e-6 to 0.5, where the policy gives
        none.
    max_memory : int, optional
        Bytes, beyond which a forecast is refused that may need more; by default what this machine can give.

    Raises
    ------
    SchemaError, PolicyError, ParameterError
        The table, the policy or `spread` does not allow a forecast.
    MemoryLimitError
        It may need more memory than it may have.
    """
    prepared, why = choose_release(data, policy)
    policy, kinds = prepared.policy, prepared.counted
    n_columns = len(kinds)
    require_memory(plan_memory(n_columns), max_memory, f"a forecast for {n_columns:,} columns")
    n_rows = count_rows(prepared)
    notes = [f"Without more said: {why}."] if why else []
    notes += [] if policy.sought is not None else _notes_on_bounds(n_rows, prepared.table, policy, kinds)

    own = None
    mechanism: str | None = policy.privacy.mechanism if policy.privacy.is_moments else None
    try:
        own = forecast(policy, kinds, n_rows, spread=spread)
    except (ParameterError, PrivacyError) as error:
        notes.append(f"A release at the policy's own strength would be refused: {error}.")
    else:
        mechanism = own.planned.mechanism_name
    rows, refused = forecast_each(policy, kinds, n_rows, GRID, spread, mechanism)
    notes += _notes_on_limits(policy, kinds, refused)
    notes += [] if mechanism is None else _notes_on_moments(policy, mechanism)
    if own is not None:
        others = [row for row in rows if not math.isclose(row.mu, own.mu, rel_tol=1e-6)]
        rows = sorted([own, *others], key=lambda row: row.mu)
    focus = own or min(rows, key=lambda row: abs(math.log(row.mu)))
    return Plan(prepared, n_rows, mechanism, spread, rows, own, focus, notes)


def _notes_on_limits(policy: Policy, kinds: Kinds, refused: list[tuple[float, str]]) -> Iterator[str]:
    """Yield notes on strengths that were not forecast, and on rows that are not published."""
    if refused:
        mus = ", ".join(f"{mu:g}" for mu, _ in refused)
        yield f"Not forecast: mu = {mus}, where a release would be refused ({refused[-1][1]})."
    if policy.privacy.unit_name == "entity" or any(policy.column(name).missing == "drop" for name in kinds):
        yield "The policy leaves out some rows, so fewer will be published than were counted here."


def _notes_on_bounds(n_rows: int, table: Table, policy: Policy, kinds: Kinds) -> Iterator[str]:
    """Yield notes on the bounds that the policy leaves out."""
    privacy, sections = policy.privacy, {name: policy.column(name) for name in kinds}
    missing = [name for name, each in sections.items() if each.bounds is None and "scale" not in each.model_fields_set]
    if table.layout is not None and missing:
        yield (
            f"A text file does not say which columns are numbers, so all are counted here: {listed(missing)}. One that "
            f"holds words or dates stops the release. Give it a kind ({KINDS_OF_WORDS}; "
            '"date" or "time"), or say drop = true; --look names all such columns.'
        )
    if not missing:
        return
    if privacy.is_moments:
        yield (
            f"The centers and scales of {listed(missing)} would be found privately over all numbers. Declare bounds to "
            "have them looked for within these, or centers and scales to spend nothing on them."
            if in_two_rounds(policy, kinds)
            else f"This release needs declared bounds for {listed(missing)}; it is forecast as if they were."
        )
        return
    yield (
        f"The bounds of {listed(missing)} would be found privately, with {privacy.bounds_share:.0%} of rho. Declare "
        "them to spend that share on the data, or to release second moments. Until they are known, sigma has no value "
        "in data units."
    )
    try:
        shares = share_mu(policy, kinds)
    except (PolicyError, PrivacyError):
        return
    enough = rows_for_search(shares.choice_mu, len(shares.searched)) if shares.searched else 0
    if n_rows < enough:
        yield (
            f"To find bounds reliably at the policy's own strength takes about {enough:,} rows: with fewer, a column "
            "may get bounds far from its values. Declare bounds, or protect less."
        )


def _notes_on_moments(policy: Policy, mechanism: str) -> Iterator[str]:
    """Yield notes on the noise of second moments."""
    kind = mechanism_named(mechanism)
    if not takes_mu(mechanism):
        yield f"from moments: with {mechanism} noise at the policy's own strength, with gaussian noise at the others."
    elif kind is not None and kind.forecast_as is not None:
        stand_in = kind.forecast_as.name
        yield f"from moments: with {stand_in} noise of the same epsilon, as {mechanism} noise cannot be forecast."
    else:
        yield f"from moments: with {'the best' if kind is None else mechanism} noise."
    if not policy.privacy.neighbours.n_rows_public:
        yield "The ledger enters an add-remove release at its cost for a row that is replaced, which is more than mu."
