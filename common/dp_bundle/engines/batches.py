"""Results in order, with few of them in memory: of batches on every core, and of tasks on any engine."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from dp_bundle.base.errors import DpGraphError
from dp_bundle.engines.engine import Engine

T = TypeVar("T")
R = TypeVar("R")


def map_batches(
    function: Callable[[T], R], batches: Iterable[T], n_workers: int, n_waiting: int | None = None
) -> Iterator[R]:
    """Yield the results in the order of the batches, of which no more are in work at a time than there are threads.

    Parameters
    ----------
    function : callable
        Takes one batch; several threads call it.
    batches : iterable
        Taken one by one in the caller's thread, as results are.
    n_workers : int
        How many threads; with one, everything is done in the caller's.
    n_waiting : int, optional
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
        for place, found in engine.map_unordered(partial(_with_its_place, function), window):
            if place >= due:  # else it ran twice
                early[place] = found
            while due in early:
                yield early.pop(due)
                due += 1
        if due < start + len(window):
            raise DpGraphError("the workers did not return all results: try again, or without --engine")


def _with_its_place(function: Callable[[T], R], task: tuple[int, T]) -> tuple[int, R]:
    return task[0], function(task[1])
