"""Sentences of a plan's page that do not depend on the strength: who is protected, against whom, and what is not."""

from __future__ import annotations

from dp_bundle.base.quoting import quote
from dp_bundle.describe.sentences import describe_unprotected
from dp_bundle.manifest.guarantee import Guarantee
from dp_publish.forecast.page.command_lines import Asked
from dp_publish.forecast.plan import Plan


def change(guarantee: Guarantee) -> str:
    """Return what neighbouring tables differ in, as a clause."""
    if guarantee.unit == "entity":
        rows = f"all rows of one {quote(guarantee.entity or '')}, at most {guarantee.max_rows} of them,"
        return f"{rows} are replaced by any others" if guarantee.neighbours.n_rows_public else f"{rows} are left out"
    if not guarantee.neighbours.n_rows_public:
        return "one row is left out"
    if guarantee.unit == "change":
        return "one count is larger or smaller by as much as the policy's max_change"
    return f"one {guarantee.unit} is replaced by any other"


def protected(plan: Plan, guarantee: Guarantee) -> str:
    """Return what is protected: of second moments, a whole row where the unit is a cell."""
    if guarantee.unit == "entity":
        return f"the rows of one {quote(guarantee.entity or '')}"
    if guarantee.unit == "change":
        return "one person’s part of one cell"
    return "one row" if plan.release == "covariance" else f"one {guarantee.unit}"


def attacker(plan: Plan, guarantee: Guarantee) -> str:
    """Return who the attacker is, and what is to be found out."""
    they, hold, are = ("they", "hold", "are") if guarantee.unit == "entity" else ("it", "holds", "is")
    wants = f"what {they} {hold}"
    if not guarantee.neighbours.n_rows_public:
        wants = f"whether {they} {are} in the table at all, and {wants}"
    return (
        f"The attacker knows the whole table but {protected(plan, guarantee)}, how the noise is made, and the rest of "
        f"the world, and wants to know {wants}."
    )


def unprotected(plan: Plan, guarantee: Guarantee) -> list[str]:
    """Return what no strength on the page protects."""
    return [
        *describe_unprotected(guarantee, plan.release),
        "Other releases of the same rows. Their costs add up, and dp-publish keeps the total in its ledger.",
    ]


def private_reasons(plan: Plan, asked: Asked) -> list[str]:
    """Return why the page is for the publisher alone; none where it rests on public facts."""
    reasons = []
    if asked.looked:
        reasons.append("It repeats what the first rows of the table show (--look).")
    if not plan.policy.privacy.neighbours.n_rows_public:
        reasons.append("It states the exact number of rows, which the release would protect.")
    return reasons
