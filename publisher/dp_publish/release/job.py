"""What was drawn and sealed of a release, and a job: the records by which it goes on after its process ended.

What was drawn is recorded before anything is made of it, and a record is never replaced. So a process that goes on
draws only what has no record, and nothing of which anybody could have seen another outcome. A part is written under a
name of its own and has its place once it is recorded; what was written without a record is deleted unread. Everything
lies in a folder that only its owner may enter, as noisy parts are private until the release is published.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeVar, cast

from pydantic import ConfigDict, TypeAdapter, with_config

from dp_bundle.base.errors import DpGraphError, ParameterError
from dp_bundle.base.quoting import quote_path
from dp_bundle.files.new_files import locked_folder, settle, sync_folder, write_whole
from dp_bundle.files.ownership import require_private
from dp_bundle.manifest.columns import Column
from dp_bundle.manifest.discovery import Discovery
from dp_bundle.manifest.guarantee import Guarantee
from dp_bundle.manifest.moment_noise import SecondMoments
from dp_bundle.manifest.release import Release
from dp_bundle.manifest.sources import Source
from dp_publish.data.missing import RowReport

T = TypeVar("T")

_PLAN, _DRAWN = "plan", "part-"
_LAST = ("contents.json", "sealed.json", f"{_PLAN}.json")  # deleted in this order, after all else
_VERSION = 1


@with_config(ConfigDict(extra="forbid"))
@dataclass(frozen=True)
class Contents:
    """What the manifest says of the data members of a bundle, and what its publisher is told of them.

    `report`, and it alone, tells of private values. `remark` says what was chosen for her, and why; it holds nothing
    private. `sources` and `left_out` are those that were found privately, and take the place of declared ones.
    """

    n_rows: int
    columns: tuple[Column, ...]
    guarantee: Guarantee
    report: RowReport
    remark: str | None = None
    second_moments: SecondMoments | None = None
    sources: tuple[Source, ...] | None = None
    discovery: Discovery | None = None
    left_out: tuple[str, ...] | None = None


class Part(NamedTuple):
    """A data member that was written: its place among all, its file and the SHA-256 of that."""

    place: int
    file: BinaryIO
    sha256: str


@with_config(ConfigDict(extra="forbid", ser_json_bytes="hex", val_json_bytes="hex"))
@dataclass(frozen=True)
class Sealed:
    """A bundle that was written and signed; `blake2b` is the BLAKE2b-512 digest of the whole file."""

    release: Release
    manifest_sha256: str
    blake2b: bytes
    report: RowReport
    remark: str | None
    left_out: tuple[str, ...] | None = None


@dataclass(frozen=True)
class JobPlan:
    """Everything that was decided before the release was paid for.

    Attributes
    ----------
    job_id : str
        Random, so that no two plans have the same mark.
    software : str
        The version of dpgraph.
    data : str
        The table's path or URI.
    inputs : list of list
        Its files, as `describe_files` tells them from others.
    policy : dict
        The policy, as it was resolved.
    kinds : dict of str to str
        The columns.
    left_out, withheld : list of str
        Other columns of the table; those of them that were a unit of privacy before.
    partition : str or None
        The part of the dataset's rows.
    out : str
        Where the bundle goes, as `choose_target` takes it.
    key : str
        The signing key's fingerprint.
    ledger : str or None
        The ledger's place; None for the user's own.
    staging : str or None
        Where workers stage parts; empty for a temporary place, and None without workers.
    """

    job_id: str
    software: str
    data: str
    inputs: list[list[Any]]
    policy: dict[str, Any]
    kinds: dict[str, str]
    left_out: list[str]
    withheld: list[str]
    partition: str | None
    out: str
    key: str
    ledger: str | None
    staging: str | None = None

    @property
    def mark(self) -> str:
        """By which the ledger knows the release: the digest of the whole plan, so that an edited one is another."""
        return hashlib.sha256(json.dumps(asdict(self)).encode()).hexdigest()

    @property
    def staged(self) -> str:
        """The name of the folder in the staging place."""
        return f"job-{self.job_id}"


class Job:
    """An open job, which no other process can open meanwhile.

    Parameters
    ----------
    folder : Path
        Its folder.
    plan : JobPlan
        What was decided.

    Attributes
    ----------
    before_removal : callable
        Removes what the job has elsewhere, as nobody could find it afterwards.
    """

    def __init__(self, folder: Path, plan: JobPlan) -> None:
        self.folder, self.plan = folder, plan
        self.before_removal: Callable[[], None] = lambda: None
        self._files = contextlib.ExitStack()

    @property
    def command(self) -> str:
        """The command that goes on with it."""
        return f"dp-publish resume {quote_path(self.folder)}"

    @property
    def has_drawn(self) -> bool:
        """True if anything was drawn and recorded."""
        return any(path.name not in ("plan.json", "reserved.json") for path in self.folder.glob("*.json"))

    def read(self, name: str) -> Any:
        """Return a record; None if there is none."""
        with self.reading(name), contextlib.suppress(FileNotFoundError):
            return json.loads((self.folder / f"{name}.json").read_bytes())
        return None

    @contextlib.contextmanager
    def reading(self, name: str) -> Iterator[None]:
        """Turn what is wrong with a record that is used in a block into an error of ours."""
        try:
            yield
        except DpGraphError:
            raise
        except (KeyError, TypeError, ValueError) as error:
            raise self._changed(f"{name}.json") from error

    def record(self, name: str, content: Any) -> None:
        """Make a record, which is on the disk afterwards."""
        write_whole(self.folder / f"{name}.json", json.dumps(content).encode(), replace=False, mode=0o600)

    def once(self, name: str, draw: Callable[[], T]) -> T:
        """Return what is recorded under a name, or draw and record it; numbers come back to the last bit."""
        if self.read(name) is None:
            self.record(name, draw())
        found: T = self.read(name)
        return found

    def new_file(self) -> BinaryIO:
        """Open a new file for a part, or for a matrix."""
        path = self.folder / f"{_DRAWN}{secrets.token_hex(8)}"
        return cast(BinaryIO, self._files.enter_context(path.open("x+b")))

    def part(self, place: int) -> tuple[Part, RowReport] | None:
        """Return the part that was recorded for a place, and what was done to its rows.

        Raises
        ------
        DpGraphError
            It is not what it was.
        """
        found = self.read(_part_name(place))
        if found is None:
            return None
        with self.reading(_part_name(place)):
            part = Part(place, self._open(found["file"], found["sha256"]), found["sha256"])
            return part, RowReport(**found["report"])

    def record_part(self, part: Part, report: RowReport) -> None:
        """Record the part for its place, and what was done to its rows."""
        settle(part.file)
        sync_folder(self.folder)
        file = Path(part.file.name).name
        self.record(_part_name(part.place), {"file": file, "sha256": part.sha256, "report": asdict(report)})

    def contents(self) -> tuple[Contents, list[Part]] | None:
        """Return what was drawn in all, if that is recorded."""
        found = self.read("contents")
        if found is None:
            return None
        with self.reading("contents"):
            named = enumerate(zip(found.pop("files"), found.pop("digests"), strict=True))
            parts = [Part(place, self._open(name, sha256), sha256) for place, (name, sha256) in named]
            return TypeAdapter(Contents).validate_json(json.dumps(found)), parts

    def record_contents(self, contents: Contents, parts: list[Part]) -> None:
        """Record what was drawn in all."""
        for part in parts:
            settle(part.file)
        sync_folder(self.folder)
        files = {"files": [Path(part.file.name).name for part in parts], "digests": [part.sha256 for part in parts]}
        self.record("contents", TypeAdapter(Contents).dump_python(contents, mode="json") | files)

    def sealed(self) -> Sealed | None:
        """Return the bundle that was made, if that is recorded."""
        found = self.read("sealed")
        with self.reading("sealed"):
            return None if found is None else TypeAdapter(Sealed).validate_json(json.dumps(found))

    def record_sealed(self, sealed: Sealed) -> None:
        """Record a bundle that was made."""
        self.record("sealed", TypeAdapter(Sealed).dump_python(sealed, mode="json"))

    def sweep(self) -> None:
        """Delete what was written and not recorded."""
        kept: set[str] = set()
        for path in self.folder.glob("place-*.json"):
            with self.reading(path.stem):
                kept.add(self.read(path.stem)["file"])
        with self.reading("contents"):
            kept |= set((self.read("contents") or {"files": []})["files"])
        for path in self.folder.iterdir():
            if path.suffix != ".json" and path.name not in kept:
                path.unlink()

    def close(self) -> None:
        """Close all files."""
        self._files.close()

    def remove(self) -> None:
        """Delete all of it."""
        self.before_removal()
        for path in sorted(self.folder.iterdir()):
            if path.name not in _LAST:
                path.unlink()
        for name in _LAST:
            (self.folder / name).unlink(missing_ok=True)
        self.folder.rmdir()

    def _open(self, name: str, sha256: str) -> BinaryIO:
        try:
            file = self._files.enter_context((self.folder / name).open("rb"))
        except OSError as error:
            raise self._changed(name) from error
        if digest_of(file) != sha256:
            raise self._changed(name)
        return file

    def _changed(self, name: str) -> DpGraphError:
        return DpGraphError(
            f"{name} in the job {quote_path(self.folder)} is not what it was, so the release cannot be finished, and "
            "stays on the books as spent: publish anew"
        )


def require_new_job(folder: Path) -> None:
    """Refuse a name that is taken, or that is in no folder.

    Raises
    ------
    DpGraphError
        It is.
    """
    if os.path.lexists(folder):
        raise DpGraphError(
            f"there is something at {quote_path(folder)} already: if it is a job, `dp-publish resume "
            f"{quote_path(folder)}` finishes its release; otherwise give another --job"
        )
    if not folder.absolute().parent.is_dir():
        raise DpGraphError(f"the job {quote_path(folder)} cannot be made: make the folder for it first")


def require_job(folder: Path, scheduler: str | None = None) -> None:
    """Refuse what is no job of this version, and a scheduler for one that has no workers.

    Raises
    ------
    DpGraphError
        It is none.
    ParameterError
        It was begun without workers.
    """
    if _read_plan(folder).staging is None and scheduler is not None:
        raise ParameterError("--scheduler", "left out, as this job was begun without --engine dask", scheduler)


@contextlib.contextmanager
def open_job(folder: Path, plan: JobPlan | None = None) -> Iterator[Job]:
    """Hold a job that was begun, or begin one with this plan.

    Raises
    ------
    DpGraphError
        It is no job of this version, or another process is at it; or there is something of that name already, or it
        cannot be made.
    """
    if plan is not None:
        require_new_job(folder)
        try:
            folder.mkdir(mode=0o700)
        except OSError as error:
            raise DpGraphError(f"the job {quote_path(folder)} cannot be made: {error.strerror}") from error
    with contextlib.ExitStack() as ending:
        try:
            ending.enter_context(locked_folder(folder, 0.0))
        except TimeoutError as error:
            raise DpGraphError(f"another process is at the job {quote_path(folder)}: wait until it ends") from error
        except OSError as error:
            raise _no_job(folder) from error

        if plan is not None:
            job = ending.enter_context(contextlib.closing(Job(folder.absolute(), plan)))
            job.record(_PLAN, {"version": _VERSION, **asdict(plan)})
        else:
            require_private(folder, "what is to be published")
            job = ending.enter_context(contextlib.closing(Job(folder.absolute(), _read_plan(folder))))
            job.sweep()
        yield job


def _read_plan(folder: Path) -> JobPlan:
    try:
        content = json.loads((folder / f"{_PLAN}.json").read_bytes())
        version, plan = content.pop("version"), JobPlan(**content)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise _no_job(folder) from error
    if version != _VERSION:
        raise _no_job(folder)
    return plan


def _no_job(folder: Path) -> DpGraphError:
    return DpGraphError(f"{quote_path(folder)} is no job of this version: name the folder that --job made")


def _part_name(place: int) -> str:
    return f"place-{place:05d}"


def digest_of(file: BinaryIO) -> str:
    """Return the SHA-256 of a file, in hexadecimal digits."""
    file.seek(0)
    return hashlib.file_digest(cast(Any, file), "sha256").hexdigest()
