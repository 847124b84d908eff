"""A release beside its clean table: what the publisher alone may see."""

import stat
from pathlib import Path

import pandas as pd
from tests.unit.publisher.conftest import Call


def test_the_page_has_clean_numbers_for_its_owner_alone(people: Path, call: Call) -> None:
    """It says so, counts what was clipped, spends nothing, replaces no file, and leaves the bundle as it is."""
    policy = people.with_name("people.policy.toml")
    policy.write_text(f"{policy.read_text()}\n[columns.clean]\nbounds = [0, 1]\n")
    table = pd.read_parquet(people)
    table.assign(clean=[0.125] * (len(table) - 3) + [9.0] * 3).to_parquet(people)
    call(people.name, "--release", "covariance", "--out", "b.tar", "--quiet", "--anyway")
    bundle, ledger = Path("b.tar").read_bytes(), call("ledger").out
    assert call("judge", people.name, "b.tar").code == 0
    page = Path("people.judged.html")
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    text = page.read_text()
    for words in ("For your eyes alone", ">0.125<", "<bdi>clean</bdi> that were clipped: 3 ("):
        assert words in text
    assert (Path("b.tar").read_bytes(), call("ledger").out) == (bundle, ledger)
    assert call("judge", people.name, "b.tar").code == 1
