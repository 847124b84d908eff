"""The ledger in words, for a person and for a machine."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from dp_bundle.base.errors import ParameterError
from dp_bundle.base.quoting import quote_name, round_up
from dp_bundle.catalog.label import describe_all_releases
from dp_bundle.manifest.guarantee import Cumulative
from dp_publish.cli.messages.tables import say, say_lines, table_lines
from dp_publish.ledger.books import Books
from dp_publish.ledger.budget import Entry

if TYPE_CHECKING:
    from dp_publish.ledger.restoring import Restoration

_NAMED = 8
_HEADINGS = ("dataset", "release", "created", "partition", "unit", "mu", "state")


def require_known(books: Books, dataset: str | None, where: str = "DATASET") -> None:
    """Refuse a dataset without releases, given as an argument or an option, whose name may be misspelt.

    Raises
    ------
    ParameterError
        The name, and those that are in the ledger.
    """
    if dataset is None or books.standing(dataset):
        return
    known = list(dict.fromkeys(entry.dataset for entry in books.standing()))
    named = f" ({', '.join(map(quote_name, known[:_NAMED]))}{', ...' * (len(known) > _NAMED)})" if known else ""
    raise ParameterError(where, f"the name of a dataset that has releases{named}", dataset)


def describe_ledger(books: Books, place: str, dataset: str | None) -> str:
    """Return the books at a place, or one dataset's part of them, as lines."""
    entries = books.standing(dataset)
    if not entries:
        return f"nothing has been published yet, according to {place}"

    def describe(total: Cumulative, mu: float | None) -> list[str]:
        """Return the promise of all releases by their mu, which is known also where noise is discrete."""
        return describe_all_releases(total if total.rho is None else total.model_copy(update={"mu": mu}))

    def n_parts(name: str) -> int:
        return len({entry.partition for entry in entries if entry.dataset == name})

    totals = _totals(books, entries)
    return say("ledger.txt", releases=_release_lines(entries), totals=totals, describe=describe, n_parts=n_parts)


def ledger_document(books: Books, dataset: str | None) -> dict[str, Any]:
    """Return the same for a machine."""
    entries = books.standing(dataset)
    totals = [
        {
            "dataset": name,
            "unit": unit,
            **total.model_dump(mode="json"),
            "mu": mu,
            **({} if budget is None else {"budget_mu": budget}),
        }
        for name, unit, total, mu, budget in _totals(books, entries)
    ]
    return {"releases": [dataclasses.asdict(entry) for entry in entries], "totals": totals}


def describe_restoration(done: Restoration) -> str:
    """Return the lines that say what was restored."""
    return say("restored.txt", done=done, releases=done.put_back and _release_lines(done.put_back))


def describe_surprises(done: Restoration) -> list[str]:
    """Return a line for each finding that the publisher should look into."""
    return say_lines("surprises.txt", done=done, unlimited=", ".join(map(quote_name, done.without_budget)))


def restoration_document(done: Restoration) -> dict[str, Any]:
    """Return the same for a machine."""
    return {
        "lines_from_copy": done.n_lines,
        "put_back": [dataclasses.asdict(entry) for entry in done.put_back],
        "damaged": None if done.damaged is None else str(done.damaged),
        "skipped": {str(path): reason for path, reason in done.skipped.items()},
        "without_budget": done.without_budget,
        "rewritten": [str(path) for path in done.rewritten],
        "doubled": [{"dataset": dataset, "number": number} for dataset, number in done.doubled],
    }


def _totals(
    books: Books, entries: Sequence[Entry]
) -> Iterator[tuple[str, str, Cumulative, float | None, float | None]]:
    """Yield dataset, unit, total, mu and budget of every unit in which releases were made or limited."""
    newest = {entry.dataset: entry for entry in sorted(entries, key=lambda entry: entry.number)}
    accounts = {name: books.account(name) for name in dict.fromkeys(entry.dataset for entry in entries)}
    places = dict.fromkeys((entry.dataset, entry.cost.unit) for entry in entries)
    places |= dict.fromkeys((name, unit) for name, account in accounts.items() for unit in account.budgets)
    for name, unit in places:
        account = accounts[name]
        total = account.total(unit, newest[name].cost.mu)
        yield name, unit, total, account.mu(unit), account.budgets.get(unit)


def _release_lines(entries: Iterable[Entry]) -> list[str]:
    return table_lines(_HEADINGS, map(_ledger_cells, entries), left=(0, 2, 3, 4, 6))


def _ledger_cells(entry: Entry) -> tuple[str, ...]:
    mu = entry.cost.mu.get(entry.cost.unit)
    strength = "no guarantee" if mu is None else round_up(mu)
    partition = entry.partition or ""
    return entry.dataset, str(entry.number), entry.created, partition, entry.cost.unit, strength, entry.state
