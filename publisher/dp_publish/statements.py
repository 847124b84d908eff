"""What the publisher's commands say of a release and of the ledger, for a person and for a machine."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from dp_bundle.descriptors import describe_bounds, describe_guarantee, round_up
from dp_bundle.manifest import Cumulative
from dp_publish.ledger import Entry, Ledger
from dp_publish.policy import Policy
from dp_publish.release import Receipt

__all__ = ["describe_ledger", "describe_receipt", "ledger_document", "receipt_document"]


def describe_receipt(receipt: Receipt, policy: Policy) -> str:
    """Return what the publisher is told of her release."""
    release, report = receipt.release, receipt.report
    lines = [
        f"wrote {receipt.path}: release {release.lineage.number} of {release.dataset.name}, "
        f"{release.n_rows} rows, {len(release.columns)} columns"
    ]
    lines += [f"  {sentence}" for sentence in describe_guarantee(release)]
    lines += [f"  left out: {name} ({_why_left_out(name, policy)})" for name in receipt.left_out]
    searched = [column for column in release.columns if column.bounds_obtained == "private-histogram"]
    if searched:
        share = policy.privacy.bounds_share
        lines.append(
            f"  assumed: these bounds, found privately with {share:.0%} of rho (declare them to spend it on data)"
        )
        lines += [f"    {column.name}: {describe_bounds(column)}" for column in searched]
    if report.tells:
        lines.append("for your eyes only, as it tells of the raw values:")
        lines += [
            f"  {number} cells of {name} were outside its bounds and clipped" for name, number in report.clipped.items()
        ]
        lines += [f"  {report.n_clipped_rows} rows were outside the ball and clipped"] if report.n_clipped_rows else []
        lines += [f"  {report.n_over_cap} rows over the cap of their entity were left out"] if report.n_over_cap else []
        lines += [
            f"  {number} cells of {name} had no value and took the midpoint" for name, number in report.filled.items()
        ]
        lines += [f"  {report.n_dropped} rows without a value were left out"] if report.n_dropped else []
    return "\n".join([*lines, f"to learn from it: dp-learn {receipt.path}"])


def receipt_document(receipt: Receipt) -> dict[str, Any]:
    """Return the same for a machine."""
    report = receipt.report
    return {
        "path": str(receipt.path),
        "manifest_sha256": receipt.manifest_sha256,
        "left_out": list(receipt.left_out),
        "release": receipt.release.model_dump(mode="json"),
        "for_the_publisher_only": {
            "clipped": report.clipped,
            "filled": report.filled,
            "rows_clipped": report.n_clipped_rows,
            "rows_dropped": report.n_dropped,
            "rows_over_cap": report.n_over_cap,
        },
    }


def describe_ledger(ledger: Ledger, dataset: str | None = None) -> str:
    """Return the ledger, or one dataset's part of it, as lines."""
    entries = ledger.entries(dataset)
    if not entries:
        return "nothing has been published yet"
    lines = [_ledger_line("dataset", "release", "created", "partition", "unit", "mu", "state")]
    lines += [_ledger_line(*_ledger_cells(entry)) for entry in entries]
    for (name, unit), total in _totals(ledger, entries).items():
        spent = "no guarantee holds in all" if total.rho is None else f"mu = {round_up(math.sqrt(2 * total.rho))}"
        lines.append(f"{name}, per {unit}: {spent} over {total.releases} release(s)")
    return "\n".join(lines)


def ledger_document(ledger: Ledger, dataset: str | None = None) -> dict[str, Any]:
    """Return the same for a machine."""
    entries = ledger.entries(dataset)
    totals = _totals(ledger, entries).items()
    return {
        "releases": [dataclasses.asdict(entry) for entry in entries],
        "totals": [{"dataset": name, "unit": unit, **total.model_dump(mode="json")} for (name, unit), total in totals],
    }


def _totals(ledger: Ledger, entries: list[Entry]) -> dict[tuple[str, str], Cumulative]:
    places = dict.fromkeys((entry.dataset, entry.cost.unit) for entry in entries)
    return {place: total for place in places if (total := ledger.total(*place)) is not None}


def _why_left_out(name: str, policy: Policy) -> str:
    if policy.column(name).drop:
        return "dropped"
    return "the unit of privacy" if policy.privacy.account == f"entity:{name}" else "not numeric"


def _ledger_cells(entry: Entry) -> tuple[str, ...]:
    mu = entry.cost.mu.get(entry.cost.unit)
    strength = "no guarantee" if mu is None else round_up(mu)
    partition = entry.partition or ""
    return entry.dataset, str(entry.number), entry.created, partition, entry.cost.unit, strength, entry.state


def _ledger_line(*cells: str) -> str:
    return f"{cells[0]:<20} {cells[1]:>7}  {cells[2]:<20}  {cells[3]:<10} {cells[4]:<8} {cells[5]:>12}  {cells[6]}"
