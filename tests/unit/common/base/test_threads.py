"""Tasks in threads end together."""

import threading

import pytest

from dp_bundle.base.engine import Threads


@pytest.mark.parametrize("n_workers", [1, 3])
def test_every_result_comes_once(n_workers: int) -> None:
    """Results are those of all tasks, in any order."""
    assert sorted(Threads(n_workers).map_unordered(lambda task: 2 * task, range(50))) == list(range(0, 100, 2))


@pytest.mark.parametrize("n_workers", [1, 3])
def test_no_task_begins_after_an_error(n_workers: int) -> None:
    """The error of a task is what the caller gets, and a thread that failed begins no other task."""
    begun: list[int] = []
    gate = threading.Event()

    def fail(task: int) -> None:
        begun.append(task)
        if task < n_workers - 1:  # all threads but one wait for the error
            gate.wait(10.0)
            return
        gate.set()
        raise ValueError(str(task))

    with pytest.raises(ValueError, match=f"^{n_workers - 1}$"):
        list(Threads(n_workers).map_unordered(fail, range(1000)))
    assert len(begun) < 20
