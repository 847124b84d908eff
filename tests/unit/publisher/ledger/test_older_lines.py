"""Lines that an earlier version wrote into a ledger."""

import pytest
from tests.discrete_noise import exact_mu

from dp_publish.accounting.conversions import Cost
from dp_publish.ledger.books import content_of, encode_line, entry_of, read_books
from dp_publish.ledger.budget import Entry, spent_mu


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
