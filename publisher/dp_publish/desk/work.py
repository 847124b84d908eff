"""Work that takes a while, done by the command itself in a process of its own: what it says, and how it is cancelled.

So whatever the desk does is what the command does: the same bytes, the same books, the same end after an interrupt.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from typing import IO, Any

COMMAND = (sys.executable, "-P", "-m", "dp_publish")  # -P: no module is taken from the folder of the data
_MOST_LINES = 400  # that are kept of what is told


class Work:
    """A command that runs, or has ended.

    Attributes
    ----------
    what : str
        What it does, in a word that the page knows.
    told : list of str
        What it said besides its answer, in order.
    step : dict
        How far it is, as it said last.
    output : str
        Its answer, once it has ended.
    code : int or None
        Its exit code, once it has ended.
    """

    def __init__(self, what: str, arguments: Sequence[str]) -> None:
        self.what, self.began = what, time.monotonic()
        self.told: list[str] = []
        self.step: dict[str, Any] = {}
        self.output, self.cancelled = "", False
        self.code: int | None = None
        self.ended = 0.0
        self._process = subprocess.Popen(  # noqa: S603  ourselves
            [*COMMAND, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            errors="replace",
            env={**os.environ, "PYTHONIOENCODING": "utf-8"},
            start_new_session=True,  # so that an interrupt at the terminal comes by `cancel` alone, and once
        )
        self._threads = [threading.Thread(target=each, daemon=True) for each in (self._listen, self._wait)]
        for thread in self._threads:
            thread.start()

    @property
    def seconds(self) -> float:
        """How long it has been at it."""
        return time.monotonic() - self.began

    @property
    def is_running(self) -> bool:
        """Whether it has not ended yet."""
        return self.code is None

    def cancel(self) -> None:
        """Interrupt it, once, as at a terminal; it undoes what it began, and says what it could not undo."""
        if self.is_running and not self.cancelled:
            self.cancelled = True
            self._process.send_signal(signal.SIGINT)

    def wait(self, seconds: float | None = None) -> None:
        """Wait until it has ended."""
        self._threads[1].join(seconds)

    def _listen(self) -> None:
        with _open(self._process.stderr) as lines:
            for line in lines:
                self._take(line.rstrip("\n"))

    def _take(self, line: str) -> None:
        """Keep a line: a document of how far it is, or a sentence."""
        try:
            found = json.loads(line)
        except ValueError:
            found = None
        if isinstance(found, dict):
            self.step = found
        elif len(self.told) < _MOST_LINES:
            self.told.append(line)

    def _wait(self) -> None:
        with _open(self._process.stdout) as answer:
            self.output = answer.read()
        self._threads[0].join()
        self.ended = time.monotonic()
        self.code = self._process.wait()


def _open(stream: IO[str] | None) -> IO[str]:
    if stream is None:
        raise TypeError("the process was started with pipes")
    return stream
