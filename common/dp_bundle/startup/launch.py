"""Start a command: from its first line on an interrupt is one sentence, and the three standard streams exist.

Importing takes longer than many a command, and a library that is interrupted while it is imported shows a trace, or
goes on without what it could not load. So until the command itself begins, an interrupt ends the process at once. From
then on the first one is raised, as ever, for the command to put back what it has begun; a second one ends it at once.
"""

from __future__ import annotations

import _signal as signal  # signal itself takes longer to import than this module to run
import os
import sys
from contextlib import contextmanager
from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType
    from typing import Any, NoReturn

__all__ = ["begin", "interrupts_held", "launch", "was_interrupted"]

_BEFORE = "interrupted: nothing was completed"
_AGAIN = "interrupted twice: what was begun may not have been put back"
_CLOSED = (
    "standard output is closed, so nobody would see the answer, and nothing was done: "
    "open it (> FILE, or > /dev/null), or give --quiet"
)
_raising = False
_interrupted = False
_holding = False
_pending = False


def launch(package: str) -> NoReturn:
    """Run the command of a package: `main` in its module `cli`."""
    try:
        try:
            if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # and nobody wants them ignored
                signal.signal(signal.SIGINT, _on_interrupt)
            sys.unraisablehook = _on_unraisable
            _complete_streams()
            _load(f"{package}.cli").main()
        finally:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # all is done and said
    except KeyboardInterrupt:  # between what was done and the end
        _leave("interrupted")
    sys.exit(0)


def _load(name: str) -> Any:
    try:
        return import_module(name)
    except Exception as error:
        if os.environ.get("DPGRAPH_DEBUG"):
            raise
        _leave(f"dpgraph cannot be loaded ({type(error).__name__}: {error}): install it again")


def begin() -> None:
    """Let the first interrupt from now on be raised as KeyboardInterrupt."""
    global _raising
    _raising = True


@contextmanager
def interrupts_held(done: str = "") -> Iterator[None]:
    """Put an interrupt off to the end of the block, and note on it then what is done by these steps.

    A second one ends the process at once. Outside a command, and within another such block, this does nothing.
    """
    global _holding, _pending
    if _holding or not _raising:
        yield
        return
    _holding = True
    try:
        yield
    finally:
        _holding = False
    if _pending:
        _pending = False
        interruption = KeyboardInterrupt()
        if done:
            interruption.add_note(done)
        raise interruption


def was_interrupted() -> bool:
    """Tell whether there was an interrupt, whatever a library made of it."""
    return _interrupted


def _on_interrupt(_number: int, _frame: FrameType | None) -> None:
    global _raising, _interrupted, _pending
    if not _raising:
        _leave(_AGAIN if _interrupted else _BEFORE)
    _raising, _interrupted = False, True
    if _holding:
        _pending = True
    else:
        raise KeyboardInterrupt


def _on_unraisable(unraisable: sys.UnraisableHookArgs, /) -> None:
    """Send an interrupt again that came where nothing can be raised, as in a destructor."""
    if not issubclass(unraisable.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(unraisable)
        return
    import threading

    begin()
    threading.Thread(target=_send_again, daemon=True).start()


def _send_again() -> None:
    import time

    time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGINT)


def _complete_streams() -> None:
    """Put something in the place of closed streams, as a file opened later would get what they are told.

    Writing to the standard output fails then, so that an answer does not get lost without a word.
    """
    closed = [number for number in range(3) if not _is_open(number)]
    for number in closed:
        os.open(os.devnull, os.O_WRONLY if number == 2 else os.O_RDONLY)  # the lowest number that is free
    if 0 in closed:
        sys.stdin = open(0)  # noqa: SIM115
    if 1 in closed:
        sys.stdout = open(1, "w")  # noqa: SIM115
    if 2 in closed:
        sys.stderr = open(2, "w")  # noqa: SIM115
    if 1 in closed and "--quiet" not in sys.argv:
        _leave(_CLOSED)


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def _leave(message: str) -> NoReturn:
    """End the process here and now."""
    try:
        os.write(2, f"error: {message}\n".encode())
    finally:
        os._exit(1)
