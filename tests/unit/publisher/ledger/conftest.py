"""A ledger for each test."""

from __future__ import annotations

from pathlib import Path

import pytest

from dp_publish.ledger.ledger import Ledger


@pytest.fixture
def ledger(home: Path) -> Ledger:
    """Return this test's ledger."""
    return Ledger()
