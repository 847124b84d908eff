"""The forecast for one table and its policy, which `dp-publish plan` shows.

Only names, declared types and the number of rows are read. They are in the metadata of Parquet and Arrow files, and are
counted in a text file.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from dp_bundle.base.errors import ParameterError, PolicyError, PrivacyError
from dp_bundle.base.machine import require_memory
from dp_bundle.base.quoting import listed
from dp_publish.covariance.calibration import in_two_rounds
from dp_publish.covariance.mechanisms.base import PureMechanism
from dp_publish.covariance.mechanisms.registry import mechanism_named
from dp_publish.data.faults import KINDS_OF_WORDS
from dp_publish.data.kinds import Kinds
from dp_publish.data.table import Source, Table
from dp_publish.forecast.assumptions import describe_spread
from dp_publish.forecast.choosing import choose_release
from dp_publish.forecast.outlook import GRID, Outlook, count_rows, forecast
from dp_publish.forecast.strengths import forecast_each, takes_mu
from dp_publish.policy.choices import DEFAULT_SPREAD
from dp_publish.policy.columns import Prepared
from dp_publish.policy.memory import plan_memory
from dp_publish.policy.model import Policy
from dp_publish.rows.calibration import share_mu
from dp_publish.rows.private_bounds import rows_for_search


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
