"""The books that a log of events adds up to: releases, their states, and budgets.

A log is a list of lines, each one event as JSON. The hash of a line covers the hash of the one before, so that the last
one, the head, stands for all of them, and nothing in it changes unseen; but whoever chains it anew can write anything
into it, so that each line must be an event before it is believed.

A change of the ledger reads the log, decides, and appends one line. On a file that is done under a lock. On shared
storage there is none: whoever comes second is told so, and reads, decides and appends again. So all rules about budgets
exist once, in `Ledger`.
"""

import contextlib
import hashlib
import json
import secrets
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from dp_bundle.privacy.discrete_mu import largest_mu_for_rho
from dp_publish.accounting.conversions import Cost, rho_for_mu
from dp_publish.ledger.budget import Account, Entry

_Text: TypeAlias = Annotated[str, Field(min_length=0)]  # of Unicode, which a str alone may not be
_Name: TypeAlias = Annotated[str, Field(min_length=1)]
_Amount: TypeAlias = Annotated[float, Field(ge=0, allow_inf_nan=False)]
_RANKS = {"lost": 0, "reserved": 0, "cancelled": 1, "sealed": 2, "published": 3}  # a later state is known better


class _Change(BaseModel):
    """What an event must hold: here of a release that is on the books already. Older lines have less."""

    model_config = ConfigDict(strict=True)

    event: Literal["sealed", "published", "cancelled"]
    dataset: _Name
    number: Annotated[int, Field(gt=0, le=10**9)]
    manifest_sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None = None
    file: _Text | None = None
    excepted_delta: _Amount = 0.0
    budgets: dict[_Name, _Amount] = Field(default_factory=dict)
    changes: dict[str, Annotated[_Amount, Field(gt=0)] | None] = Field(default_factory=dict)
    rho: dict[_Name, _Amount] = Field(default_factory=dict)
    state: Literal["lost", "reserved", "cancelled", "sealed", "published"] = "reserved"


