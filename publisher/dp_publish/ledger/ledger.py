"""The ledger: expenses of each dataset, and what may still be spent.

A log of events. A release is reserved before any noise is drawn, sealed before its file gets a name, and published once
it has it. Or it is cancelled, which only a reservation can be that was not sealed yet. It counts as spent from the
reservation on, so that the books never show less than what was released. Every line of the log carries the hash of the
one before it. A line that was changed, removed or inserted shows at the next use. So does a whole log that is older
than its copy beside the signing key. The ledger then refuses to go on.
"""

import datetime
import hashlib
import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from dp_bundle.base.errors import ParameterError, PrivacyError
from dp_bundle.base.wording import IN_POLICY, LEAVE_IT_OUT
from dp_bundle.files.new_files import home_folder
from dp_bundle.files.opening import open_store
from dp_bundle.files.places import is_uri
from dp_bundle.manifest.guarantee import Cumulative
from dp_bundle.manifest.release import Lineage
from dp_publish.accounting.conversions import Cost
from dp_publish.ledger.books import Booking, Books, content_of, entry_of, read_books, read_event
from dp_publish.ledger.budget import Account, Entry, require_budgets
from dp_publish.ledger.events import EventFile, EventObjects
from dp_publish.ledger.log import Log, OpenLog, OutrunError

T = TypeVar("T")
_log = logging.getLogger(__name__)

_MAX_NAME = 1_000  # characters; what a manifest takes
_SKEW = datetime.timedelta(hours=1)  # by which clocks of several machines may differ
_MOST_TRIES = 1_000  # to append, each of which fails only because somebody else has appended


@dataclass(frozen=True)
class Reservation:
    """A release that is in the ledger, the dataset's total cost, and by unit its budgets and the mu that is spent.

    `spent` is of the units that have a budget, and of the release's own.
    """

    dataset: str
    lineage: Lineage
    cumulative: Cumulative
    budgets: Mapping[str, float]
    spent: Mapping[str, float]


