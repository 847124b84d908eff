"""Start a command so that an interrupt never shows a traceback, and all three standard streams are open.

Most of a short command's time goes into imports. A library that is interrupted while it is imported prints a traceback,
or continues half loaded. So until the command itself begins, an interrupt ends the process at once. After that, the
first interrupt is raised as usual, so that the command can undo what it began; a second one ends the process. A request
to end (SIGTERM) and a terminal that closes (SIGHUP) are interrupts like Ctrl-C.
"""

from __future__ import annotations

import _signal as signal  # signal itself takes longer to import than this module to run
import os
import sys
from contextlib import contextmanager, suppress
from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from threading import Event
    from types import FrameType
    from typing import Any, NoReturn

_BEFORE = "interrupted: nothing was completed"
_AGAIN = "interrupted twice: what was begun may not have been undone"
_CLOSED = (
    "standard output is closed, so nobody would see the answer, and nothing was done: "
    "open it (> FILE, or > /dev/null), or give --quiet"
)
_NOWHERE = "/proc/no-home"  # the home of a user who has none: there is nothing, and nobody can make anything there
_INTERRUPTS = (signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else []))
_OF_MEMORY = {  # of Arrow's pool, which returns what is free sooner: a tenth less at the peak for .03 of the time
    "MIMALLOC_ARENA_EAGER_COMMIT": "0",
    "MIMALLOC_PURGE_DELAY": "50",  # milliseconds
}
_raising = False
_interrupted = False
_holding = False
_pending = False


def launch(package: str) -> NoReturn:
    """Run the command of a package: `main` in its module `cli.main`."""
    try:
        try:
            for number in _INTERRUPTS:  # unless it is to be ignored
                if signal.getsignal(number) in (signal.default_int_handler, signal.SIG_DFL):
                    signal.signal(number, _on_interrupt)
            sys.unraisablehook = _on_unraisable
            _complete_streams()
            if os.path.expanduser("~") == "~":  # noqa: PTH111  libraries look for a home when they are imported
                os.environ["HOME"] = _NOWHERE
            for name, value in _OF_MEMORY.items():
                os.environ.setdefault(name, value)
            _load(f"{package}.cli.main").main()
        finally:
            for number in _INTERRUPTS:
                signal.signal(number, signal.SIG_IGN)  # everything is done
            _give_up_full_streams()
    except KeyboardInterrupt:  # between the end of the work and that of the process
        _leave("interrupted")
    sys.exit(0)


def _give_up_full_streams() -> None:
    """Let go what a stream could not take, or Python would try again at its end, and exit with a code of its own."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


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
    """Postpone an interrupt to the end of the block, and add a note of what the block has done.

    A second interrupt ends the process at once. Outside a command, and inside another such block, this does nothing.
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
    """Return True if there was an interrupt, even if a library has swallowed it."""
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
    """Send again an interrupt that came where nothing can be raised, such as in a destructor."""
    if not issubclass(unraisable.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(unraisable)
        return
    import threading

    begin()
    handled = threading.Event()
    threading.Thread(target=_send_again, args=(handled,), daemon=True).start()
    handled.set()


def _send_again(handled: Event) -> None:
    """Wait until this interrupt is behind the main thread, however busy the machine is, and send another."""
    import time

    handled.wait()
    time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGINT)


def _complete_streams() -> None:
    """Replace closed streams; otherwise a file that is opened later would take their place, and their output.

    Writing to a closed standard output then fails, so that an answer is not lost silently.
    """
    closed = [number for number in range(3) if not _is_open(number)]
    for number in closed:
        os.open(os.devnull, os.O_WRONLY if number == 2 else os.O_RDONLY)  # the lowest number that is free
    for number in closed:
        setattr(sys, ("stdin", "stdout", "stderr")[number], open(number, "w" if number else "r"))  # noqa: SIM115, PTH123
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
