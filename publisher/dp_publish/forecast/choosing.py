"""Which release: noisy rows, which any tool reads, or second moments, where rows would show nothing.

The choice is by the forecast, from public facts alone, and only where neither the policy nor an option makes it.
"""

from collections.abc import Collection

from dp_bundle.base.errors import ParameterError, PolicyError, PrivacyError
from dp_publish.covariance.calibration import in_two_rounds
from dp_publish.data.kinds import ColumnType
from dp_publish.data.table import Source, Table
from dp_publish.forecast.advice import forecast_drawn, shows_something
from dp_publish.forecast.assumptions import with_some_words
from dp_publish.forecast.strengths import printed_mu
from dp_publish.policy.columns import Prepared, prepare
from dp_publish.policy.model import ColumnPolicy, Policy, Sought
from dp_publish.policy.open_columns import IDENTIFIER, is_open

_CHOSEN = ("release", "mechanism", "neighbours", "sigma")  # entries that leave no choice


def choose_release(
    data: Source, policy: Policy, withheld: Collection[str] = (), *, anyway: bool = False, opened: Table | None = None
) -> tuple[Policy, str]:
    """Return a policy that says what is released, and a sentence that says why; none where it was said before.

    Rows of a typed table hold its numbers, with gaps at the middle of bounds, and no column that is by its name an
    identifier; of a text file, what its columns are is found privately.

    Parameters
    ----------
    data : path, pyarrow.Table or data frame
        The table, of which names, types and the number of rows are read.
    policy : Policy
        As it was written.
    withheld : collection of str
        Columns that are never published.
    anyway : bool
        Whether rows are published whatever they show, so that nothing is chosen.
    opened : Table, optional
        The same table, if it is open.
    """
    privacy = policy.privacy
    if privacy.model_fields_set & {*_CHOSEN} or privacy.unit == "change":
        asked = _changed(policy, "rows", find="all")
        open_rows = privacy.release == "rows" and not privacy.model_fields_set & {*_CHOSEN[1:]} and is_open(asked)
        untyped = open_rows and _is_untyped(prepare(data, asked, withheld, opened=opened))
        return (asked if untyped else policy), ""
    covariance = _changed(policy, "covariance")
    if anyway or not is_open(covariance):
        return policy, ""
    prepared = prepare(data, covariance, withheld, opened=opened)
    found, n_rows = prepared.policy.sought, prepared.count_rows()
    if found is None:
        return policy, ""
    kinds = dict.fromkeys(found.names, "continuous")
    if not in_two_rounds(covariance, kinds):  # such as a single column, which has no correlations
        return (_changed(policy, "rows", find="all") if found.looked else policy), ""

    row = forecast_drawn(prepared.policy, kinds, n_rows)
    untyped = _is_untyped(prepared)
    if _shows_rows(policy, dict.fromkeys(found.names if untyped else found.typed, "continuous"), n_rows):
        seen = row.moments.clearest
        shows = "" if seen is None else f" would show partial correlations from about {seen:.2g} on"
        more = f"; second moments (--release covariance){shows}" if shows else ""
        find = "all" if _shows_rows(policy, with_some_words(prepared.policy)[1], n_rows) else "numbers"
        chosen = _changed(policy, "rows", find=find) if untyped else _typed_rows(policy, found)
        return chosen, f"noisy rows are published, which any tool reads{more}"
    hidden = f"noisy rows would show nothing of these columns at mu = {printed_mu(row.mu)}"
    return covariance, f"second moments are published, as {hidden} (--release rows, or more rows, decides otherwise)"


def _is_untyped(prepared: Prepared) -> bool:
    """Return whether only the cells tell what a column holds."""
    return ColumnType.UNKNOWN in prepared.table.types.values()


def _typed_rows(policy: Policy, found: Sought) -> Policy:
    """Return a policy for the numbers of a typed table."""
    dropped = {name: ColumnPolicy(drop=True) for name, why in found.left_out.items() if why == IDENTIFIER}
    filled = {name: policy.column(name).model_copy(update={"missing": "midpoint"}) for name in found.typed}
    return policy.model_copy(update={"columns": {**policy.columns, **dropped, **filled}})


def _shows_rows(policy: Policy, kinds: dict[str, str], n_rows: int) -> bool:
    """Return whether noisy rows of such columns would show something."""
    try:
        return bool(kinds) and shows_something(forecast_drawn(policy, kinds, n_rows), "rows", len(kinds))
    except (PolicyError, PrivacyError, ParameterError):
        return False


def _changed(policy: Policy, release: str, *, find: str = "") -> Policy:
    privacy = policy.privacy.model_copy(update={"release": release})  # which counts as given from now on
    return policy.model_copy(update={"privacy": privacy, "find": find})
