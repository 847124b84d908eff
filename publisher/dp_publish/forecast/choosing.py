"""Which release: noisy rows, which any tool reads, or second moments, where rows would show nothing.

The choice is by the forecast, from public facts alone, and only where neither the policy nor an option makes it.
"""

from __future__ import annotations

from collections.abc import Collection

from dp_bundle.base.errors import ParameterError, PolicyError, PrivacyError
from dp_bundle.files.places import Place
from dp_publish.covariance.calibration import in_two_rounds
from dp_publish.forecast.advice import forecast_drawn, shows_something
from dp_publish.forecast.strengths import printed_mu
from dp_publish.policy.columns import prepare
from dp_publish.policy.model import Policy
from dp_publish.policy.open_columns import Candidates, is_open

_LEVELS = 3
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
        found = _changed(policy, "rows", find="all")
        asked = privacy.release == "rows" and not privacy.model_fields_set & {*_CHOSEN[1:]} and is_open(found)
        return (found if asked else policy), ""
    covariance = _changed(policy, "covariance")
    moments = prepare(data, covariance, withheld)
    kinds, n_rows = dict.fromkeys(moments.kinds, "continuous"), moments.count_rows()
    in_moments = forecast_drawn(moments.policy, kinds, n_rows) if in_two_rounds(moments.policy, kinds) else None
    seen = None if in_moments is None else in_moments.moments.clearest

    find = (
        "" if moments.found is None else "all" if _shows_rows(policy, _with_words(moments.found), n_rows) else "numbers"
    )
    own = _of_rows(data, policy, withheld) if moments.found is None else (policy, _numbers_of(moments.found))
    if _shows_rows(*own, n_rows):
        more = (
            f"; second moments (--release covariance) would show partial correlations from about {seen:.2g} on"
            if seen is not None
            else ""
        )
        return _changed(policy, "rows", find=find), f"noisy rows are published, which any tool reads{more}"
    if in_moments is None or not (is_open(covariance) or shows_something(in_moments, "covariance", len(kinds))):
        return policy, ""
    hidden = f"noisy rows would show nothing of these columns at mu = {printed_mu(in_moments.mu)}"
    return covariance, f"second moments are published, as {hidden} (--release rows, or more rows, decides otherwise)"


def _numbers_of(found: Candidates) -> dict[str, str]:
    """Return the columns that rows may hold without words: of a text file, all."""
    return dict.fromkeys([*found.looked, *found.typed], "continuous")


def _with_words(found: Candidates) -> dict[str, str]:
    """Return as many columns as rows have with words, taken to have three levels each; of a text file half are words."""
    levels = [f"{name}={level}" for name in (*found.words, *found.looked[::2]) for level in range(_LEVELS - 1)]
    return dict.fromkeys([*found.names, *levels], "continuous")


def _shows_rows(policy: Policy, kinds: dict[str, str], n_rows: int) -> bool:
    """Return whether noisy rows of such columns would show something."""
    try:
        return bool(kinds) and shows_something(forecast_drawn(policy, kinds, n_rows), "rows", len(kinds))
    except (PolicyError, PrivacyError, ParameterError):
        return False


def _of_rows(data: Place, policy: Policy, withheld: Collection[str]) -> tuple[Policy, dict[str, str]]:
    """Return the policy and the columns of a release of rows, none if there can be none."""
    try:
        prepared = prepare(data, policy, withheld)
    except PolicyError:
        return policy, {}
    return prepared.policy, prepared.kinds


def _changed(policy: Policy, release: str, *, find: str = "") -> Policy:
    privacy = policy.privacy.model_copy(update={"release": release})
    privacy.model_fields_set.add("release")
    return policy.model_copy(update={"privacy": privacy, "find": find})
