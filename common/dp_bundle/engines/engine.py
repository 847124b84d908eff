"""The interface of all engines.

Tasks in threads of this process, for work that releases Python's lock: kernels, Arrow, ciphers and digests.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Protocol, TypeVar

T = TypeVar("T")
R = TypeVar("R")


class Engine(Protocol):
    """Runner of tasks of one kind, on this machine or on many.

    A task may run more than once, where an engine tries again what was lost with a machine. So a function has either no
    effect, or one that is the same however often it runs.

    Attributes
    ----------
    n_workers : int
        How many tasks run at once.
    """

    @property
    def n_workers(self) -> int:
        """Return how many tasks run at once."""

    def map_unordered(self, function: Callable[[T], R], tasks: Iterable[T]) -> Iterator[R]:
        """Yield the results of a function of every task, as they come; after an error no further task begins."""


class StoppedError(Exception):
    """Another task has failed, or the user has stopped the work: the result of this one is no longer wanted."""


class Threads:
    """Threads of this process.

    Parameters
    ----------
    n_workers : int
        How many, at least 1.
    """

    def __init__(self, n_workers: int) -> None:
        self.n_workers = n_workers
        self._stopped = threading.Event()

    def map_unordered(self, function: Callable[[T], R], tasks: Iterable[T]) -> Iterator[R]:
        """Yield the results of a function of every task, as they come.

        After an error, or where the caller stops before the last result, no further task begins, and those that run
        are waited for; a long one ends early if it calls `require_running` now and then.
        """
        pool = ThreadPoolExecutor(self.n_workers)

        def run(task: T) -> R:
            self.require_running()
            try:
                return function(task)
            except BaseException:
                self._stopped.set()  # at once, before this thread begins the next task
                raise

        try:
            for done in as_completed([pool.submit(run, task) for task in tasks]):
                if not isinstance(done.exception(), StoppedError):  # the error that stopped it is another task's
                    yield done.result()
        except BaseException:
            self._stopped.set()
            raise
        finally:
            pool.shutdown(cancel_futures=True)

    def require_running(self) -> None:
        """Raise `StoppedError`, in a task, if its result is no longer wanted."""
        if self._stopped.is_set():
            raise StoppedError
