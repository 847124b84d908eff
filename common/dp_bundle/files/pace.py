"""The least pace of what comes from a place: how long a reader waits for its server, altogether.

A server may be silent, or send a byte now and then, for as long as it likes, and each single wait for it is short. So
waits are added up. A reader has a minute of leeway, and a second more for each 16 KiB that come, but never more than a
minute; when it is used up, the place is given up. A transfer of n bytes takes at most 60 s + n / (16 KiB/s), with all
that is tried again.
"""

from __future__ import annotations

import contextlib
import math
import os
import threading
import time
from collections.abc import Iterator

from dp_bundle.base.errors import ParameterError

LEAST_RATE = 2**14  # bytes a second
DEFAULT_PATIENCE = 60.0  # seconds


def patience_in_seconds() -> float:
    """Return the leeway of a transfer: that of `$DPGRAPH_PATIENCE`, or a minute.

    Raises
    ------
    ParameterError
        The variable is no number of seconds.
    """
    given = os.environ.get("DPGRAPH_PATIENCE", str(DEFAULT_PATIENCE))
    try:
        seconds = float(given)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds <= 86_400:
        raise ParameterError("DPGRAPH_PATIENCE", "a number of seconds, at most those of a day", given)
    return seconds


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
        self.leeway = patience_in_seconds()
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
