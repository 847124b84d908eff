"""The desk as it is started, and what becomes of a publication that it began: the command's own bytes and end."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing, suppress
from http.client import HTTPConnection
from json import dumps, loads
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.unit.publisher.cli.desk.test_server import Served

from dp_bundle.trust.store import signing_key
from dp_publish.cli.desk import session
from dp_publish.cli.desk.session import Asked, Session
from dp_publish.ledger.ledger import Ledger

FIXED = """
import pandas, pyarrow.csv, pyarrow.parquet
import dp_publish.discovery.finding, dp_publish.forecast.checking, dp_publish.release.publishing
import dp_publish.cli.messages.release, dp_bundle.catalog.pages
from dp_publish.cli.main import main
from same_bits import fixed
with fixed():
    main()
"""


HOSTILE = """
import itertools, resource, selectors, socket, sys, time
port, hard = int(sys.argv[1]), resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
here = f"127.0.0.1:{port}"
head = f"POST /enter HTTP/1.1\\r\\nHost: {here}\\r\\nOrigin: http://{here}\\r\\n"
begun = ["", "POST /check HTTP/1.1\\r\\n", head + "Content-Length: 900\\r\\n\\r\\n{", head + "X: " + "x" * 99999,]
begun += ["\\0" * 999, "GET /desk.js HTTP/1.1\\r\\nHost: " + here + "\\r\\n\\r\\n"]
waiting, turns = selectors.DefaultSelector(), itertools.cycle(begun)
while True:
    while len(waiting.get_map()) < 2000:
        each = socket.socket()
        each.setblocking(False)
        each.connect_ex(("127.0.0.1", port))
        waiting.register(each, selectors.EVENT_WRITE, next(turns).encode())
    for key, events in waiting.select(0.01):
        try:
            if events & selectors.EVENT_WRITE:
                key.fileobj.send(key.data)
                waiting.modify(key.fileobj, selectors.EVENT_READ)
            elif not key.fileobj.recv(4096):
                raise ConnectionError
        except OSError:
            waiting.unregister(key.fileobj)
            key.fileobj.close()
"""


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a table of words and numbers in the test's folder, where commands find what fixes their bits."""
    monkeypatch.chdir(tmp_path)
    benchmarks = str(Path(__file__).resolve().parents[2] / "benchmarks")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (benchmarks, os.environ.get("PYTHONPATH")))))
    rng = np.random.default_rng(8)
    x = rng.normal(50, 10, 2000).round(1)
    frame = pd.DataFrame({"x": x, "y": (x + rng.normal(0, 5, 2000)).round(1), "w": rng.choice(["a", "b"], 2000)})
    frame.to_csv("table.csv", index=False)
    return Path("table.csv")


