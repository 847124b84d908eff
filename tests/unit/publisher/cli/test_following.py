"""What is shown and logged while a table is published."""

import io
import logging
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.conftest import Run

from dp_publish.cli.messages.following import logged_to, shown_on_terminal

POLICY = """
[dataset]
name = "visits"
[privacy]
mu = 4.0
unit = {{ entity = "who", max_rows = 2 }}
[columns.secret]
bounds = [0, 1000000]
missing = "{missing}"
[columns.place]
kind = "category"
categories = ["Oberammergau", "Timbuktu"]
other = "Timbuktu"
"""


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    """Write a table of which every cell can be told."""
    rng = np.random.default_rng(8)
    frame = pd.DataFrame(
        {
            "secret": rng.integers(100_000, 999_999, 300).astype(float),
            "place": rng.choice(["Oberammergau", "Atlantis"], 300),
            "who": [f"person-{index % 100}" for index in range(300)],
        }
    )
    frame.loc[frame["who"] == "person-5", "secret"] = np.nan  # whichever of their rows are kept
    frame.to_parquet(tmp_path / "visits.parquet")
    return tmp_path / "visits.parquet"


def test_the_log_names_no_value(raw: Path, command: Run, tmp_path: Path) -> None:
    """The log has each step and its time, and no cell, level or name of the table."""
    (tmp_path / "visits.policy.toml").write_text(POLICY.format(missing="drop"))
    done = command("dp-publish", raw, "--log", "steps.log", "--anyway")
    text = (tmp_path / "steps.log").read_text()
    lines = [re.sub(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ ", "", line) for line in text.splitlines()]

    assert done.returncode == 0, done.stderr
    after = [f"release 1 of 'visits' is {event} in the ledger" for event in ("sealed", "published")]
    assert lines == ["release 1 of 'visits' is booked", *after]
    cells = [str(cell).removesuffix(".0") for column in pd.read_parquet(raw).to_numpy().T for cell in column]
    assert not any(cell in text for cell in cells if cell != "nan")
    assert "Timbuktu" not in text


def test_a_log_is_appended_to_and_closed(tmp_path: Path) -> None:
    """Two releases have one log; outside of a block nothing is written to it, and levels are as they were."""
    logger, before = logging.getLogger("dp_publish.release"), logging.getLogger("dp_publish").level
    for index in range(2):
        with logged_to(tmp_path / "a.log"):
            logger.info("step %d", index)
        logger.info("outside")
    assert [line.split(" ", 1)[1] for line in (tmp_path / "a.log").read_text().splitlines()] == ["step 0", "step 1"]
    assert logging.getLogger("dp_publish").level == before


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


def test_a_full_disk_ends_the_log_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The rest is done all the same, the reader is told once, and an error in the block stays what is raised."""

    class Full(io.StringIO):
        def flush(self) -> None:
            raise OSError(28, "No space left on device")

    with pytest.raises(KeyError), logged_to(tmp_path / "a.log"):  # noqa: PT012
        handler = logging.getLogger("dp_publish").handlers[-1]
        assert isinstance(handler, logging.FileHandler)
        handler.stream.close()
        handler.stream = Full()
        for _ in range(3):
            logging.getLogger("dp_publish").info("a step")
        raise KeyError
    assert capsys.readouterr().err.count("cannot be written any further") == 1
    assert (tmp_path / "a.log").stat().st_mode & 0o777 == 0o600
