"""Losses of power: what the disk of a machine holds at a random moment, of an ext4 file system in a file.

A command works on that file system until it is killed, or ends; then the file behind it is copied as it is, without
what the system had not written yet, and the copy is mounted in its place: its journal is replayed, as after a crash.
"""

import os
import random
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.accidents.setting import Setting, require_result

__all__ = ["lose_power", "why_not"]

_SIZE = 2**26
_OPTIONS = "loop,commit=300"  # the journal is written when a program asks for it, and hardly by the clock


def why_not() -> str | None:
    """Return what keeps this machine from losing power on purpose; None if nothing does."""
    if os.geteuid() != 0:
        return "mounting needs root"
    if shutil.which("mkfs.ext4") is None:
        return "there is no mkfs.ext4"
    if subprocess.run(["losetup", "--find"], capture_output=True, check=False).returncode:
        return "there is no loop device"
    with tempfile.TemporaryDirectory() as folder:
        image, place = Path(folder, "disk"), Path(folder, "mounted")
        place.mkdir()
        with image.open("wb") as file:
            file.truncate(2**22)
        try:
            subprocess.run(["mkfs.ext4", "-q", image], check=True, capture_output=True)
            with _mounted(image, place):
                return None
        except subprocess.CalledProcessError:
            return "this machine mounts no image of a disk"


def lose_power(folder: Path, count: int, *, seed: int = 1) -> Counter[str]:
    """Lose power so many times; return what was on the disk, after checking that it is true.

    What ended with 0 is there, what has its final name is whole, every release that is or was there is in the ledger,
    and the next command works.
    """
    image, place = folder / "disk", folder / "mounted"
    place.mkdir()
    with image.open("wb") as file:
        file.truncate(_SIZE)
    subprocess.run(["mkfs.ext4", "-q", image], check=True)
    with _mounted(image, place):
        setting = Setting.make(place / "work", n_rows=2_000)
        usual = {}
        for kind, process in {
            "rows": setting.publish("first.tar"),
            "covariance": setting.publish("c.tar", "covariance"),
        }.items():
            _, err = process.communicate()
            assert process.returncode == 0, err
            usual[kind] = 0.0
        os.sync()
    rng, seen = random.Random(seed), Counter[str]()
    public, results = {"first.tar": 1}, set[str]()
    for attempt in range(count):
        kind = ("rows", "learn", "covariance")[attempt % 3]
        with _mounted(image, place):
            setting = Setting(place / "work")
            before = setting.published()
            out = f"graph-{attempt % 2}" if kind == "learn" else f"{attempt}.tar"
            began = time.monotonic()
            process = (
                setting.start("dp-learn", "first.tar", "--allow-older", "--out", out)
                if kind == "learn"
                else setting.publish(out, kind)
            )
            if usual.get(kind) and rng.random() < 0.7:
                time.sleep(rng.uniform(0.3, 1.05) * usual[kind])
                process.send_signal(signal.SIGKILL)
            _, err = process.communicate()
            assert process.returncode in (0, -signal.SIGKILL), err
            if elsewhere := re.search(rb"had put it at \S+/(\S+\.tar):", err):
                out = elsewhere[1].decode()
            if process.returncode == 0:
                usual[kind] = time.monotonic() - began
            shutil.copyfile(image, folder / "copy")
            left = setting.published()
            public.update(left)
        (folder / "copy").replace(image)
        with _mounted(image, place):
            there = setting.published()
            results = {path.name for path in (place / "work").glob("graph-*")}
            for name in results:
                require_result(place / "work" / name)
            if process.returncode == 0:
                assert out in there or out in results, f"{out} was lost"
            assert set(before) <= set(there), "what was there is lost"
            assert set(public.values()) <= setting.booked(), "the ledger shows less than what is public"
            whole = {path.name for path in (place / "work").iterdir()}
            assert {name for name in whole if name.endswith(".tar")} == set(there)
            end = "done" if process.returncode == 0 else "killed"
            seen[
                f"{kind}, {end}; {'something is there' if out in there or out in results else 'nothing is there'}"
            ] += 1
            for path in (place / "work").glob("[0-9]*.tar"):
                if len(there) > 20:
                    path.unlink()
            os.sync()
    return seen


@contextmanager
def _mounted(image: Path, place: Path) -> Iterator[None]:
    subprocess.run(["mount", "-o", _OPTIONS, image, place], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", place], check=True)
