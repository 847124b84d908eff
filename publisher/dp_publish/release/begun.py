"""Releases that were begun: what a private search told, and the sealed bundle, kept until the release is published.

A release that ended early has a record beside the ledger, for its publisher alone. A living process holds a lock on its
own. What no process holds is examined before the ledger is used again (`take_back`). A release that searched nothing,
of which no file got a name, is taken out of the ledger. Any other waits for the same command on the same table, which
goes on from there. Every outcome of a search is recorded before anything follows from it, and is never drawn again. So
nobody can choose among outcomes by ending processes, nor can memory or time. Noise that nobody saw is drawn anew.
"""

import contextlib
import hashlib
import json
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeVar, cast

import numpy as np
from pydantic import ConfigDict, TypeAdapter, with_config

from dp_bundle.base.errors import DpGraphError
from dp_bundle.bundle.writing import sha256_of
from dp_bundle.files.new_files import link_hidden, locked, locked_folder, write_whole
from dp_bundle.files.opening import remove_below
from dp_bundle.files.places import is_uri
from dp_bundle.manifest.columns import Column, Source
from dp_bundle.manifest.guarantee import Discovery, Guarantee
from dp_bundle.manifest.matrix_noise import SecondMoments
from dp_bundle.manifest.release import Release
from dp_publish.data.kinds import Kinds
from dp_publish.data.table import Table
from dp_publish.ledger.ledger import Ledger
from dp_publish.release.targets import Target, choose_target
from dp_publish.rows.missing import RowReport

T = TypeVar("T")
_PLAN, _OUTCOMES, _SEALED, _STAGED = "plan.json", "outcomes.jsonl", "sealed.json", "staged.json"
_ROWS = 2**16  # of a table in memory at a time


@with_config(ConfigDict(extra="forbid"))
@dataclass(frozen=True)
class Contents:
    """What the manifest says of the data members of a bundle, and what its publisher is told of them.

    `report`, and it alone, tells of private values. `remark` says what was chosen for her, and why; it holds nothing
    private. `sources` and `left_out` are those that were found privately, and take the place of declared ones. `ends`
    are further fields of the dataset.
    """

    n_rows: int
    columns: tuple[Column, ...]
    guarantee: Guarantee
    report: RowReport
    remark: str | None = None
    second_moments: SecondMoments | None = None
    sources: tuple[Source, ...] | None = None
    discovery: Discovery | None = None
    left_out: dict[str, str] | None = None
    ends: Mapping[str, list[str]] = field(default_factory=dict)


class Part(NamedTuple):
    """A data member that was written: its place among all, its file and the SHA-256 of that."""

    place: int
    file: BinaryIO
    sha256: str


@with_config(ConfigDict(extra="forbid", ser_json_bytes="hex", val_json_bytes="hex"))
@dataclass(frozen=True)
class Sealed:
    """A bundle that was written and signed; `blake2b` is the BLAKE2b-512 digest of the whole file.

    `out` is where it goes, and `hidden` its name until then, if it could be given one.
    """

    release: Release
    manifest_sha256: str
    blake2b: bytes
    report: RowReport
    remark: str | None
    left_out: dict[str, str] | None = None
    out: str = ""
    hidden: str = ""