@pytest.mark.slow
def test_the_saved_policy_gives_the_same_bytes_by_the_command(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under fixed bits, clock and key, what the desk publishes is what the command publishes by the file it saved."""
    signing_key()  # which takes random bits, too, where there is none
    monkeypatch.setattr(session, "COMMAND", (sys.executable, "-c", FIXED))
    desk = Served(Session(Asked(table, "table", Path("table.policy.toml"), "publisher", None)))
    try:
        desk.enter()
        sent = {"column__0__range": "public", "column__0__low": "0", "column__0__high": "100", "privacy__mu": "3"}
        sent |= {"column__1__range": "public", "column__1__low": "0", "column__1__high": "120"}
        sent |= {"column__2__kind": "category", "column__2__levels": "a\nb", "privacy__release": "covariance"}
        desk.ask("publish", **sent, confirmed=desk.ask("check", **sent)["key"])
        done = desk.finish()
        assert done["published"], done["html"]
    finally:
        desk.close()
    files = ("table.bundle.tar", "table.bundle.tar.minisig", "table.bundle.html")
    before = {name: Path(name).read_bytes() for name in files}

    for name in files:
        Path(name).unlink()
    copies = shutil.ignore_patterns("*ledger*")  # of what was spent
    shutil.copytree(Path(os.environ["DPGRAPH_HOME"], "keys"), "other-home/keys", ignore=copies)
    monkeypatch.setenv("DPGRAPH_HOME", str(Path("other-home").resolve()))
    words = [sys.executable, "-c", FIXED, "table.csv"]
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert {name: Path(name).read_bytes() for name in files} == before


def started(*words: str) -> tuple[subprocess.Popen[str], str]:
    """Start the desk, and return its process and its address."""
    process = subprocess.Popen(
        [sys.executable, "-m", "dp_publish", "desk", *words, "--no-browser"],
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    found = re.search(r"open (http://127\.0\.0\.1:\d+/#[\w-]+) ", process.stderr.readline())
    assert found is not None
    return process, found[1]


def entered(address: str) -> Callable[..., Any]:
    """Come in by an address, and return what asks once the table is open."""
    (port, token), secret = re.findall(r":(\d+)/#(.*)", address)[0], ""

    def ask(what: str, **sent: str) -> Any:
        headers = {"Origin": f"http://127.0.0.1:{port}", "Authorization": f"Bearer {secret}"}
        with closing(HTTPConnection("127.0.0.1", int(port), timeout=30)) as connection:
            connection.request("POST", f"/{what}", dumps(sent), headers)
            return loads(connection.getresponse().read())

    secret = ask("enter", token=token)["secret"]
    while "opening" in ask("page"):
        time.sleep(0.05)
    return ask


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [6, pytest.param(60, marks=pytest.mark.long)])
def test_two_thousand_strangers_stop_neither_her_nor_the_desk(table: Path, seconds: int) -> None:
    """While connections that are idle, begun, endless or no requests come anew, she is answered as before.

    Time is the desk's own, as the machine has others to serve.
    """
    process, address = started(str(table))
    ask, known = entered(address), Path(f"/proc/{process.pid}")

    def used() -> tuple[float, int]:
        times = known.joinpath("stat").read_text().rpartition(")")[2].split()
        pages = int(known.joinpath("statm").read_text().split()[1])
        return (int(times[11]) + int(times[12])) / os.sysconf("SC_CLK_TCK"), pages * os.sysconf("SC_PAGE_SIZE")

    for mu in ("1", "2", "3"):
        ask("check", **{"privacy-mu": mu})
    before = used()[1]
    hostile = subprocess.Popen([sys.executable, "-c", HOSTILE, address.rpartition("/")[0].rpartition(":")[2]])
    try:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            began = used()[0]
            assert ask("check", **{"privacy-mu": f"{1 + time.monotonic() % 1:.3f}"})["savable"]
            assert used()[0] - began < 1.0
            assert used()[1] - before < 50e6
            time.sleep(0.2)
        assert hostile.poll() is None
        ask("close")
    finally:
        hostile.kill()
        hostile.wait()
        process.terminate()
        said = process.communicate()[1]
    assert said == "the desk is closed\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("signum", "after"),
    [
        (signal.SIGKILL, 0.6),
        *(
            pytest.param(signum, 1.6, marks=pytest.mark.long)
            for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
        ),
    ],
)
def test_killed_while_it_publishes_the_books_are_a_commands(table: Path, signum: signal.Signals, after: float) -> None:
    """Whatever ends the desk, and whenever: the release is published and booked once, or neither booked nor there.

    A desk that is killed leaves its command to come to its own end.
    """
    process, address = started(str(table))
    ask = entered(address)
    ask("publish", confirmed=ask("check")["key"])
    time.sleep(after)
    process.send_signal(signum)
    process.communicate(timeout=120)
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and _commands_here():
        time.sleep(0.3)
    assert not _commands_here()
    states, there = [entry.state for entry in Ledger().entries("table")], Path("table.bundle.tar").exists()
    assert (states, there) in (
        *(([], False), (["published"], True)),
        *((["reserved"], False), (["sealed"], False), (["sealed"], True)),  # it was interrupted while it undid, or did
    )


def _commands_here() -> list[int]:
    """Return the processes of our commands whose folder is this one."""
    found = []
    for each in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it ended meanwhile
            is_here = each.joinpath("cwd").resolve() == Path.cwd() and int(each.name) != os.getpid()
            if is_here and b"dp_publish" in each.joinpath("cmdline").read_bytes():
                found.append(int(each.name))
    return found
