"""What a release would promise, and what it is, in the words of the label."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from dp_bundle.catalog.label import FROM_WHOM, describe_who, is_weak
from dp_bundle.describe.sentences import chance_of_guess, describe_guess, describe_hundred, describe_unprotected
from dp_bundle.manifest.guarantee import Guarantee
from dp_publish.forecast.assumptions import calibrate_assumed
from dp_publish.forecast.findings import HELD
from dp_publish.forecast.plan import Plan
from dp_publish.policy.model import Policy
from dp_publish.policy.open_columns import declares_no_values

_USUAL = (
    "Noisy rows are published, as always where something is declared of columns and nothing of the release: choose "
    "second moments by hand where these show more."
)
_CHOSEN = {
    "rows": "Noisy rows are published, as was chosen.",
    "covariance": "Second moments are published, as was chosen.",
    "copula": "A histogram of each column is published, and how columns go together, as was chosen.",
}


@dataclass(frozen=True)
class Promise:
    """What would be promised, in the words of the label.

    Attributes
    ----------
    right : float
        The largest share of right guesses between two candidates.
    sentences : dict of str to list of str
        By what they are about: who, from whom, how strongly, and what is not protected.
    is_weak : bool
        Whether the label will call it weak.
    """

    right: float
    sentences: Mapping[str, list[str]]
    is_weak: bool


def promise_in_words(guarantee: Guarantee, policy: Policy, kinds: Mapping[str, str]) -> Promise:
    """Return the promise in the label's words."""
    release = "covariance" if policy.privacy.is_moments else "rows"
    columns = calibrate_assumed(policy, kinds)[0] if release == "rows" else []
    right = chance_of_guess(guarantee, columns)
    guess = describe_guess(guarantee, columns).removeprefix("In words: ")
    return Promise(
        right,
        {
            "who": [describe_who(guarantee, release)],
            "from whom": [FROM_WHOM],
            "how strongly": [guess[:1].upper() + guess[1:], describe_hundred(right)],
            "not protected": describe_unprotected(guarantee, release, columns),
        },
        is_weak(right),
    )


def describe_held(plan: Plan) -> str:
    """Return what researchers would see, in words for everybody."""
    held = HELD["copula" if plan.policy.privacy.has_margins else plan.release]
    seen = plan.focus.of(plan.release).seen
    if len(plan.kinds) == 1 or (plan.kind is not None and plan.kind.forecast_as is not None):
        return held
    if seen is None:
        return f"{held} By the forecast, no relation between columns is found."
    where = f"stronger than about {seen:.2g} on a scale from 0 to 1"
    return f"{held} By the forecast, relations between columns are found if they are {where}."


def describe_choice(policy: Policy, why: str, written: Policy) -> Iterator[str]:
    """Yield what is published, why, and what follows from what is declared."""
    is_chosen = "release" in written.privacy.model_fields_set
    is_open = declares_no_values(policy)
    usual = _CHOSEN[policy.privacy.release] if is_chosen else "Noisy rows are published." if is_open else _USUAL
    yield f"{why[:1].upper()}{why[1:]}." if why else usual
    if not is_open:
        yield (
            "As something is declared of what columns hold, kinds and levels are not looked for: a column of words or "
            "dates has to have its kind declared, or is left out."
        )
