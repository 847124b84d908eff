"""What is printed of whole numbers, against all outcomes of the noise that was drawn: mu, guesses, totals, budgets."""

import itertools
import json
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
from dp_publish.cli.messages.ledger import describe_ledger
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


@pytest.mark.parametrize("strength", [{"mu": 1.5}, {"rho": 1.125}, {"sigma": 0.7}])
def test_ledger_prints_and_counts_the_mu_of_the_noise(strength: dict[str, float], make: Make, home: Path) -> None:
    """Its table, its total, its JSON and its budget have the mu that is true of the noise of two releases."""
    receipts = [make(unit="row", **strength)[0] for _ in range(2)]
    squares = [exact_mu(1, column.cell_noise.sigma) ** 2 for each in receipts for column in each.release.columns]
    real = math.sqrt(math.fsum(squares))
    ledger = Ledger()
    shown = describe_ledger(ledger.books(), ledger.place)
    (printed,) = re.findall(r"bits, per row: mu = ([0-9.]+) over 2 releases", shown)
    assert real * (1 - 1e-9) <= float(printed) <= real * (1 + 1e-5)
    assert ledger.spent_mu("bits", "row") == pytest.approx(real, rel=1e-9)
    total = ledger.total("bits", "row")
    assert total is not None
    assert total.mu is None
    assert total.rho == pytest.approx(2 * (receipts[0].release.guarantee.rho if receipts[0].release.guarantee else 0.0))
    with pytest.raises(BudgetExceededError):
        make(unit="row", budget_mu=math.sqrt(1.5) * real * 0.999, **strength)
    make(unit="row", budget_mu=math.sqrt(1.5) * real * 1.001, **strength)


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


def test_plan_says_what_the_ledger_will_book(make: Make, tmp_path: Path, command: Callable[..., Any]) -> None:
    """For whole numbers by rho, the plan's own line has the mu that the release is booked with."""
    BITS.to_parquet(tmp_path / "bits.parquet")
    columns = '[columns."*"]\nkind = "integer"\nbounds = [0, 1]\n'
    (tmp_path / "bits.policy.toml").write_text(f'[dataset]\nname = "bits"\n[privacy]\nrho = 2.0\n{columns}')
    planned = json.loads(command("dp-publish", "plan", tmp_path / "bits.parquet", "--json").stdout)
    receipt, _ = make(unit="row", rho=2.0)
    (entry,) = Ledger().entries()
    assert planned["own_mu"] == pytest.approx(entry.cost.mu["row"], rel=1e-9)
    assert entry.cost.mu["row"] == pytest.approx(
        math.sqrt(3) * exact_mu(1, receipt.release.columns[0].cell_noise.sigma), rel=1e-9
    )


def test_a_pure_guarantee_is_weak_by_its_epsilon(make: Make) -> None:
    """By (e^epsilon) / (1 + e^epsilon), and at a replacement as at a removal."""
    for neighbours in ("replace-one", "add-remove"):
        privacy = {"release": "covariance", "unit": "row", "mechanism": "laplace", "epsilon": 5.0}
        assert printed_guess(*make(neighbours=neighbours, **privacy)) == pytest.approx(0.9934)