class _Booking(_Change):
    event: Literal["reserved", "restored"]  # type: ignore[assignment]
    partition: _Name | None
    time: _Text
    unit: _Name
    mu: dict[_Name, _Amount]
    continuous: bool


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
    newest : str or None
        The time of the release that was booked last, or put back; None if there is none.
    """

    lines: list[str] = field(default_factory=list)
    heads: list[str] = field(default_factory=list)
    entries: dict[tuple[str, int, str], Entry] = field(default_factory=dict)
    budgets: dict[str, dict[str, float]] = field(default_factory=dict)
    newest: str | None = None

    @property
    def head(self) -> str:
        """The hash of the last line; empty if there is none."""
        return self.heads[-1] if self.heads else ""

    @property
    def first(self) -> str | None:
        """The first line, by which a ledger is known wherever it is; None if there is none."""
        return self.lines[0] if self.lines else None

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
        return Account.of(self.of(dataset), self.budgets.get(dataset))

    def _replay(self, content: dict[str, Any]) -> None:
        place = (content["dataset"], content["number"], "")
        if content["event"] in ("reserved", "restored"):
            entry = entry_of(content)
            known = self.entries.get(place)
            if known is not None and not _same(known, entry):
                place = (place[0], place[1], entry.manifest_sha256 or entry.created)
            self.entries[place], self.newest = entry, entry.created
            self.budgets.setdefault(place[0], {}).update(content.get("budgets", {}))
        else:
            self.entries[place] = replace(self.entries[place], state=content["event"], **_whereabouts(content))


class OpenLog(ABC):
    """A log as it was when it was opened, and a way to append.

    Parameters
    ----------
    books : Books
        All that the log adds up to.
    """

    def __init__(self, books: Books) -> None:
        self.books = books

    def append(self, content: dict[str, Any]) -> bool:
        """Append an event, with a mark; return False, and append nothing, if somebody else has appended since."""
        return self.append_line(encode_line(marked(content)))

    @abstractmethod
    def append_line(self, line: str) -> bool:
        """Append an event that is a line already, in the same way."""

    def put_back(self, other: Books) -> bool:
        """Append what other books hold beyond these; return False where somebody else has appended since."""
        lines = (line_that_restores(self.books, entry, other.budgets.get(entry.dataset)) for entry in other.of(None))
        return all(line is None or self.append_line(line) for line in lines)


def read_books(lines: Iterable[str]) -> Books:
    """Return what a log adds up to, as far as it can be read."""
    books = Books()
    with contextlib.suppress(ValueError):
        for line in lines:
            books.add(line)
    return books


def read_event(line: str) -> dict[str, Any]:
    """Return what a line says.

    Raises
    ------
    ValueError
        It is no event.
    """
    try:
        content: dict[str, Any] = json.loads(line)
        (_Booking if content["event"] in ("reserved", "restored") else _Change).model_validate(content)
    except (KeyError, TypeError, RecursionError) as error:
        raise ValueError("it is not an event") from error
    return content


def entry_of(content: dict[str, Any]) -> Entry:
    """Return the release that an event puts on the books.

    Older lines give sqrt(2 rho) as the mu of discrete noise, which is too small, and no rho. What its mu can be at most
    takes its place.
    """
    excepted = content.get("excepted_delta", 0.0)  # which older lines do not have
    mu, rho = content["mu"], content.get("rho", {})
    if not content["continuous"] and "rho" not in content:
        rho = {unit: 0.5 * root * root for unit, root in mu.items()}
        mu = {unit: largest_mu_for_rho(each) for unit, each in rho.items()}
    cost = Cost(content["unit"], mu, content["continuous"], excepted, content.get("changes", {}), rho)
    entry = Entry(content["dataset"], content["partition"], content["number"], content["time"], cost)
    return replace(entry, state=content.get("state", "reserved"), **_whereabouts(content))


def content_of(entry: Entry) -> dict[str, Any]:
    """Return what an event says that puts a release on the books; the inverse of `entry_of`."""
    content: dict[str, Any] = {
        "dataset": entry.dataset,
        "partition": entry.partition,
        "number": entry.number,
        "time": entry.created,
        "unit": entry.cost.unit,
        "mu": entry.cost.mu,
        "continuous": entry.cost.continuous,
        "excepted_delta": entry.cost.excepted_delta,
    }
    if not entry.cost.continuous:
        content["rho"] = dict(entry.cost.rho) or {unit: rho_for_mu(mu) for unit, mu in entry.cost.mu.items()}
    return {**content, "changes": dict(entry.cost.changes)} if entry.cost.changes else content


def encode_line(content: dict[str, Any]) -> str:
    """Return an event as a line."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def marked(content: dict[str, Any]) -> dict[str, Any]:
    """Return an event with a mark of its own, by which a line differs from one that says the same."""
    return {**content, "mark": secrets.token_hex(16)}


def chain(head: str, line: str) -> str:
    """Return the hash of a line that follows the one with this hash."""
    return hashlib.sha256(f"{head}\n{line}".encode()).hexdigest()


def line_that_restores(books: Books, entry: Entry, budgets: dict[str, float] | None = None) -> str | None:
    """Return the line that puts a release on the books, or says what became of it; None if they know it already.

    A release is the same as one on the books if their manifests are, or, while one of them has none, if they were
    reserved at the same time. If the books have another release of its number, both count.
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
    return encode_line(content if books.lines else marked(content))


def _same(one: Entry, other: Entry) -> bool:
    if one.manifest_sha256 and other.manifest_sha256:
        return one.manifest_sha256 == other.manifest_sha256
    return one.created == other.created and "lost" not in (one.state, other.state)


def _whereabouts(content: dict[str, Any]) -> dict[str, Any]:
    return {name: content[name] for name in ("manifest_sha256", "file") if name in content}
