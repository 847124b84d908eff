"""Failures that may pass: what is done again, after which pause, and for how long altogether.

A server may be silent, or send a byte now and then, for as long as it likes, and each single wait for it is short. So
waits are added up. A reader has a minute of leeway, and a second more for each 16 KiB that come, but never more than a
minute; when it is used up, the place is given up. A transfer of n bytes takes at most 60 s + n / (16 KiB/s), with all
that is tried again.
"""

from __future__ import annotations

import contextlib
import math
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from dp_bundle.base.errors import ParameterError, StoreError

T = TypeVar("T")

LEAST_RATE = 2**14  # bytes a second
DEFAULT_PATIENCE = 60.0  # seconds
_MOST_FAILURES = 8  # in a row; the pauses between them add up to about six seconds
_MOST_CUTS = 64  # of one content, if something came of it every time
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 3.0  # seconds


def number_chosen(name: str, default: float, allowed: str, fits: Callable[[float], bool]) -> float:
    """Return the number in a variable of the environment, or the default.

    Raises
    ------
    ParameterError
        The variable is no number that fits; the message says what is allowed.
    """
    given = os.environ.get(name, str(default))
    try:
        number = float(given)
    except ValueError:
        number = math.nan
    if not fits(number):
        raise ParameterError(name, allowed, given)
    return number


class Pace:
    """The leeway of the transfers from one place; threads may share it, and a second passes once for all of them.

    Parameters
    ----------
    earns : bool
        Whether bytes that come give leeway back. While nobody knows how many should come, they do not: then all of it
        takes a minute at most.
    """

    def __init__(self, *, earns: bool = True) -> None:
        self.earns = earns
        allowed = "a number of seconds, at most those of a day"
        self.leeway = number_chosen("DPGRAPH_PATIENCE", DEFAULT_PATIENCE, allowed, lambda given: 0 < given <= 86_400)
        self._left = self.leeway
        self._running, self._since = 0, time.monotonic()
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Let time count within the block."""
        with self._lock:
            self._spend()
            self._running += 1
        try:
            yield
        finally:
            with self._lock:
                self._spend()
                self._running -= 1

    def left(self) -> float:
        """Return how many seconds are left for the next byte; none if not more than 0."""
        with self._lock:
            self._spend()
            return self._left

    def wait(self) -> float:
        """Return after how many seconds of silence it is better to ask again: half of the leeway, if that is left.

        Raises
        ------
        TimeoutError
            Nothing is left.
        """
        left = self.left()
        if left <= 0:
            raise TimeoutError
        return min(left, self.leeway / 2)

    def received(self, n_bytes: int) -> None:
        """Count bytes that were asked for and came."""
        with self._lock:
            self._spend()
            if self.earns and self._left > 0:
                self._left = min(self.leeway, self._left + n_bytes / LEAST_RATE)

    def describe(self) -> str:
        """Return the sentence for a place that was too slow."""
        more = f", and one more for each {LEAST_RATE // 2**10} KiB that come" if self.earns else ""
        return (
            f"its server is too slow: it is given {self.leeway:g} seconds in all{more}; try again later, or set "
            f"DPGRAPH_PATIENCE to more than {self.leeway:g}"
        )

    def _spend(self) -> None:
        now = time.monotonic()
        if self._running:
            self._left -= now - self._since
        self._since = now


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
