"""Odd command lines: every command with its options, crossed with values that nobody should give."""

import os
import random
import re
import resource
import signal
import subprocess
from collections import Counter
from pathlib import Path

import click
from tests.accidents.setting import Setting

from dp_bundle.cli.main import cli as dp_bundle
from dp_learn.cli.main import cli as dp_learn
from dp_publish.cli.main import cli as dp_publish

__all__ = ["run_lines"]

COMMANDS = {"dp-bundle": dp_bundle, "dp-learn": dp_learn, "dp-publish": dp_publish}
_CODES = range(6)
_PATIENCE, _SERVED = 300.0, 15.0  # seconds: of a command, and of one that serves until it is interrupted
_MEMORY = 2 * 2**30  # of data, beyond which a line has read what it should not
_NUMBERS = ["nan", "inf", "-1", "0", "1", "1e999", "1e-320", "-0", "0x10", "1_000", "9" * 5000, "½", "٣", "", " 1 "]
_TEXTS = ["", " ", "x" * 5000, "a\nb", "\x1b[31m", "../x", b"\xff\xfe", "=1+1", "--", "a", "\u202e", "😀"]
_FILES = [
    *("people.parquet", "people.csv", "people.bundle.tar", "rows.toml", "covariance.bundle.tar"),
    *("", ".", "/", "-", "~", "..", "no-such-file", "http://localhost/x.csv", "file:///x.csv", "s3://x/y.parquet"),
    *("folder", "empty.csv", "empty.parquet", "fifo", "fifo.csv", "fifo.parquet", "loop.csv", "/dev/null", "/dev/full"),
    *("/dev/zero", "zeros.csv", "cut.parquet", "cut.bundle.tar", "deep.toml", "huge.toml", "twice.toml", "binary.toml"),
    *(
        "wide.csv",
        "no-line-end.csv",
        "x" * 300,
        b"\xff.csv",
        b"\xff.parquet",
        "a\nb.csv",
        "/proc/self/mem",
        "zip.csv.gz",
    ),
]
_OUTPUTS = [
    *_FILES,
    "new.tar",
    "new.csv",
    "no/such/folder/x",
    "folder/new",
    b"\xff\xfe.tar",
    "x" * 255,
    "\x1b.tar",
    "a b",
]


def run_lines(folder: Path, count: int, *, seed: int = 1) -> Counter[int]:
    """Run so many lines; return how often each exit code was seen.

    Raises
    ------
    AssertionError
        A line ended in a traceback, a fault of ours, an undocumented code, in silence, or never, or booked for nothing.
    """
    setting = _furnish(folder)
    rng = random.Random(seed)
    codes: Counter[int] = Counter()
    wrong = []
    for _ in range(count):
        words = _line(rng)
        fault = _try(setting, words, codes)
        if fault:
            wrong.append(f"{words}: {fault}")
    assert not wrong, "\n".join(wrong)
    return codes


def _try(setting: Setting, words: list[str | bytes], codes: Counter[int]) -> str:
    """Run a line, and say what is wrong with how it ended."""
    booked = setting.booked()
    serves = "desk" in words[1:2]
    process = setting.start(str(words[0]), *words[1:], COLUMNS="80", BROWSER="true")
    resource.prlimit(process.pid, resource.RLIMIT_DATA, (_MEMORY, _MEMORY))
    try:
        out, err = process.communicate(timeout=_SERVED if serves else _PATIENCE)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT if serves else signal.SIGKILL)
        out, err = process.communicate(timeout=_PATIENCE)
        if not serves:
            return "does not end"
    code, said = process.returncode, (out + err).decode(errors="replace")
    codes[code] += 1
    last = err.decode(errors="replace").strip().rsplit("\n", 1)[-1]
    if "Traceback" in said or "has a fault" in said or "Warning:" in said:
        return said[-1500:]
    if code not in _CODES:
        return f"ended with {code}: {said[-300:]}"
    if code and not re.search(r"error: |Usage: ", said):
        return f"says nothing of its {code}: {said[-300:]}"
    if code and setting.booked() != booked and "stays in the ledger" not in said and "stays paid for" not in said:
        return f"is booked, though: {last}"
    return ""


