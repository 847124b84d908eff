"""A function of one batch after the other, on every core, with the results in order and few batches in memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def map_batches(function: Callable[[T], R], batches: Iterable[T], n_workers: int) -> Iterator[R]:
    """Yield the results in the order of the batches, of which no more are in work at a time than there are threads.

    Parameters
    ----------
    function : callable
        Takes one batch; several threads call it.
    batches : iterable
        Taken one by one in the caller's thread, as results are.
    n_workers : int
        How many threads; with one, everything is done in the caller's.
    """
    if n_workers == 1:
        yield from map(function, batches)
        return
    waiting: deque[Future[R]] = deque()
    pool = ThreadPoolExecutor(n_workers)
    try:
        for batch in batches:
            waiting.append(pool.submit(function, batch))
            if len(waiting) > n_workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
