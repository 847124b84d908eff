"""The terminal of the tutorials, as an extension of IPython.

`%load_ext terminal` moves to a folder that is removed in the end, with a home of its own, so that a page that is run
touches nothing of its reader's. `%%terminal` then runs the lines of a cell as shell commands, each of which must end
with 0 (the last one with another code after `%%terminal --exit CODE`), and shows them as a reader types them, with what
they print beneath. `%fetch` copies one of the files that the page offers.
"""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from IPython.display import display

FILES = Path(__file__).with_name("files")


def load_ipython_extension(shell: Any) -> None:
    """Prepare the folder and the home, and add the two commands."""
    root = Path(tempfile.mkdtemp(prefix="dpgraph-tutorial-"))
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    home, work = root / "home", root / "work"
    home.mkdir()
    work.mkdir()

    os.environ["DPGRAPH_HOME"] = str(home / ".config" / "dpgraph")
    os.environ["COLUMNS"] = "100"
    os.chdir(work)

    def terminal(line: str, cell: str) -> None:
        """Run the commands and show them with their output."""
        last_code = int(line.removeprefix("--exit") or 0)
        commands = cell.replace("\\\n", "\\\0").splitlines()
        blocks = []
        for number, command in enumerate(each.replace("\0", "\n") for each in commands):
            printed = _run(command, last_code if number == len(commands) - 1 else 0, home)
            blocks.append(f"````console\n$ {command}\n````\n")
            blocks += [f"````text\n{printed.replace(str(home), '~').rstrip()}\n````\n"] if printed.strip() else []
        display({"text/markdown": "\n".join(blocks)}, raw=True)

    def fetch(line: str) -> None:
        """Copy a file of the page to the folder."""
        shutil.copy(FILES / line.strip(), work)

    shell.register_magic_function(terminal, "cell")
    shell.register_magic_function(fetch, "line")


def _run(command: str, expected: int, home: Path) -> str:
    """Return what a command prints, errors included, in the order in which it prints it."""
    finished = subprocess.run(  # noqa: S602
        command,
        shell=True,
        env=os.environ | {"HOME": str(home)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if finished.returncode != expected:
        raise RuntimeError(f"{command!r} ended with {finished.returncode}, not {expected}:\n{finished.stdout}")
    return finished.stdout