def _line(rng: random.Random) -> list[str | bytes]:
    """Return a command with some of its options and arguments, most of them odd."""
    name = rng.choice(list(COMMANDS))
    command: click.Command = COMMANDS[name]
    words: list[str | bytes] = [name]
    while isinstance(command, click.Group):
        chosen = rng.choice(sorted(command.commands))
        words.append(chosen)
        command = command.commands[chosen]
    for parameter in command.params:
        if isinstance(parameter, click.Option) and rng.random() < 0.25:
            words.append(max(parameter.opts, key=len))
            if not parameter.is_flag:
                words.append(_value(parameter, rng))
        elif isinstance(parameter, click.Argument):
            most = 3 if parameter.nargs == -1 else 1
            words += [_value(parameter, rng) for _ in range(rng.randint(0 if rng.random() < 0.1 else 1, most))]
    if rng.random() < 0.05:
        words.append(rng.choice(["--no-such-option", "extra", "--json", "--", "-x", "--help"]))
    return words


def _value(parameter: click.Parameter, rng: random.Random) -> str | bytes:
    if rng.random() < 0.05:
        return rng.choice(_TEXTS)
    if isinstance(parameter.type, click.Choice):
        return str(rng.choice([*parameter.type.choices, *parameter.type.choices, ""]))
    if parameter.name == "out" or (parameter.name == "file" and not parameter.type.exists):  # type: ignore[attr-defined]
        return rng.choice(_OUTPUTS)
    if isinstance(parameter.type, click.Path) or parameter.name == "key":
        return rng.choice(_FILES[:5]) if rng.random() < 0.5 else rng.choice(_FILES)
    if isinstance(parameter.type, click.types.FloatParamType | click.types.IntParamType | click.FloatRange):
        return rng.choice(_NUMBERS)
    if parameter.name == "alpha":
        return rng.choice([*_NUMBERS, "auto", "0.1"])
    return rng.choice(_TEXTS)


def _furnish(folder: Path) -> Setting:
    """Make the files that the lines name."""
    setting = Setting.make(folder, n_rows=500)
    for release, out in (("rows", "people.bundle.tar"), ("covariance", "covariance.bundle.tar")):
        done = setting.publish(out, release)
        _, err = done.communicate()
        assert done.returncode == 0, err
    content = (folder / "people.parquet").read_bytes()
    (folder / "cut.parquet").write_bytes(content[: len(content) // 2])
    (folder / "cut.bundle.tar").write_bytes((folder / "people.bundle.tar").read_bytes()[:20_000])
    (folder / "people.csv").write_text("a,b\n" + "1.5,2\n2.5,3\n" * 50)
    (folder / "a\nb.csv").write_text("a,b\n1,2\n")
    (folder / "wide.csv").write_text(",".join(f"c{index}" for index in range(3000)) + "\n" + "1," * 2999 + "1\n")
    (folder / "no-line-end.csv").write_text("a,b")
    (folder / "zip.csv.gz").write_bytes(b"PK\x03\x04" + bytes(100))
    (folder / "deep.toml").write_text("a = " + "[" * 100_000)
    (folder / "huge.toml").write_text("[privacy]\nmu = " + "9" * 100_000 + "\n" + "x = 1e99999\n")
    (folder / "twice.toml").write_text("[privacy]\nmu = 1\n[privacy]\nmu = 2\n")
    (folder / "binary.toml").write_bytes(bytes(range(256)))
    for name in ("empty.csv", "empty.parquet"):
        (folder / name).touch()
    for name in (b"\xff.csv", b"\xff.parquet"):
        source = folder / ("people.csv" if name.endswith(b"csv") else "people.parquet")
        Path(os.fsdecode(os.fsencode(folder) + b"/" + name)).write_bytes(source.read_bytes())
    for name in ("fifo", "fifo.csv", "fifo.parquet"):
        os.mkfifo(folder / name)
    (folder / "folder").mkdir()
    (folder / "loop.csv").symlink_to("loop.csv")
    with (folder / "zeros.csv").open("wb") as file:
        file.truncate(2**31)
    return setting
