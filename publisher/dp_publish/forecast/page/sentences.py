"""Sentences of a plan's page that do not depend on the strength: who is protected, against whom, and what is not."""

from __future__ import annotations

from dp_bundle.manifest import Guarantee
from dp_publish.forecast.page.command_lines import Asked
from dp_publish.forecast.plan import Plan


def change(guarantee: Guarantee) -> str:
    """Return what neighbouring tables differ in, as a clause."""
    if guarantee.unit == "entity":
        rows = f"all rows of one {guarantee.entity} (at most {guarantee.max_rows})"
        return f"{rows} are replaced by any others" if guarantee.neighbours.n_rows_public else f"{rows} are left out"
    if not guarantee.neighbours.n_rows_public:
        return "one row is left out"
    return f"one {guarantee.unit} is replaced by any other"


def protected(plan: Plan, guarantee: Guarantee) -> str:
    """Return what is protected, in the singular: of second moments a cell is protected as its whole row is."""
    if guarantee.unit == "entity":
        return f"{guarantee.entity}’s rows"
    return "row" if plan.release == "covariance" else guarantee.unit


def attacker(plan: Plan, guarantee: Guarantee) -> str:
    """Return who the attacker is, and what is to be found out."""
    what = f"one {protected(plan, guarantee)}"
    holds = "hold" if guarantee.unit == "entity" else "holds"
    wants = f"what {what} {holds}"
    if not guarantee.neighbours.n_rows_public:
        wants = f"whether {what} {'are' if guarantee.unit == 'entity' else 'is'} in the table at all, and {wants}"
    return (
        f"The attacker knows the whole table but {what}, how the noise is made, and the rest of the world, and "
        f"wants to know {wants}."
    )


def unprotected(guarantee: Guarantee) -> list[str]:
    """Return what no strength on the page protects."""
    facts = [f"{fact[0].upper()}{fact[1:]}." for fact in guarantee.public]
    unit = {
        "row": "If one person has several rows, each row is protected as stated, and the person less.",
        "cell": "A person’s whole row, of several cells, is protected less than a single cell.",
        "entity": f"Rows of a {guarantee.entity} beyond {guarantee.max_rows} are left out.",
    }[guarantee.unit]
    return [
        *facts,
        unit,
        "What follows from everybody’s rows together. If the data show that smokers fall ill more often, then this is "
        "learned about every smoker, whether or not he is in the table.",
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
