"""The books that a log of events adds up to: releases, their states, and budgets.

A log is a list of lines, each one event as JSON. The hash of a line covers the hash of the one before. So the last one,
the head, stands for all of them, and nothing in it changes unseen. But whoever chains it anew can write anything into
it, so that each line must be an event before it is believed.

A change of the ledger reads the log, decides, and appends one line. On a file that is done under a lock. On shared
storage there is none: whoever comes second is told so, and reads, decides and appends again. So all rules about budgets
exist once, in `Ledger`.
"""

import contextlib
import hashlib
import json
import secrets
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from dp_bundle.manifest.discrete_mu import largest_mu_for_rho
from dp_publish.accounting.conversions import Cost, rho_for_mu
from dp_publish.ledger.budget import Account, Entry

_Name: TypeAlias = Annotated[str, Field(min_length=1)]
_Amount: TypeAlias = Annotated[float, Field(ge=0, allow_inf_nan=False)]
_WHEREABOUTS = {"manifest_sha256", "file"}
_RANKS = {"lost": 0, "reserved": 0, "cancelled": 1, "sealed": 2, "published": 3}  # a later state is known better


class _Event(BaseModel):
    """What every event says: of which release it is and, once they are known, its manifest and file."""

    model_config = ConfigDict(strict=True)

    dataset: _Name
    number: Annotated[int, Field(gt=0, le=10**9)]
    manifest_sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None = None
    file: str | None = None

    @property
    def whereabouts(self) -> dict[str, Any]:
        """Manifest and file, if the event has them."""
        return {name: getattr(self, name) for name in _WHEREABOUTS & self.model_fields_set}


class Change(_Event):
    """An event of a release that is in the ledger already."""

    event: Literal["sealed", "published", "cancelled"]


class Booking(_Event):
    """An event that puts a release in the ledger; older ones have less. `job` is the mark of the release's record."""

    event: Literal["reserved", "restored"]
    partition: _Name | None
    time: str
    unit: _Name
    mu: dict[_Name, _Amount]
    continuous: bool
    excepted_delta: _Amount = 0.0
    budgets: dict[_Name, _Amount] = Field(default_factory=dict)
    changes: dict[str, Annotated[_Amount, Field(gt=0)] | None] = Field(default_factory=dict)
    rho: dict[_Name, _Amount] | None = None
    state: Literal["lost", "reserved", "cancelled", "sealed", "published"] = "reserved"
    job: str | None = None


_EVENT: TypeAdapter[Booking | Change] = TypeAdapter(Annotated[Booking | Change, Field(discriminator="event")])


@dataclass
class Books:
    """A log, read whole.

    Attributes
    ----------
    lines : list of str
        The log itself.
    heads : list of str
        The hash of every line.
    entries : dict of (str, int, str) to Entry
        Every release by dataset, number, and a mark, which is empty except for a second release of the same number.
    budgets : dict of str to dict of str to float
        By dataset and unit of privacy.
    begun : dict of (str, str) to int
        By dataset and mark, the place of the line that reserved a release which bears it.
    newest : str or None
        The time of the release that was booked last, or put back; None if there is none.
    """

    lines: list[str] = field(default_factory=list)
    heads: list[str] = field(default_factory=list)
    entries: dict[tuple[str, int, str], Entry] = field(default_factory=dict)
    budgets: dict[str, dict[str, float]] = field(default_factory=dict)
    begun: dict[tuple[str, str], int] = field(default_factory=dict)
    newest: str | None = None

    @property
    def head(self) -> str:
        """The hash of the last line; empty if there is none."""
        return self.heads[-1] if self.heads else ""

    def add(self, line: str) -> None:
        """Take the next line of the log.

        Raises
        ------
        ValueError
            It is no event, or one of a release that was never reserved.
        """
        try:
            self._replay(read_event(line))
        except KeyError as error:
            raise ValueError("there is no such release") from error
        self.heads.append(chain(self.head, line))
        self.lines.append(line)

    def of(self, dataset: str | None) -> list[Entry]:
        """Return all releases in the order of the log, or those of one dataset in the order of their numbers."""
        if dataset is None:
            return list(self.entries.values())
        found = [entry for entry in self.entries.values() if entry.dataset == dataset]
        return sorted(found, key=lambda entry: entry.number)

    def standing(self, dataset: str | None = None) -> list[Entry]:
        """Return the same without those that were cancelled."""
        return [entry for entry in self.of(dataset) if entry.state != "cancelled"]

    def account(self, dataset: str) -> Account:
        """Return what a dataset's releases add up to."""
        return Account(tuple(self.standing(dataset)), self.budgets.get(dataset, {}))

    def next_number(self, dataset: str) -> int:
        """Return the number of a dataset's next release; one that was cancelled keeps its own."""
        return 1 + max((entry.number for entry in self.of(dataset)), default=0)

    def _replay(self, event: Booking | Change) -> None:
        place = (event.dataset, event.number, "")
        if isinstance(event, Change):
            self.entries[place] = replace(self.entries[place], state=event.event, **event.whereabouts)
            return
        entry = entry_of(event)
        known = self.entries.get(place)
        if known is not None and not _same(known, entry):
            place = (entry.dataset, entry.number, entry.manifest_sha256 or entry.created)
        self.entries[place], self.newest = entry, entry.created
        self.budgets.setdefault(entry.dataset, {}).update(event.budgets)
        if event.job is not None:
            self.begun.setdefault((entry.dataset, event.job), len(self.lines))


