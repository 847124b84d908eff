"""The step on a terminal's last line: its time, what is printed meanwhile, and silence everywhere else."""

import io
import re
import time

import pytest

from dp_bundle.cli import console
from dp_bundle.cli.console import announce_compiling, step, tell

CLEARED = "\r\x1b[K"


class Terminal(io.StringIO):
    """What was written to a terminal."""

    def isatty(self) -> bool:
        """Say that it is one."""
        return True


def open_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Make stderr a terminal, on which time is short; before a test's own code, pytest would take it back."""
    monkeypatch.setattr(console, "_TICK", 0.01)
    monkeypatch.setattr(console, "_SLOW", 1.0)
    found = Terminal()
    monkeypatch.setattr("sys.stderr", found)
    return found


def wait_for(pattern: str, terminal: Terminal) -> None:
    """Wait until this has been written last."""
    until = time.monotonic() + 20
    while not re.search(pattern, terminal.getvalue()):
        assert time.monotonic() < until, terminal.getvalue()
        time.sleep(0.005)


def test_a_slow_step_has_its_time_and_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line begins without a time, gets one, gives way to a message, comes back, and leaves nothing behind."""
    terminal = open_terminal(monkeypatch)
    step("counting")
    wait_for(r"counting \.\.\.$", terminal)
    wait_for(r"counting \.\.\. \d+ s$", terminal)
    tell("a message")
    assert f" s{CLEARED}a message\n" in terminal.getvalue()
    wait_for(r"a message\n(\r\x1b\[Kcounting \.\.\. \d+ s)+$", terminal)
    step("sealing")
    wait_for(r"sealing \.\.\.$", terminal)
    step("")
    assert terminal.getvalue().endswith(CLEARED)
    before = terminal.getvalue()
    time.sleep(0.05)
    assert terminal.getvalue() == before


def test_nothing_is_shown_in_a_file(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Where stderr is no terminal there are no steps, and only a run whose code cannot be kept says so."""
    monkeypatch.setattr(console, "_TICK", 0.01)
    step("counting")
    time.sleep(0.05)
    announce_compiling("a minute", kept=True)
    announce_compiling("a minute", kept=False, quiet=True)
    assert capsys.readouterr().err == ""
    announce_compiling("a minute", kept=False)
    assert capsys.readouterr().err.startswith(
        "note: compiled code cannot be kept here, so that every run takes a minute"
    )


def test_compiling_is_announced_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal it is said that what is compiled is kept."""
    terminal = open_terminal(monkeypatch)
    announce_compiling("a minute", kept=True)
    assert "a minute of computing: what is compiled is kept for later runs\n" in terminal.getvalue()