class Ledger:
    """The ledger, in an SQLite file or wherever a log is.

    Parameters
    ----------
    path : Path, optional
        The SQLite file; `ledger.sqlite` in the user's state folder by default.
    copy : Path, optional
        The copy of its log; `keys/ledger.log` there for the user's own ledger, and none for another.
    log : Log, optional
        A log elsewhere instead.

    Attributes
    ----------
    log : Log
        The events, which it can restore and back up.
    place : str
        Where it is, for messages.
    begun : Path
        The folder with the records of releases that were begun on this machine.
    """

    def __init__(self, path: Path | None = None, copy: Path | None = None, *, log: Log | None = None) -> None:
        self.path = path or home_folder() / "ledger.sqlite"
        if copy is None and path is None:
            copy = home_folder() / "keys" / "ledger.log"
        self.log = log or Log(EventFile(self.path), copy)
        self.place = self.log.events.place
        beside = log.copy if log is not None and log.copy is not None else self.path
        self.begun = beside.with_name(f"{beside.name}.begun")

    def reserve(
        self,
        dataset: str,
        cost: Cost,
        *,
        partition: str | None = None,
        budget_mu: float | Mapping[str, float] | None = None,
        columns: Iterable[str] = (),
        mark: str | None = None,
        begun: datetime.datetime | None = None,
    ) -> Reservation:
        """Put a release in the ledger, as spent, before any noise is drawn.

        Parameters
        ----------
        dataset : str
            The account.
        cost : Cost
            What the release costs.
        partition : str, optional
            The part of the rows that it is about, disjoint from every other partition's.
        budget_mu : float or mapping of str to float, optional
            What all releases of the dataset may cost together, in the release's unit or by unit. It stays in the
            ledger: later releases keep to it, too, until another one is given for that unit.
        columns : iterable of str
            The columns to be published.
        mark : str, optional
            That of this release alone, by which `find` finds it.
        begun : datetime, optional
            When it was begun, by UTC, before its table was read, on which the time may not depend; now by default.

        Raises
        ------
        BudgetExceededError
            The release would pass a budget, or leave what was promised without one; nothing is written.
        PrivacyError
            A column was the unit of privacy of an earlier release, or its changes were protected up to another
            `max_change`; nothing is written.
        ParameterError
            The partition has no name that can be printed.
        """
        if partition is not None and not (0 < len(partition) <= _MAX_NAME and partition.isprintable()):
            raise ParameterError("partition", f"a printable name of at most {_MAX_NAME} characters", partition)
        created = (begun or datetime.datetime.now(datetime.UTC)).strftime("%Y-%m-%dT%H:%M:%SZ")
        declared = _by_unit(budget_mu, cost.unit)

        def book(log: OpenLog) -> Reservation:
            account = log.books.account(dataset)
            entry = Entry(dataset, partition, log.books.next_number(dataset), created, cost)
            budgets = {**account.budgets, **declared}
            require_budgets(dataset, account, entry, budgets)
            for name in columns:
                if name in account.entities:  # which an earlier release took for the name of whom it protects
                    raise PrivacyError(
                        f"column {name!r} was the unit of privacy of release {account.entities[name]} of {dataset!r} "
                        f"and is never published: {LEAVE_IT_OUT}{IN_POLICY}"
                    )
            _require_same_changes(dataset, account.changes, cost.changes)
            _warn_of_clock(entry, log.books.newest)
            content = {"event": "reserved", **content_of(entry), **({"budgets": declared} if declared else {})}
            log.append(content | ({"job": mark} if mark is not None else {}))
            return _reservation(entry, account, budgets, log.books.head)

        reservation = self._use(book)
        _log.info("release %d of %r is booked", reservation.lineage.number, dataset)
        return reservation

    def find(self, dataset: str, mark: str) -> tuple[Reservation, Entry] | None:
        """Return the reservation of a dataset that bears a mark as it was made, if any, and what became of it."""
        books = self.books()
        index = books.begun.get((dataset, mark))
        if index is None:
            return None
        event = read_event(books.lines[index])
        assert isinstance(event, Booking)  # noqa: S101  as nothing else is begun
        before, entry = read_books(books.lines[:index]).account(dataset), entry_of(event)
        reservation = _reservation(entry, before, {**before.budgets, **event.budgets}, books.heads[index])
        return reservation, books.entries[dataset, entry.number, ""]

    def seal(self, reservation: Reservation, manifest_sha256: str, file: str | Path) -> None:
        """Mark a reserved release as signed, just before its file gets a name: from then on it cannot be cancelled."""
        self._note(reservation, "sealed", ("reserved",), manifest_sha256=manifest_sha256, file=str(file))

    def commit(self, reservation: Reservation, manifest_sha256: str, file: str | Path) -> None:
        """Mark a release as published, once its file is in place."""
        self._note(reservation, "published", ("reserved", "sealed"), manifest_sha256=manifest_sha256, file=str(file))

    def cancel(self, reservation: Reservation) -> None:
        """Take a reservation out of the ledger: only where nothing of the release can have left the process."""
        self._note(reservation, "cancelled", ("reserved",))

    def entries(self, dataset: str | None = None) -> list[Entry]:
        """Return all releases, or those of one dataset, oldest first; cancelled ones are left out."""
        return self.books().standing(dataset)

    def books(self) -> Books:
        """Return all that the log adds up to; a ledger that is not there and never was is empty."""
        return self.log.books() if self.log.is_there() else Books()

    def entities(self, dataset: str) -> dict[str, int]:
        """Return the columns that were the unit of privacy of a release of the dataset, with the first one's number."""
        return self._use(lambda log: log.books.account(dataset).entities) if self.log.is_there() else {}

    def put_back(self, released: Sequence[Entry]) -> list[Entry]:
        """Put releases in the ledger that they lack, and return those."""
        found: list[Entry] = []

        def put(log: OpenLog) -> None:
            for entry in released:
                if log.put_back(entry):
                    found.append(entry)

        self._use(put)
        return found

    def _note(self, reservation: Reservation, event: str, after: tuple[str, ...], **whereabouts: str) -> None:
        dataset, number = reservation.dataset, reservation.lineage.number

        def note(log: OpenLog) -> None:
            known = log.books.entries.get((dataset, number, ""))
            if known is None or known.state not in after:
                raise PrivacyError(f"release {number} of {dataset!r} is not reserved in the ledger {self.place}")
            log.append({"event": event, "dataset": dataset, "number": number, **whereabouts})

        self._use(note)
        _log.info("release %d of %r is %s in the ledger", number, dataset, event)

    def _use(self, use: Callable[[OpenLog], T]) -> T:
        """Read the log, decide by what it says and append; or do all of that again where it says more by then."""
        for _ in range(_MOST_TRIES):
            try:
                with self.log.open() as log:
                    return use(log)
            except OutrunError as error:
                outrun = error
        raise outrun


