"""Which release: noisy rows, which any tool reads, or second moments, where rows would show nothing.

The choice is by the forecast, from public facts alone, and only where neither the policy nor an option makes it.
"""

from __future__ import annotations

from collections.abc import Collection

from dp_bundle.base.errors import ParameterError, PolicyError, PrivacyError
from dp_bundle.files.places import Place
from dp_publish.covariance.calibration import in_two_rounds
from dp_publish.data.kinds import ColumnType
from dp_publish.forecast.advice import forecast_drawn, shows_something
from dp_publish.forecast.strengths import printed_mu
from dp_publish.policy.columns import prepare
from dp_publish.policy.model import Policy
from dp_publish.policy.open_columns import declares_nothing

_CHOSEN = ("release", "mechanism", "neighbours", "sigma", "snr_db", "l2_radius")  # entries that leave no choice


def choose_release(data: Place, policy: Policy, withheld: Collection[str] = ()) -> tuple[Policy, str]:
    """Return a policy that says what is released, and a sentence that says why; none where it was said before.

    Parameters
    ----------
    data : Path or RemotePath
        The table, of which names, types and the number of rows are read.
    policy : Policy
        As it was written.
    withheld : collection of str
        Columns that are never published.
    """
    privacy = policy.privacy
    if privacy.model_fields_set & {*_CHOSEN} or privacy.unit == "change":
        return policy, ""
    covariance = _changed(policy, "covariance")
    moments = prepare(data, covariance, withheld)
    kinds, n_rows = dict.fromkeys(moments.kinds, "continuous"), moments.count_rows()
    two_rounds = in_two_rounds(moments.policy, kinds)
    in_moments = forecast_drawn(moments.policy, kinds, n_rows) if two_rounds else None
    seen = None if in_moments is None else in_moments.moments.clearest

    if _shows_rows(data, policy, withheld, n_rows):
        more = f"; second moments (--release covariance) would show partial correlations from about {seen:.2g} on"
        said = f"noisy rows are published, which any tool reads{'' if seen is None else more}"
        find = declares_nothing(policy) and ColumnType.UNKNOWN in moments.table.types.values()
        return (_changed(policy, "rows", find=True) if find else policy), said
    if in_moments is None or not shows_something(in_moments, "covariance", len(kinds)):
        return policy, ""
    hidden = f"noisy rows would show nothing of these columns at mu = {printed_mu(in_moments.mu)}"
    return covariance, f"second moments are published, as {hidden} (--release rows, or more rows, decides otherwise)"


def _shows_rows(data: Place, policy: Policy, withheld: Collection[str], n_rows: int) -> bool:
    """Return whether noisy rows would show something, as far as they can be published."""
    try:
        prepared = prepare(data, policy, withheld)
        row = forecast_drawn(prepared.policy, prepared.kinds, n_rows)
    except (PolicyError, PrivacyError, ParameterError):
        return False
    return shows_something(row, "rows", len(prepared.kinds))


def _changed(policy: Policy, release: str, *, find: bool = False) -> Policy:
    privacy = policy.privacy.model_copy(update={"release": release})
    privacy.model_fields_set.add("release")
    return policy.model_copy(update={"privacy": privacy, "find": find})
