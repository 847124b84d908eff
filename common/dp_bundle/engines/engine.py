"""The interface of all engines, and results in order, with few of them in memory.

Tasks in threads of this process, for work that releases Python's lock: kernels, Arrow, ciphers and digests.

Tasks in processes of this machine, for work in Python itself, which threads would do one after another.
"""

import contextlib
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing import get_context
from typing import Protocol, TypeVar

from dp_bundle.base.errors import DpGraphError
from dp_bundle.base.machine import count_cores

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


def map_batches(function: Callable[[T], R], batches: Iterable[T], n_workers: int, n_waiting: int | None) -> Iterator[R]:
    """Yield the results in the order of the batches, of which no more are in work at a time than there are threads.

    Parameters
    ----------
    function : callable
        Takes one batch; several threads call it.
    batches : iterable
        Taken one by one in the caller's thread, as results are.
    n_workers : int
        How many threads; with one, everything is done in the caller's.
    n_waiting : int or None
        How many batches are taken before the first result is waited for; as many as there are threads, by default.
    """
    if n_workers == 1:
        yield from map(function, batches)
        return
    waiting: deque[Future[R]] = deque()
    pool = ThreadPoolExecutor(n_workers)
    try:
        for batch in batches:
            waiting.append(pool.submit(function, batch))
            if len(waiting) > (n_waiting or n_workers):
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


@contextlib.contextmanager
def closing_results(results: Iterator[R]) -> Iterator[Iterator[R]]:
    """Let a block take results, and close what yields them with the block, however that ends.

    A generator left to the garbage collector after an error might join its threads while another one starts or ends,
    for which Python holds a lock that joining needs, too: all would wait for ever.
    """
    try:
        yield results
    finally:
        close = getattr(results, "close", None)
        if close is not None:
            close()


def map_in_order(
    engine: Engine, function: Callable[[T], R], tasks: Sequence[T], most_waiting: int | None = None
) -> Iterator[R]:
    """Yield the results of an engine in the order of the tasks, each once, whichever comes first and however often.

    Parameters
    ----------
    engine : Engine
        What runs the tasks.
    function : callable
        Takes one task.
    tasks : sequence
        All of them.
    most_waiting : int, optional
        How many results may wait for an earlier one, at least 1; as many as there are, by default.

    Raises
    ------
    DpGraphError
        The engine left out a task.
    """
    at_once = most_waiting or max(1, len(tasks))
    numbered = list(enumerate(tasks))
    for start in range(0, len(numbered), at_once):
        window, due = numbered[start : start + at_once], start
        early: dict[int, R] = {}
        with closing_results(engine.map_unordered(partial(_with_its_place, function), window)) as results:
            for place, found in results:
                if place >= due:  # else it ran twice
                    early[place] = found
                while due in early:
                    yield early.pop(due)
                    due += 1
        if due < start + len(window):
            raise DpGraphError("the workers did not return all results: try again, or without --engine")


def _with_its_place(function: Callable[[T], R], task: tuple[int, T]) -> tuple[int, R]:
    return task[0], function(task[1])


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
