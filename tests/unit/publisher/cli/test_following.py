"""What is shown while a table is published."""

import io
import re

import pytest

from dp_publish.cli.messages.following import shown_on_terminal


def test_the_bar_says_how_much_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bar counts rows of the table, estimates the time that is left, and begins again with each pass."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    clock = [0.0]
    monkeypatch.setattr("rich.progress.Progress.get_time", lambda _: clock[0], raising=False)
    with shown_on_terminal(4_000) as show:
        for done in (1000, 2000, 3000, 500):
            clock[0] += 10.0
            show(done)
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", terminal.getvalue())
    assert "500 of 4,000 rows" in plain
    assert "pass 2" in plain
