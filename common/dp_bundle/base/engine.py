"""The interface of all engines, and results in order, with few of them in memory.

Tasks in threads of this process, for work that releases Python's lock: kernels, Arrow, ciphers and digests.

Tasks in processes of this machine, for work in Python itself, which threads would do one after another.

Tasks on the workers of Dask, on this machine or on a cluster; Dask runs them, and holds no data.

A task that is lost with its worker runs again on another one. Dask has no state on disk: if its scheduler ends, so do
the tasks.
"""

import contextlib
import itertools
import logging
import pickle
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing import get_context
from typing import Any, Protocol, TypeVar
from urllib.parse import urlsplit

from dp_bundle.base.errors import DpGraphError, ParameterError
from dp_bundle.base.machine import count_cores, is_loopback

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

        After an error, or where the caller stops before the last result, no further task begins, and those that run are
        waited for. A long one ends early if it calls `require_running` now and then.
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

    A generator left to the garbage collector after an error might join its threads while another one starts or ends.
    For that Python holds a lock that joining needs, too: all would wait for ever.
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


_MALLOC = "distributed.nanny.pre-spawn-environ"
_KEPT = 2**25  # bytes of freed memory that a worker keeps for its next arrays
_SETTINGS = {
    "distributed.scheduler.allowed-failures": 20,  # of workers, before the task that they ran is given up
    "distributed.deploy.lost-worker-timeout": "1h",  # one that starts again on a busy machine is not given up
    "distributed.worker.profile.enabled": False,  # it takes a tenth of the time
    "distributed.admin.tick.limit": "1h",  # a worker that is busy is no reason for a warning
    f"{_MALLOC}.MALLOC_TRIM_THRESHOLD_": _KEPT,  # by Dask's own, every array is new pages: a quarter of the time
    f"{_MALLOC}.MALLOC_MMAP_THRESHOLD_": _KEPT,
}
_SECONDS = 20
_MOST_BYTES = 2**14  # of a function that goes with every task
_AHEAD = 3  # tasks for each worker that are handed out at a time


class Dask(contextlib.ExitStack):
    """Workers of Dask; closing it, as the end of a `with` block does, ends the cluster that was started here.

    Parameters
    ----------
    scheduler : str, optional
        The address of a scheduler, whose workers have this package: `tls://HOST:PORT`, with the certificates that
        Dask's own configuration names, or `tcp://` on this machine. By default, a cluster of processes is started here
        and ends with the block.
    n_workers : int, optional
        How many processes; one for each core by default. Only without a scheduler.

    Raises
    ------
    ParameterError
        The address is that of another machine, without TLS, or no scheduler answers.
    DpGraphError
        Dask is not installed.
    """

    def __init__(self, scheduler: str | None = None, n_workers: int | None = None) -> None:
        super().__init__()
        if scheduler is not None:
            _require_private(scheduler)
        try:
            import dask
            import distributed
        except ImportError as error:
            raise DpGraphError('--engine dask needs Dask: pip install "distributed>=2026.1"') from error
        self._distributed: Any = distributed
        for name in ("distributed", "distributed.client", "tornado.application"):
            logging.getLogger(name).setLevel(logging.CRITICAL)  # an error is told once, by us
        dask.config.set(_SETTINGS)
        self._cluster: Any = scheduler
        if scheduler is None:
            self._cluster = distributed.LocalCluster(  # type: ignore[no-untyped-call]
                n_workers=n_workers or count_cores(),
                threads_per_worker=1,
                dashboard_address="127.0.0.1:0",  # any free port: another cluster here may have Dask's own
                scheduler_kwargs={"dashboard": False},
                security=True,  # or every user of this machine could send it tasks
                silence_logs=logging.CRITICAL,
            )
            self.callback(self._cluster.close)
        try:
            self._client: Any = distributed.Client(self._cluster, timeout=_SECONDS)  # type: ignore[no-untyped-call]
            self.callback(self._client.close)
            self._client.wait_for_workers(1, timeout=_SECONDS)
        except OSError as error:  # also where time is over
            self.close()
            raise ParameterError("--scheduler", "the address of a scheduler that has workers", scheduler) from error

    @property
    def n_workers(self) -> int:
        """Return how many tasks run at once, at least 1."""
        return max(1, sum(int(number) for number in self._client.nthreads().values()))

    def map_unordered(self, function: Callable[[T], R], tasks: Iterable[T]) -> Iterator[R]:
        """Yield the results of a function of every task, as they come; after an error no further task begins.

        The function is one that workers can import, and tasks and results are pickled. A large one, such as a `partial`
        with matrices, goes to each worker once. A few tasks more than there are workers are handed out at a time. After
        an error those that run are waited for, so that none of them does anything once it is raised.
        """
        if len(pickle.dumps(function)) > _MOST_BYTES:
            shared = self._client.submit(_given, function, pure=False)
            submit = partial(self._client.submit, _call, function=shared, pure=False)
        else:
            submit = partial(self._client.submit, function, pure=False)

        waiting = iter(tasks)
        running = {submit(task) for task in itertools.islice(waiting, _AHEAD * self.n_workers)}
        done = self._distributed.as_completed(running)
        try:
            for future in done:
                found = future.result()
                running.discard(future)
                for task in itertools.islice(waiting, 1):
                    running.add(following := submit(task))
                    done.add(following)
                yield found
        except self._distributed.scheduler.KilledWorker as error:
            raise DpGraphError("workers ended again and again, perhaps for want of memory: give them more") from error
        except (self._distributed.CancelledError, self._distributed.comm.CommClosedError) as error:
            running.clear()
            raise DpGraphError("the scheduler is gone, and its tasks with it: start it again") from error
        finally:
            with contextlib.suppress(Exception):  # the first error is the one that is told
                self._distributed.wait(list(running))


def _given(function: T) -> T:
    return function


def _call(task: T, function: Callable[[T], R]) -> R:
    return function(task)


def _require_private(scheduler: str) -> None:
    """Refuse an address at which others could read and send tasks on the way."""
    wrong = ParameterError("--scheduler", "tls://HOST:PORT, or tcp:// on this machine", scheduler)
    try:
        parts = urlsplit(scheduler)
        _ = parts.port
    except ValueError:
        raise wrong from None
    if parts.scheme != "tls" and not (parts.scheme == "tcp" and is_loopback(parts.hostname)):
        raise wrong
