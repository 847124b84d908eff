"""The start of a command: interrupts at any moment, streams that are closed or full."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from dp_bundle.base import launch
from dp_bundle.base.launch import interrupts_held

ROOT = Path(__file__).parents[4]
SCRIPT = """
import os, signal, sys
from importlib import import_module

class Interrupter:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever the shell that runs the tests does with them
sys.meta_path.insert(0, Interrupter())
sys.argv = [{command!r}, *{words!r}]
module, function = {entry!r}.split(":")
sys.exit(getattr(import_module(module), function)())
"""


def _run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=60)


LOADING, RUNNING = "error: interrupted: nothing was completed\n", "\nerror: interrupted\n"


@pytest.mark.parametrize(
    ("command", "module", "words", "said"),
    [
        ("dp-bundle", "click", "--help", LOADING),
        ("dp-learn", "dp_bundle.cli.console", "--help", LOADING),
        ("dp-publish", "cryptography", "--help", LOADING),
        ("dp-bundle", "dp_bundle.bundle.reading", "verify a.tar", RUNNING),
        ("dp-bundle", "pydantic", "verify a.tar", RUNNING),
    ],
)
def test_an_interrupt_while_libraries_load_is_one_sentence(
    command: str, module: str, words: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever presses Ctrl-C reads no traceback, and that nothing was done only where a command had not begun."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.tar").write_bytes(b"no bundle")
    entry = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"][command]
    ended = _run(sys.executable, "-c", SCRIPT.format(module=module, command=command, words=words.split(), entry=entry))
    assert (ended.returncode, ended.stdout, ended.stderr) == (1, "", said)


def test_software_that_cannot_be_loaded_is_one_sentence() -> None:
    """A library that is missing, or that this user may not read, is told without a traceback."""
    ended = _run(sys.executable, "-c", "from dp_bundle.base.launch import launch; launch('dp_no_such')")
    assert ended.returncode == 1
    assert ended.stderr == (
        "error: dpgraph cannot be loaded (ModuleNotFoundError: No module named 'dp_no_such'): install it again\n"
    )


def test_an_interrupt_is_put_off_and_says_what_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps that belong together are done to their end before the command is interrupted."""
    for name in ("_raising", "_interrupted", "_pending"):
        monkeypatch.setattr(launch, name, name == "_raising")
    steps = []

    def work() -> None:
        with interrupts_held("both are done"):
            steps.append(1)
            with interrupts_held("not said"):
                launch._on_interrupt(2, None)
            steps.append(2)

    with pytest.raises(KeyboardInterrupt) as caught:
        work()
    assert steps == [1, 2]
    assert caught.value.__notes__ == ["both are done"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ("{bin}/dp-bundle trust >&-", 1, "error: standard output is closed"),
        ("{bin}/dp-bundle trust >/dev/full", 1, "error: the command has done its work"),
        ("{bin}/dp-bundle schema | true; exit ${{PIPESTATUS[0]}}", 1, ""),
        ("{bin}/dp-bundle trust --quiet {key} >&-", 0, ""),
        ("{bin}/dp-bundle trust <&-", 0, ""),
        ("{bin}/dp-bundle no-such-command 2>&-", 2, ""),
        ("{bin}/dp-bundle no-such-command 2>/dev/full", 2, ""),
        ("{bin}/dp-bundle verify {key} 2>/dev/full", 3, ""),
        ("{bin}/dp-bundle --help >/dev/full", 1, "error: "),
        ("{bin}/dp-bundle schema >/dev/full", 1, "error: "),
        ("{bin}/dp-bundle keys new --passphrase <&- ", 1, "error: nothing was typed in"),
    ],
)
def test_streams_that_are_closed_or_full(line: str, code: int, said: str, tmp_path: Path) -> None:
    """A command ends with the code that it documents, and says in a sentence what could not be said."""
    key = tmp_path / "other.pub"
    bin_folder = Path(sys.executable).parent
    subprocess.run([bin_folder / "dp-bundle", "keys", "new", "other", "--quiet"], check=True)
    key.write_bytes((Path(os.environ["DPGRAPH_HOME"]) / "keys" / "other.pub").read_bytes())
    ended = _run("setsid", "bash", "-c", line.format(bin=bin_folder, key=key))
    assert ended.returncode == code, ended.stderr
    assert "Traceback" not in ended.stderr
    assert "Exception ignored" not in ended.stderr
    last = ended.stderr.splitlines()[-1:]
    assert last == [] if not said else said in last[0]
