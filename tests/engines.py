"""Engines for tests."""

import pickle
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


class Messages:
    """An engine in this process that sends all by pickle, runs every task twice, and the last one first.

    Attributes
    ----------
    sent : list of bytes
        What a worker elsewhere would be sent with every task.
    before : callable or None
        Called once, before the next task runs.
    """

    n_workers = 2

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.before: Callable[[], object] | None = None

    def map_unordered(self, function: Callable[[T], R], tasks: Iterable[T]) -> Iterator[R]:
        """Yield the results, each twice."""
        messages = [pickle.dumps((function, task)) for task in tasks]
        self.sent += messages
        for message in [*reversed(messages), *messages]:
            if self.before is not None:
                self.before()
                self.before = None
            received, task = pickle.loads(message)  # noqa: S301
            yield pickle.loads(pickle.dumps(received(task)))  # noqa: S301