def open_ledger(place: str | Path | None = None) -> Ledger:
    """Return the ledger at a place.

    Parameters
    ----------
    place : str or Path, optional
        The user's own ledger by default. Otherwise a ledger of objects under a URI (`s3://BUCKET/PREFIX`, `gs://`,
        `az://`, `file://`) or in a folder, whose path ends in a slash unless it exists. Or an SQLite file.

    Raises
    ------
    ParameterError, StoreError
        There is no such kind of place.
    """
    if place is None or place == "":
        return Ledger()
    text = str(place)
    if is_uri(text) or text.endswith("/") or Path(text).is_dir():
        store = open_store(text)
        return Ledger(log=Log(EventObjects(store), _copy_of(_one_spelling(store.uri))))
    path, own = Path(os.path.realpath(text)), Path(os.path.realpath(Ledger().path))
    if path == own:
        return Ledger()
    return Ledger(path, _copy_of(str(path)))


def _reservation(entry: Entry, before: Account, budgets: Mapping[str, float], head: str) -> Reservation:
    """Return a release that is in the ledger, after the releases before it and with this line's hash."""
    after, unit = before.with_release(entry), entry.cost.unit
    lineage = Lineage(
        number=entry.number,
        created=entry.created,
        previous=before.previous,
        partition=entry.partition,
        ledger_head=head,
    )
    spent = {each: mu for each in (unit, *budgets) if (mu := after.mu(each)) is not None}
    return Reservation(entry.dataset, lineage, after.total(unit, entry.cost.mu), budgets, spent)


def _warn_of_clock(entry: Entry, newest: str | None) -> None:
    """Tell of a release that would be older than the one that was booked last, by more than clocks differ."""
    try:
        behind = datetime.datetime.fromisoformat(newest or "") - datetime.datetime.fromisoformat(entry.created)
    except (ValueError, TypeError):  # a log may hold any text there
        return
    if behind > _SKEW:
        _log.warning(
            "this machine's clock says %s, but the newest release in the ledger was booked at %s: if the clock is "
            "wrong, set it, as release %d of %r states its time",
            entry.created,
            newest,
            entry.number,
            entry.dataset,
        )


def _by_unit(budget_mu: float | Mapping[str, float] | None, unit: str) -> dict[str, float]:
    if budget_mu is None:
        return {}
    return dict(budget_mu) if isinstance(budget_mu, Mapping) else {unit: budget_mu}


def _require_same_changes(
    dataset: str, known: Mapping[str, tuple[float | None, int]], changes: Mapping[str, float | None]
) -> None:
    """Refuse a release that would be added up with others though its unit is a change of another size."""
    for name, limit in changes.items():
        before, number = known.get(name, (limit, None))
        if limit != before:
            was, now = ("none" if each is None else f"{each:g}" for each in (before, limit))
            raise PrivacyError(
                f"the max_change of column {name!r} was {was} in release {number} of {dataset!r} and is {now} here, so "
                'that their costs do not add up: give the same max_change, or unit = "cell" or "row"'
            )


def _one_spelling(uri: str) -> str:
    """Return the place of a store, as it is written whatever links lead there; in buckets there are none."""
    parts = urlsplit(uri)
    return f"{parts.scheme}://{parts.netloc}/{parts.path.strip('/')}" if is_uri(uri) else os.path.realpath(uri)


def _copy_of(place: str) -> Path:
    """Return where this machine keeps the lines that it has seen of the ledger at a place."""
    return home_folder() / "keys" / f"ledger-{hashlib.sha256(place.encode()).hexdigest()[:16]}.log"
