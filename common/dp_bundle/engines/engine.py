"""The interface of all engines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
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
