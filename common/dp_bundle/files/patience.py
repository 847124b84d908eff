"""Failures that may pass: what is done again, after which pause, and for how long."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from dp_bundle.base.errors import StoreError
from dp_bundle.files.pace import Pace

T = TypeVar("T")

_MOST_FAILURES = 8  # in a row; the pauses between them add up to about six seconds
_MOST_CUTS = 64  # of one content, if something came of it every time
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 3.0  # seconds


class PassingError(Exception):
    """A failure that may pass; its message says what happened, and has nothing of the answer in it."""


def patiently(uri: str, attempt: Callable[[], T], pace: Pace, progress: Callable[[], int] = lambda: 0) -> T:
    """Return what an attempt returns, after as many `PassingError` as are reasonable.

    Parameters
    ----------
    uri : str
        What it is about, for the message.
    attempt : callable
        It is called again after a failure.
    pace : Pace
        How long it may take, with all attempts and pauses.
    progress : callable
        Returns how far the attempts have come together: a failure after a step forward is a first one.

    Raises
    ------
    StoreError
        The last attempt failed, too, or it took too long.
    """
    failures, reached = 0, progress()
    with pace.running():
        for _ in range(_MOST_CUTS):
            try:
                if pace.left() > 0:
                    return attempt()
            except PassingError as error:
                last = error
            if pace.left() <= 0:
                raise StoreError(uri, pace.describe())
            failures, reached = (failures + 1 if progress() == reached else 1), progress()
            if failures >= _MOST_FAILURES:
                break
            pause(failures)
    raise StoreError(uri, f"{last}, also when asked again") from last


def read_patiently(
    uri: str, chunks: Callable[[int, int | None], Iterator[bytes]], start: int, length: int | None, pace: Pace
) -> bytes:
    """Return a content piece by piece, going on where an answer was cut short.

    Parameters
    ----------
    uri : str
        What is read, for messages.
    chunks : callable
        Takes a position and a number of bytes, or None for all, and yields them; it raises `PassingError` if they end
        too early. What it yields beyond that number is cut off.
    start, length : int
        What is asked for; with None for the length, all from there on.
    pace : Pace
        How slowly it may come.
    """
    found = bytearray()

    def attempt() -> None:
        rest = None if length is None else length - len(found)
        if rest == 0:
            return
        for chunk in chunks(start + len(found), rest):
            found.extend(chunk)
            pace.received(len(chunk))
            if length is not None and len(found) >= length:
                del found[length:]
                return
            if pace.left() <= 0:
                raise PassingError("its answer was too slow")

    patiently(uri, attempt, pace, lambda: len(found))
    return bytes(found)


def pause(failures: int) -> None:
    """Wait for longer after each failure, and never quite as long as others who failed at the same time."""
    time.sleep(min(_LONGEST_PAUSE, _FIRST_PAUSE * 2**failures) * random.uniform(0.5, 1.0))
