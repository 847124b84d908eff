"""A few accidents of each kind, and many of them before a release."""

import signal
from pathlib import Path

import pytest
from tests.accidents.kills import stop_learning, stop_publishing
from tests.accidents.lines import run_lines
from tests.accidents.power import lose_power, why_not

BY = (signal.SIGKILL, signal.SIGINT)
STOPS = (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("by", "release", "place", "count"),
    [
        (signal.SIGKILL, "scores", "{}.tar", 2),
        (signal.SIGTERM, "covariance", "{}/", 2),
        (signal.SIGKILL, "rows", "s3", 2),
        *(
            pytest.param(by, release, place, 2, marks=pytest.mark.long)
            for by in STOPS
            for release in ("rows", "covariance", "scores")
            for place in ("{}.tar", "{}/", "s3")
        ),
    ],
)
def test_after_the_same_command_a_stopped_release_is_whole_and_paid_once(
    by: signal.Signals, release: str, place: str, count: int, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Wherever it is stopped, by whatever signal; and an interrupted command says what is true."""
    if place == "s3":
        place = f"s3://{request.getfixturevalue('s3').bucket}/{{}}"
    assert sum(stop_publishing(tmp_path / "work", count, by, release=release, place=place).values()) == count


@pytest.mark.slow
@pytest.mark.parametrize(
    ("by", "count"), [(signal.SIGKILL, 2), *(pytest.param(by, 42, marks=pytest.mark.long) for by in BY)]
)
def test_learning_that_is_stopped_leaves_whole_results(by: signal.Signals, count: int, tmp_path: Path) -> None:
    """A folder of results is there as a whole, or not at all, and an earlier one is never lost."""
    assert sum(stop_learning(tmp_path / "work", count, by).values()) == count


@pytest.mark.slow
@pytest.mark.parametrize("count", [12, pytest.param(400, marks=pytest.mark.long)])
def test_odd_command_lines_end_as_documented(count: int, tmp_path: Path) -> None:
    """No traceback, no fault of ours, an exit code that is documented, and nothing booked for nothing."""
    assert sum(run_lines(tmp_path / "work", count).values()) == count


@pytest.mark.power
def test_a_loss_of_power_leaves_what_is_whole_and_booked(tmp_path: Path) -> None:
    """After a crash of the machine what ended well is there, and the ledger shows no less than what is public."""
    assert why_not() is None
    assert sum(lose_power(tmp_path, 24).values()) == 24