def read_books(lines: Iterable[str]) -> Books:
    """Return what a log adds up to, as far as it can be read."""
    books = Books()
    with contextlib.suppress(ValueError):
        for line in lines:
            books.add(line)
    return books


def read_event(line: str) -> Booking | Change:
    """Return what a line says.

    Raises
    ------
    ValueError
        It is no event.
    """
    return _EVENT.validate_json(line)


def entry_of(event: Booking) -> Entry:
    """Return the release that an event puts in the ledger.

    Older lines give sqrt(2 rho) as the mu of discrete noise, which is too small, and no rho. What its mu can be at most
    takes its place.
    """
    mu, rho = event.mu, event.rho or {}
    if not event.continuous and event.rho is None:
        rho = {unit: 0.5 * root * root for unit, root in mu.items()}
        mu = {unit: largest_mu_for_rho(each) for unit, each in rho.items()}
    cost = Cost(event.unit, mu, event.continuous, event.excepted_delta, event.changes, rho)
    entry = Entry(event.dataset, event.partition, event.number, event.time, cost, event.state)
    return replace(entry, **event.whereabouts)


def content_of(entry: Entry) -> dict[str, Any]:
    """Return what an event says that puts a release in the ledger; the inverse of `entry_of`."""
    cost = entry.cost
    rho = {} if cost.continuous else dict(cost.rho) or {unit: rho_for_mu(mu) for unit, mu in cost.mu.items()}
    released = {"dataset": entry.dataset, "partition": entry.partition, "number": entry.number, "time": entry.created}
    return {**released, **asdict(cost), "rho": rho}


def encode_line(content: dict[str, Any]) -> str:
    """Return an event as a line, in the one form."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def new_line(content: dict[str, Any]) -> str:
    """Return an event as a line with a mark of its own, by which it differs from one that says the same."""
    return encode_line({**content, "mark": secrets.token_hex(16)})


def chain(head: str, line: str) -> str:
    """Return the hash of a line that follows the one with this hash."""
    return hashlib.sha256(f"{head}\n{line}".encode()).hexdigest()


def line_that_restores(books: Books, entry: Entry, budgets: dict[str, float] | None = None) -> str | None:
    """Return the line that puts a release in the ledger, or says what became of it; None if they know it already.

    A release is the same as one in the ledger if their manifests are. While one of them has none, it is the same if
    they were reserved at the same time. If the books have another release of its number, both count.
    """
    known = next((each for each in books.of(entry.dataset) if each.number == entry.number and _same(each, entry)), None)
    if known is not None:
        if _RANKS[entry.state] <= _RANKS[known.state]:
            return None
        entry = replace(entry, cost=known.cost, partition=known.partition)
    unknown = {unit: mu for unit, mu in (budgets or {}).items() if unit not in books.budgets.get(entry.dataset, {})}
    content = {"event": "restored", "state": entry.state, **content_of(entry)}
    content |= {"manifest_sha256": entry.manifest_sha256, "file": entry.file}
    content |= {"budgets": unknown} if unknown else {}
    return encode_line(content) if books.lines else new_line(content)


def _same(one: Entry, other: Entry) -> bool:
    if one.manifest_sha256 and other.manifest_sha256:
        return one.manifest_sha256 == other.manifest_sha256
    return one.created == other.created and "lost" not in (one.state, other.state)
