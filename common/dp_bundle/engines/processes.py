"""Tasks in processes of this machine, for work in Python itself, which threads would do one after another."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import TypeVar

from dp_bundle.base.errors import DpGraphError
from dp_bundle.base.machine import count_cores

T = TypeVar("T")
R = TypeVar("R")


class Processes:
    """Processes that are started for each call, and end with it.

    They import the main module anew, which must be one that can be imported, as those of commands are.

    Parameters
    ----------
    n_workers : int, optional
        How many; one for each core, by default. A single one is this process.
    """

    def __init__(self, n_workers: int | None = None) -> None:
        self.n_workers = n_workers or count_cores()

    def map_unordered(self, function: Callable[[T], R], tasks: Iterable[T]) -> Iterator[R]:
        """Yield the results of a function of every task, as they come; after an error no further task begins.

        The function is one that can be imported, and tasks and results are pickled.

        Raises
        ------
        DpGraphError
            A process was ended from outside, perhaps for want of memory.
        """
        if self.n_workers == 1:
            yield from map(function, tasks)
            return
        pool = ProcessPoolExecutor(self.n_workers, mp_context=get_context("spawn"), initializer=_leave_interrupts)
        try:
            for done in as_completed([pool.submit(function, task) for task in tasks]):
                yield done.result()
        except BrokenProcessPool as error:
            raise DpGraphError("a process was ended from outside, perhaps for want of memory") from error
        finally:
            pool.shutdown(cancel_futures=True)


def _leave_interrupts() -> None:
    """Leave Ctrl-C to the process that started this one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
