"""Commands that are killed, or interrupted, at random moments."""

import random
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from tests.accidents.setting import Setting, is_pythons_own, require_result

__all__ = ["stop_learning", "stop_publishing"]

Process = subprocess.Popen[bytes]
ENDS = (".tar.minisig", ".html")
_SAID = (
    *("interrupted: nothing was published, and nothing is booked", "interrupted: nothing was completed"),
    *("interrupted: release", "interrupted: the results are in", "interrupted: the command has done its work"),
    "interrupted",
)


def stop_publishing(
    folder: Path, count: int, by: signal.Signals, *, release: str, place: str = "{}.tar", seed: int = 1
) -> Counter[str]:
    """Stop so many releases, and give each command again; return what was seen.

    Five of six are stopped once they are in the ledger, when there is something to lose, and the others at any moment.
    What an interrupted command says of itself is so; and after the same command again there is one release, whole,
    paid for once, and nothing else is left.
    """
    _heed_interrupts()
    setting = Setting.make(folder)
    own = {path.name for path in folder.iterdir()} | {"home"}
    usual, booked_after = _time(
        lambda attempt: setting.publish(place.format(f"whole-{attempt}"), release), setting.await_booking
    )
    rng, seen = random.Random(seed), Counter[str]()
    for attempt in range(count):
        out, before = place.format(f"out-{attempt}"), setting.booked()
        process = setting.publish(out, release)
        if attempt % 6:
            setting.await_booking(process)
            time.sleep(rng.uniform(0.0, 1.05) * (usual - booked_after))
        else:
            time.sleep(rng.uniform(0.02, 1.05) * usual)
        process.send_signal(by)
        _, err = process.communicate()
        said = err.decode()
        exists, booked = "is published" in said or process.returncode == 0, setting.booked()
        seen[_describe(process.returncode, err, exists=exists)] += 1
        if "nothing is booked" in said or "nothing was completed" in said:
            assert booked == before, said

        again = setting.publish(out, release)
        _, err = again.communicate()
        assert again.returncode == 0 or (b"already" in err and setting.is_public(out)), err
        assert setting.is_public(out)
        assert len(setting.booked()) == len(before) + 1, err
        assert {entry.state for entry in setting.ledger.entries("people")} <= {"published", "sealed"}
        beside = {f"{path.name.removesuffix('.tar')}{end}" for path in folder.iterdir() for end in ENDS}
        assert {path.name for path in folder.iterdir() if not path.name.startswith(("out-", "whole-"))} <= own | beside
        assert not [path for path in folder.iterdir() if path.name.startswith(".")]
    return seen


def stop_learning(folder: Path, count: int, by: signal.Signals, *, seed: int = 1) -> Counter[str]:
    """Stop so many commands that learn, half of them over an earlier result, which is there as a whole or replaced."""
    _heed_interrupts()
    setting = Setting.make(folder)
    published = setting.publish("whole.tar")
    _, err = published.communicate()
    assert published.returncode == 0, err
    usual, _ = _time(lambda _: setting.start("dp-learn", "whole.tar", "--out", "earlier"))
    rng, seen = random.Random(seed), Counter[str]()
    for attempt in range(count):
        out = "earlier" if attempt % 2 else "new"
        process = setting.start("dp-learn", "whole.tar", "--out", out)
        time.sleep(rng.uniform(0.02, 1.05) * usual)
        process.send_signal(by)
        _, err = process.communicate()
        exists = (folder / out).exists()
        seen[_describe(process.returncode, err, exists=exists)] += 1

        if exists:
            require_result(folder / out)
        assert exists or out == "new", "the earlier result is gone"
        assert exists or (process.returncode != 0 and b"the results are in" not in err), err
        if by == signal.SIGINT:
            left = [path.name for path in folder.iterdir() if path.name.startswith(".")]
            assert left == [], err
        shutil.rmtree(folder / "new", ignore_errors=True)
    return seen


def _heed_interrupts() -> None:
    """Let commands heed interrupts, which a shell has what it runs in the background ignore."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _time(start: Callable[[int], Process], wait: Callable[[Process], None] = lambda _: None) -> tuple[float, float]:
    """Return how long a command usually takes, in all and to what is awaited; its first run may compile."""
    for attempt in range(2):
        began = time.monotonic()
        process = start(attempt)
        wait(process)
        half = time.monotonic() - began
        _, err = process.communicate()
        assert process.returncode == 0, err
    return time.monotonic() - began, half


def _describe(code: int, err: bytes, *, exists: bool) -> str:
    """Say how a command ended, and refuse an end that is not documented."""
    said, left = err.decode(), "something is there" if exists else "nothing is there"
    if "Traceback" in said or "Exception ignored" in said:
        assert is_pythons_own(said), said
        return f"interrupted while Python started; {left}"
    if code == -signal.SIGKILL:
        return f"killed; {left}"
    if code in (-signal.SIGINT, -signal.SIGTERM, -signal.SIGHUP):  # before Python asked for the signal
        return f"interrupted before Python started; {left}"
    if code == 0:
        return "done"
    last = said.strip().rsplit("\n", 1)[-1].removeprefix("error: ")
    assert code == 1, said
    assert last.startswith("interrupted"), said
    return f"{next(each for each in _SAID if last.startswith(each))}; {left}"
