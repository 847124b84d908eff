"""The step that a command is at, on the last line of a terminal, with its time once that is two seconds.

Whatever else is printed takes the place of the line, which is drawn again below. On anything but a terminal nothing is
shown.
"""

import contextlib
import sys
import threading
import time
from dataclasses import dataclass, field

import click

_TICK, _SLOW = 0.5, 2.0  # seconds: between two looks at the clock, and after which the time is shown
_START_OF_LINE = "\r\033[K"


@dataclass
class _Step:
    """What is being done, since when, and whether it is over; `is_drawn` where a terminal shows it."""

    what: str
    began: float = field(default_factory=time.monotonic)
    over: threading.Event = field(default_factory=threading.Event)
    is_drawn: bool = False


_lock = threading.RLock()
_current: list[_Step] = []  # the one step, or none


def step(what: str, *, quiet: bool = False) -> None:
    """Show that this is being done from now on, in the place of the step before, which an empty text ends."""
    if quiet or not sys.stderr.isatty():
        return
    with _lock:
        clear_line()
        for before in _current:
            before.over.set()
        _current[:] = [_Step(what)] if what else []
        for begun in _current:
            threading.Thread(target=_keep_drawing, args=(begun,), daemon=True).start()


def clear_line() -> None:
    """Take the step off the terminal, so that something else can be printed there."""
    with _lock:
        if _current and _current[0].is_drawn:
            _write(_START_OF_LINE)
            _current[0].is_drawn = False


def announce_compiling(how_long: str, kept: bool, *, quiet: bool = False) -> None:
    """Say on a terminal why this run takes longer than the next; or, anywhere, that the next will as well.

    Parameters
    ----------
    how_long : str
        Of computing, such as "a few seconds".
    kept : bool
        Whether later runs find what is compiled.
    quiet : bool
        Whether to say neither.
    """
    if quiet or (kept and not sys.stderr.isatty()):
        return
    said = f"compiling for this machine, {how_long} of computing: what is compiled is kept for later runs"
    if not kept:
        said = f"note: compiled code cannot be kept here, so that every run takes {how_long} of computing more: set "
        said += "NUMBA_CACHE_DIR to a folder that you can write to"
    with _lock:
        clear_line()
        _write(f"{said}\n")


def _keep_drawing(begun: _Step) -> None:
    """Draw a step again and again, until it is over."""
    while not begun.over.wait(_TICK):
        with _lock:
            if begun.over.is_set():
                return
            seconds = time.monotonic() - begun.began
            took = f" {seconds:.0f} s" if seconds >= _SLOW else ""
            _write(f"{_START_OF_LINE}{begun.what} ...{took}")
            begun.is_drawn = True


def _write(text: str) -> None:
    with contextlib.suppress(OSError):
        click.echo(text, err=True, nl=False)
