"""What the ledger has of a dataset, as plans and the desk show it."""

from __future__ import annotations

from dp_publish.forecast.page.command_lines import Spending, budget_of
from dp_publish.ledger.ledger import Ledger
from dp_publish.policy.model import Policy


def spending_of(ledger: Ledger, policy: Policy) -> Spending:
    """Return what was spent on the policy's dataset, in its unit of privacy."""
    name, privacy = policy.dataset.name, policy.privacy
    budget = budget_of(privacy, ledger.budgets(name))
    entries = ledger.entries(name)
    if not entries:
        return Spending(budget_mu=budget)
    spent = ledger.spent_mu(name, privacy.account)
    return Spending(len(entries), spent, budget, any(entry.partition for entry in entries))
