"""Tasks on the workers of Dask, on this machine or on a cluster; Dask runs them, and holds no data.

A task that is lost with its worker runs again on another one. Dask has no state on disk: if its scheduler ends, so do
the tasks.
"""

import contextlib
import itertools
import logging
import pickle
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, TypeVar
from urllib.parse import urlsplit

from dp_bundle.base.errors import DpGraphError, ParameterError
from dp_bundle.base.machine import count_cores, is_loopback

T = TypeVar("T")
R = TypeVar("R")
_MALLOC = "distributed.nanny.pre-spawn-environ"
_KEPT = 2**25  # bytes of freed memory that a worker keeps for its next arrays
_SETTINGS = {
    "distributed.scheduler.allowed-failures": 20,  # of workers, before the task that they ran is given up
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
