"""What is printed of whole numbers, against all outcomes of the noise that was drawn: mu, guesses, totals, budgets."""

import itertools
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.discrete_noise import exact_mu

from dp_bundle.base.errors import BudgetExceededError
from dp_bundle.describe.sentences import chance_in_all, chance_of_guess
from dp_bundle.manifest.columns import Column
from dp_bundle.manifest.costs import cost_of_several
from dp_publish import Policy, Receipt, publish
from dp_publish.accounting.conversions import Cost
from dp_publish.cli.messages.release import describe_receipt
from dp_publish.ledger.books import content_of, encode_line, entry_of, read_books
from dp_publish.ledger.budget import Entry, spent_mu
from dp_publish.ledger.ledger import Ledger

Make = Callable[..., tuple[Receipt, Policy]]
BITS = pd.DataFrame(np.random.default_rng(1).integers(0, 2, (400, 3)), columns=["a", "b", "c"])


@pytest.fixture
def make(tmp_path: Path, key: Ed25519PrivateKey) -> Make:
    """Return a function that publishes three columns of 0 and 1, and returns the receipt and the policy."""
    numbers = itertools.count(1)

    def published(columns: dict[str, Any] | None = None, **privacy: Any) -> tuple[Receipt, Policy]:
        entries = {name: {"kind": "integer", "bounds": [0, 1], **(columns or {})} for name in BITS}
        policy = Policy.model_validate({"dataset": {"name": "bits"}, "privacy": privacy, "columns": entries})
        return publish(BITS, policy, out=tmp_path / f"{next(numbers)}.tar", key=key), policy

    return published


def best_guess(columns: tuple[Column, ...]) -> float:
    """Return how often the best guess between two rows that differ in all of these bits is right: by all outcomes."""
    null, other = np.ones(1), np.ones(1)
    places = np.arange(-20, 22)
    for column in columns:
        laws = [np.exp(-0.5 * ((places - shift) / column.cell_noise.sigma) ** 2) for shift in (0, 1)]
        null, other = (np.outer(each, law / law.sum()).ravel() for each, law in zip((null, other), laws, strict=True))
    return 0.5 + 0.25 * float(np.abs(null - other).sum())


def printed_guess(receipt: Receipt, policy: Policy) -> float:
    """Return how often a receipt says that somebody guesses right."""
    (found,) = re.findall(
        r"guesses right in at most ([0-9.]+) % of cases after seeing this release", describe_receipt(receipt, policy)
    )
    return float(found) / 100


@pytest.mark.parametrize(
    "strength",
    [{"mu": 4.7}, {"rho": 4.7**2 / 2}, {"sigma": math.sqrt(3) / 4.7}, {"epsilon": 40.0, "delta": 1e-6}],
    ids=str,
)
def test_receipt_says_how_often_a_guess_is_right(strength: dict[str, float], make: Make) -> None:
    """Of three columns of 0 and 1 nobody does better than the receipt says, whatever the strength was given as."""
    receipt, policy = make(unit="row", **strength)
    stated, real = printed_guess(receipt, policy), best_guess(receipt.release.columns)
    assert real <= stated
    guarantee = receipt.release.guarantee
    assert guarantee is not None
    mu = math.sqrt(3) * exact_mu(1, receipt.release.columns[0].cell_noise.sigma)
    assert cost_of_several(guarantee, receipt.release.columns).mu == pytest.approx(mu, rel=1e-9)
    assert real <= chance_of_guess(guarantee, receipt.release.columns)
    assert real <= (chance_in_all(receipt.release.cumulative) or 1.0)
    if "mu" in strength:
        assert mu == pytest.approx(4.7)
        assert stated == pytest.approx(0.9907)


def test_rho_alone_costs_more_than_its_root(make: Make) -> None:
    """A budget of sqrt(2 rho) is too small for whole numbers at that rho, and the refusal says what is needed."""
    with pytest.raises(BudgetExceededError) as refused:
        make(unit="cell", rho=0.5, budget_mu=1.0)
    assert refused.value.requested_mu == pytest.approx(exact_mu(1, 1.0), rel=1e-9)
    assert Ledger().entries() == []


def test_older_lines_of_a_ledger_count_with_the_largest_mu_they_can_have() -> None:
    """Of discrete noise they have sqrt(2 rho) in place of mu; a line that has both is taken at its word."""
    for sigma in (0.1, 0.3685, 1.0, 4.0):
        cost = Cost("row", {"cell": 1 / sigma, "row": 3 / sigma}, continuous=False)
        content = {**content_of(Entry("d", None, 1, "2026-01-01", cost)), "event": "reserved"}
        assert entry_of(content).cost.mu == cost.mu
        older = {name: value for name, value in content.items() if name != "rho"}
        books = read_books([encode_line(older)])
        (entry,) = books.of("d")
        assert entry.cost.rho == pytest.approx({"cell": 0.5 / sigma**2, "row": 4.5 / sigma**2})
        assert entry.cost.mu["cell"] == pytest.approx(exact_mu(1, sigma), rel=1e-9)  # as it may have been one bit
        assert 3 * exact_mu(1, sigma) <= entry.cost.mu["row"] * (1 + 1e-9) or sigma < 0.31
        assert spent_mu([entry], "row") == pytest.approx(entry.cost.mu["row"])
        again = entry_of({**content_of(entry), "event": "restored"})
        assert again.cost == entry.cost