class Begun:
    """The record of a release, which its process holds.

    Parameters
    ----------
    folder : Path
        Its folder, whose name ends in the mark of the release in the ledger.

    Attributes
    ----------
    can_go_on : bool
        False where other noise may have been seen than would be drawn now.

    Raises
    ------
    DpGraphError
        It was changed.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.mark = folder, folder.name.rpartition("-")[2]
        path = folder / _OUTCOMES
        lines = path.read_text().split("\n")[:-1] if path.exists() else []  # one that was cut short was not used
        try:
            self._told: list[dict[str, Any]] = [json.loads(line) for line in lines]
        except ValueError as error:
            raise self._changed() from error
        self._is_sealed, self._is_staged = ((folder / name).exists() for name in (_SEALED, _STAGED))
        self.can_go_on = self._is_sealed or not self._is_staged
        self._n_used, self._is_writing, self._is_closed = 0, False, False

    @property
    def has_told(self) -> bool:
        """True if an outcome was recorded."""
        return bool(self._told)

    @property
    def why_spent(self) -> str:
        """Why the release cannot be taken out of the ledger any more; nothing if it can."""
        if self._is_sealed:
            return "it was signed, and may have been seen"
        if self._is_staged:
            return "noisy numbers lay where they may have been seen"
        return "a private search had found something" if self.has_told else ""

    def once(self, name: str, draw: Callable[[], T]) -> T:
        """Return the next outcome as it was recorded under a name, or draw and record it.

        Noisy sums of rows are not recorded, nor what is drawn after them. Nobody has seen any of it, and nothing that
        can be noticed follows from it.

        Raises
        ------
        DpGraphError
            The record has another outcome there.
        """
        if self._n_used < len(self._told):
            told = self._told[self._n_used]
            if told["name"] != name:
                raise self._changed()
            self._n_used += 1
            return cast(T, np.array(told["array"], np.int64) if "array" in told else told["outcome"])
        found = draw()
        self._is_closed = self._is_closed or not isinstance(found, np.ndarray | np.integer | int | list | dict)
        if not self._is_closed:
            kept = {"array": found.tolist()} if isinstance(found, np.ndarray) else {"outcome": found}
            self._told.append({"name": name, **kept})
            self._n_used += 1
            if not self._is_writing:  # and what an earlier process did not write to its end goes
                self._write(_OUTCOMES, "".join(f"{json.dumps(each)}\n" for each in self._told[:-1]))
            self._is_writing = True
            with (self.folder / _OUTCOMES).open("a") as file:
                file.write(f"{json.dumps(self._told[-1], default=int)}\n")
        return found

    def staged(self, *place: str) -> None:
        """Record that noisy numbers will lie where others may see them: by workers, with the place and their folder."""
        self._write(_STAGED, json.dumps(place))

    def seal(self, made: Sealed, file: BinaryIO, target: Target) -> Sealed:
        """Record a bundle before it is booked as sealed, with a hidden name of its file, which is whole."""
        hidden = link_hidden(file, target.folder / target.tar.name)
        if hidden is not None:
            made = replace(made, out=target.spelled, hidden=str(hidden.absolute()))
            self._write(_SEALED, TypeAdapter(Sealed).dump_json(made).decode())
        return made

    def sealed(self) -> Sealed | None:
        """Return the bundle that was sealed, if one was."""
        try:
            return TypeAdapter(Sealed).validate_json((self.folder / _SEALED).read_bytes())
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise self._changed() from error

    def remove(self) -> None:
        """Remove the record, and all that is left of the release in hidden places."""
        sealed = self.sealed()
        if sealed is not None and sealed.hidden:
            Path(sealed.hidden).unlink(missing_ok=True)
        with contextlib.suppress(FileNotFoundError):
            if place := json.loads((self.folder / _STAGED).read_bytes()):
                remove_below(*place)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _changed(self) -> DpGraphError:
        return DpGraphError(f"the record {self.folder} was changed: remove it, and publish anew")

    def _write(self, name: str, content: str) -> None:
        write_whole(self.folder / name, content.encode(), replace=True, mode=0o600)


@contextlib.contextmanager
def begin(ledger: Ledger, dataset: str, digest: str) -> Iterator[Begun]:
    """Hold the record of a release: one with this digest that no process holds any more, or a new one.

    Parameters
    ----------
    ledger : Ledger
        Where it is booked, or will be; see `take_back` for what happens there first.
    dataset : str
        Its dataset.
    digest : str
        Of everything that decides on the release, the table included: private, as the record is.
    """
    with contextlib.ExitStack() as held:
        with _alone(ledger):
            begun = _take_back(ledger, digest, held)
            if begun is None:
                folder = ledger.begun / f"{digest}-{secrets.token_hex(16)}"
                folder.mkdir(mode=0o700)
                held.enter_context(locked_folder(folder, 0.0))
                write_whole(folder / _PLAN, json.dumps({"dataset": dataset}).encode(), replace=False, mode=0o600)
                begun = Begun(folder)
        yield begun


def take_back(ledger: Ledger) -> None:
    """Take releases out of the ledger that ended early, of which nothing can have been seen."""
    if any(records(ledger)):
        with contextlib.ExitStack() as held, _alone(ledger):
            _take_back(ledger, "none", held)


def cancel(ledger: Ledger, dataset: str, number: int) -> str:
    """Take a release that ended early out of the ledger, or say why it stays there; what was kept of it is removed.

    Raises
    ------
    DpGraphError
        It is not in the ledger, or published, or a process is at it, or was begun on another machine.
    """
    name, entry = f"release {number} of {dataset!r}", ledger.books().entries.get((dataset, number, ""))
    if entry is None or entry.state == "cancelled":
        raise DpGraphError(f"{name} is not in the ledger {ledger.place}")
    if entry.state == "published":
        raise DpGraphError(f"{name} is published, at {entry.file}, and stays in the ledger as spent")
    with contextlib.ExitStack() as held, _alone(ledger):
        for begun in records(ledger):
            found = ledger.find(dataset, begun.mark)
            if found is None or found[1].number != number:
                continue
            try:
                held.enter_context(locked_folder(begun.folder, 0.0))
            except OSError as error:
                raise DpGraphError(f"a process is at {name}: wait until it ends, or end it") from error
            why = begun.why_spent or ("" if entry.state == "reserved" else "it was signed, and may have been seen")
            if not why:
                ledger.cancel(found[0])
            begun.remove()
            if why:
                return f"{name} stays in the ledger as spent, as {why}; what was kept to go on with it is removed"
            return f"{name} is out of the ledger, as nothing of it can have been seen; its number is not used again"
    raise DpGraphError(
        f"{name} stays in the ledger as spent, as this machine has no record of it: it failed here when something of "
        "it was drawn already, or another machine began it. That machine knows whether it can have been seen: run this "
        "there"
    )


def digest_of_release(table: Table, kinds: Kinds, decided: Any) -> str:
    """Return the digest of a table, of its files or of columns in memory, and of all else that decides on a release."""
    whole = hashlib.blake2b(json.dumps(decided, sort_keys=True).encode(), digest_size=16)
    if table.describe is None:
        for batch in table.batches(table.cells.stored(kinds), _ROWS):
            whole.update(batch.serialize())
        return whole.hexdigest()
    for path, size, _, ends in table.describe():
        whole.update(f"{size} {ends}".encode())
        if not is_uri(path):
            with Path(path).open("rb") as file:
                whole.update(sha256_of(file).encode())
    return whole.hexdigest()


@contextlib.contextmanager
def _alone(ledger: Ledger) -> Iterator[None]:
    """Hold all records of a ledger for as long as it takes to look at them."""
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(locked(ledger.begun / ".lock"))
        except OSError as error:
            said = f"what a release has found cannot be kept in {ledger.begun} ({error.strerror})"
            raise DpGraphError(f"{said}: set DPGRAPH_HOME to a folder of yours") from error
        yield


def records(ledger: Ledger) -> Iterator[Begun]:
    """Yield the records of all releases that were begun on this machine and are not published."""
    yield from map(Begun, sorted(ledger.begun.glob("[!.]*")))


def _take_back(ledger: Ledger, digest: str, held: contextlib.ExitStack) -> Begun | None:
    """Look at all records that no process holds, and return one with this digest, which is held then."""
    adopted = None
    for begun in records(ledger):
        with contextlib.ExitStack() as lock:
            try:
                lock.enter_context(locked_folder(begun.folder, 0.0))
            except OSError:  # its process lives
                continue
            ours = begun.folder.name.startswith(digest) and begun.can_go_on
            if _is_over(ledger, begun, ours=ours):
                begun.remove()
            elif ours and adopted is None:
                adopted = begun
                held.push(lock.pop_all())
    return adopted


def _is_over(ledger: Ledger, begun: Begun, *, ours: bool) -> bool:
    """Return whether nobody can go on with a release that ended early, and make that true in the ledger as well."""
    try:
        dataset = json.loads((begun.folder / _PLAN).read_bytes())["dataset"]
    except (OSError, ValueError):
        return True  # it came to nothing
    found, sealed = ledger.find(dataset, begun.mark), begun.sealed()
    if found is None or found[1].state == "cancelled":
        return True
    reservation, entry = found
    if entry.state == "published":  # and something beside it may be missing
        return not (ours and sealed is not None and choose_target(sealed.out).holds(sealed.manifest_sha256))
    if sealed is None and entry.state == "sealed":
        return True  # what was drawn is lost, and must not be drawn again
    if not begun.why_spent:
        ledger.cancel(reservation)
        return True
    if sealed is None or ours or not choose_target(sealed.out).holds(sealed.manifest_sha256):
        return False
    ledger.commit(reservation, sealed.manifest_sha256, sealed.out)
    return True
