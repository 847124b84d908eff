"""The protocol of a kind of release: `publish` pays for it, seals it and gives it its name."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import BinaryIO, Protocol, TypeAlias, TypeVar

import pyarrow as pa

from dp_bundle.base.errors import DataError
from dp_bundle.manifest.columns import Column
from dp_bundle.manifest.guarantee import Guarantee
from dp_bundle.manifest.moment_noise import SecondMoments
from dp_publish.accounting.conversions import Cost
from dp_publish.data.missing import RowReport
from dp_publish.sampling.keystream import Keystream

T = TypeVar("T")
Read: TypeAlias = Callable[[dict[str, str]], Iterator[pa.RecordBatch]]
NewFile: TypeAlias = Callable[[], BinaryIO]
Progress: TypeAlias = Callable[[int], None]


@dataclass(frozen=True)
class Contents:
    """The contents of a bundle: its data members, and what the manifest says of them.

    `digests` are the SHA-256 of the parts, if they were taken when the parts were written.
    """

    parts: list[BinaryIO]
    n_rows: int
    columns: tuple[Column, ...]
    guarantee: Guarantee | None
    conditional_mu: float | None = None
    second_moments: SecondMoments | None = None
    digests: list[str] | None = None


class Records(Protocol):
    """Records of what was drawn by a process that ended since, and by this one."""

    def once(self, name: str, draw: Callable[[], T]) -> T:
        """Return what is recorded under a name, or draw and record it: what JSON can hold."""

    def new_file(self) -> BinaryIO:
        """Open a new file for a part."""

    def part(self, place: int) -> tuple[BinaryIO, str, RowReport] | None:
        """Return the part that was recorded for a place, with its digest and what was done to its rows."""

    def record_part(self, place: int, file: BinaryIO, sha256: str, report: RowReport) -> None:
        """Record the part for a place."""


@dataclass(frozen=True)
class Making:
    """The parts that a release is made with.

    Attributes
    ----------
    keystream : Keystream
        Where random bits come from, unless several threads or workers have bits of their own.
    new_file : callable
        Opens a new file for a data member.
    drawn : ExitStack
        From the moment at which an error could reveal noisy numbers, it holds a `could_reveal_noise`.
    progress : callable, optional
        Called with the number of rows done.
    records : Records, optional
        What they have is not drawn again.
    """

    keystream: Keystream
    new_file: NewFile
    drawn: contextlib.ExitStack
    progress: Progress | None = None
    records: Records | None = None


class Maker(Protocol):
    """A release in the making.

    Attributes
    ----------
    cost : Cost
        What it will cost, known before anything is drawn.
    remark : str or None
        A sentence for the publisher about a choice that was made for her; it holds nothing private.
    """

    @property
    def cost(self) -> Cost:
        """Return what the release costs."""

    @property
    def remark(self) -> str | None:
        """Return what the publisher should be told."""

    def make(self, making: Making) -> Contents:
        """Read the table, draw the noise, and write the data members."""


_REVEAL_NOTHING = (DataError, OSError, MemoryError, KeyboardInterrupt)  # of noisy numbers that were drawn before them
_MARK = "reveals_noise"


@contextlib.contextmanager
def could_reveal_noise() -> Iterator[None]:
    """Mark the errors of a block that may reveal numbers drawn before it: their cost must not be taken back."""
    try:
        yield
    except _REVEAL_NOTHING:
        raise
    except BaseException as error:
        vars(error)[_MARK] = True
        raise


@contextlib.contextmanager
def stays_booked() -> Iterator[None]:
    """Mark all errors of a block after which noisy numbers lie where others may have seen them."""
    try:
        yield
    except BaseException as error:
        vars(error)[_MARK] = True
        error.add_note(
            "noisy parts were staged, so the release stays on the books as reserved, and nothing is published"
        )
        raise


def may_reveal_noise(error: BaseException) -> bool:
    """Return True if an error was marked by `could_reveal_noise`."""
    return _MARK in vars(error)


def one_ahead(batches: Iterator[T]) -> Iterator[T]:
    """Yield the batches while a thread makes the next one, so that both sides take a core each."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        upcoming = pool.submit(next, batches, None)
        while (batch := upcoming.result()) is not None:
            upcoming = pool.submit(next, batches, None)
            yield batch
