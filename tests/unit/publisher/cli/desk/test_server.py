"""Alone with her: who is answered by the desk's server, what it says to others, and what it leaves behind."""

import asyncio
import json
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import tornado.netutil
from tests.conftest import Run

from dp_publish.cli.desk import server, session
from dp_publish.cli.desk.server import Guard, application
from dp_publish.cli.desk.session import Asked, Session, Work
from dp_publish.ledger.ledger import Ledger

MARKUP = "<img src=x onerror=alert(1)>"
SECRETIVE = 77_123.25  # a value that is nowhere but in the table


class Served:
    """A desk at a port of this machine, and requests to it as anybody could make them."""

    def __init__(self, served: Session) -> None:
        self.session, self.closed = served, threading.Event()
        (own,) = tornado.netutil.bind_sockets(0, "127.0.0.1")
        self.guard = Guard(own.getsockname()[1])
        self.token, self.secret = self.guard.token or "", ""
        started = threading.Event()

        async def run() -> None:
            self.loop, self.over = asyncio.get_running_loop(), asyncio.Event()
            door = server.Door(own, self.guard, application(self.guard, self.session, self.closed.set))
            started.set()
            await self.over.wait()
            await door.close()
            own.close()

        self.thread = threading.Thread(target=lambda: asyncio.run(run()), daemon=True)
        self.thread.start()
        started.wait()

    def request(self, method: str, path: str, body: bytes = b"", **headers: str | None) -> tuple[HTTPResponse, bytes]:
        """Return the answer to a request; headers are the browser's own unless given, and None takes one away."""
        host = f"127.0.0.1:{self.guard.port}"
        usual: dict[str, str | None] = {"Host": host, "Authorization": f"Bearer {self.secret}"}
        usual |= {"Origin": f"http://{host}", "Sec-Fetch-Site": "same-origin"} if method == "POST" else {}
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        with closing(HTTPConnection("127.0.0.1", self.guard.port, timeout=30)) as connection:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in {**usual, **sent}.items():
                if value is not None:
                    connection.putheader(name, value)
            connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            answer = connection.getresponse()
            return answer, answer.read()

    def send(self, begun: str) -> socket.socket:
        """Return a connection on which a request was begun."""
        connection = socket.create_connection(("127.0.0.1", self.guard.port), timeout=5)
        connection.sendall(begun.format(port=self.guard.port).encode())
        return connection

    def ask(self, what: str, **sent: str) -> dict[str, Any]:
        """Return what the page is answered."""
        body = json.dumps({name.replace("__", "-"): value for name, value in sent.items()}).encode()
        found: dict[str, Any] = json.loads(self.request("POST", f"/{what}", body)[1])
        return found

    def enter(self) -> dict[str, Any]:
        """Come in by the address, wait until the table is open, and return the page."""
        self.secret = self.ask("enter", token=self.token)["secret"]
        while "opening" in (state := self.ask("page")):
            time.sleep(0.02)
        return state

    def finish(self) -> dict[str, Any]:
        """Wait for the work, and return what is shown of it."""
        while (state := self.ask("work"))["running"]:
            time.sleep(0.05)
        return state

    def close(self) -> None:
        """Stop serving."""
        self.loop.call_soon_threadsafe(self.over.set)
        self.thread.join()
        self.session.close()


@pytest.fixture
def serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Served]]:
    """Return a function that serves a desk of a small table in the test's folder."""
    monkeypatch.chdir(tmp_path)
    rng, started = np.random.default_rng(4), []

    def start(policy: str | None = None, name: str = "table") -> Served:
        x = rng.normal(50, 10, 400)
        frame = pd.DataFrame({MARKUP: x, "y": x + rng.normal(0, 5, 400), "z": rng.normal(0, 1, 400)})
        frame.loc[17, "z"] = SECRETIVE
        frame.to_parquet(f"{name}.parquet")
        place = Path(f"{name}.policy.toml")
        if policy is not None:
            place.write_text(policy)
        started.append(Served(Session(Asked(Path(f"{name}.parquet"), name, place, "publisher", None))))
        return started[-1]

    yield start
    for each in started:
        each.close()


def test_only_who_has_the_address_is_answered_and_once(serve: Callable[..., Served]) -> None:
    """The frame says nothing; a wrong token, none, and the same one again are refused in one sentence."""
    desk = serve()
    frame = desk.request("GET", "/")[1]
    assert b"table" not in frame.replace(b"Publish a table", b"").replace(b"publish a table", b"")
    for token in ("", "x", desk.token[:-1], desk.token + "x"):
        assert "none of this desk" in desk.ask("enter", token=token)["error"]
    for what in ("page", "check", "save", "publish", "plan", "work", "close"):
        answer, said = desk.request("POST", f"/{what}", b"{}")
        assert (answer.status, [*json.loads(said)]) == (403, ["error"])

    assert MARKUP not in desk.enter()["html"]
    assert "used already" in desk.ask("enter", token=desk.token)["error"]
    assert not desk.closed.is_set()


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "127.0.0.1"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": None},
        {"Sec_Fetch_Site": "same-site"},
        {"Authorization": "Bearer "},
    ],
    ids=lambda headers: "-".join(map(str, *headers.items())),
)
def test_no_other_page_and_no_other_name_is_answered(serve: Callable[..., Served], headers: dict[str, Any]) -> None:
    """A page of somebody else cannot ask even with the secret, nor can a name that was made to lead here."""
    desk = serve()
    desk.enter()
    answer, said = desk.request("POST", "/page", b"{}", **headers)
    assert answer.status == 403
    assert b"columns" not in said
    if "Host" in headers:
        assert desk.request("GET", "/", **headers)[0].status == 403


def test_the_browser_is_told_to_load_and_keep_nothing(serve: Callable[..., Served]) -> None:
    """Every answer forbids what is not the desk's own, inline scripts and styles included, and copies of it."""
    desk = serve()
    desk.enter()
    for method, path in (("GET", "/"), ("GET", "/desk.js"), ("POST", "/page"), ("GET", "/nothing"), ("POST", "/../x")):
        answer, said = desk.request(method, path, b"{}" if method == "POST" else b"")
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert not {"unsafe-inline", "unsafe-eval", "*"} & {*policy.replace(";", " ").replace("'", " ").split()}
        assert (answer.headers["Cache-Control"], answer.headers["Referrer-Policy"]) == ("no-store", "no-referrer")
        assert "Access-Control-Allow-Origin" not in answer.headers
        assert b"http://" not in said.replace(b"http://www.w3.org", b"")
        assert b"Traceback" not in said


@pytest.mark.parametrize(
    "body",
    [b"[]", b'{"a": 1}', b"[" * 9**5, b'{"a": "\\ud800"}', b'{"a":"' + b"x" * (server.MOST + 1) + b'"}'],
)
def test_what_is_no_form_is_refused(serve: Callable[..., Served], body: bytes) -> None:
    """Neither nonsense nor more than a form can hold does anything, and the desk goes on."""
    desk = serve()
    desk.enter()
    with suppress(OSError):  # it is not read to its end
        assert desk.request("POST", "/check", body)[0].status in (400, 413)
    assert desk.ask("check")["savable"]


UNREAD = "Content-Length: 4000000\r\n\r\n"
FROM_US = "Host: 127.0.0.1:{port}\r\nOrigin: http://127.0.0.1:{port}\r\n"


@pytest.mark.parametrize(
    ("begun", "status"),
    [
        (f"POST /check HTTP/1.1\r\nHost: evil.example\r\n{UNREAD}", b"403"),
        (f"POST /check HTTP/1.1\r\n{FROM_US}{UNREAD}", b"403"),
        (f"POST /enter HTTP/1.1\r\n{FROM_US}{UNREAD}", b"400"),
        (f"POST /nothing HTTP/1.1\r\n{FROM_US}{UNREAD}", b"404"),
        ("", b""),
        ("POST /check HTTP/1.1\r\nHost: 127", b""),
        (f"POST /enter HTTP/1.1\r\n{FROM_US}Content-Length: 9\r\n\r\n", b""),
    ],
    ids=["other-name", "no-secret", "long-token", "elsewhere", "nothing", "half-a-head", "half-a-body"],
)
def test_no_body_of_a_stranger_is_read_and_nothing_is_waited_for(
    serve: Callable[..., Served], monkeypatch: pytest.MonkeyPatch, begun: str, status: bytes
) -> None:
    """Who is not admitted by the head is answered by it, and what is never sent to its end is closed."""
    monkeypatch.setattr(server, "PATIENCE", 0.2)
    desk = serve()
    said = [b"?"]
    with closing(desk.send(begun)) as connection, suppress(ConnectionResetError):
        while said[-1]:
            said.append(connection.recv(2**16))  # until it is closed, though nothing more was sent
    assert b"".join(said)[10:13] == status


def test_strangers_who_wait_leave_room_for_her(serve: Callable[..., Served], monkeypatch: pytest.MonkeyPatch) -> None:
    """Of connections that say nothing the oldest are closed, so that there are always descriptors for another."""
    monkeypatch.setattr(server, "STRANGERS", 50)
    desk = serve()
    desk.enter()
    idle = [desk.send("") for _ in range(90)]
    assert desk.ask("check")["savable"]
    assert not idle[0].recv(1)
    for each in idle:
        each.close()


def test_names_are_text_wherever_they_are_shown(serve: Callable[..., Served]) -> None:
    """A column that is called like markup is shown as it is written, in the form, in objections and in the policy."""
    desk = serve()
    state = desk.enter()
    said = [state["html"], *state["parts"].values()]
    for sent in ({"column__0__range": "public", "column__0__low": "x"}, {"dataset__title": MARKUP}):
        said += desk.ask("check", **sent)["parts"].values()
    assert any("&lt;img src=x" in text for text in said)
    assert not any("<img" in text for text in said)


@pytest.mark.slow
def test_values_are_in_no_file_log_or_header(
    serve: Callable[..., Served], caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """What the rows hold is told to the page alone; nothing is logged, and closing leaves no file behind."""
    caplog.set_level(logging.DEBUG)
    desk = serve()
    state = desk.enter()
    shown = f"{SECRETIVE:.6g}"
    assert shown in state["html"]  # for her eyes
    for number in range(3):
        desk.ask("check", **{f"column__{number}__range": "public", f"column__{number}__low": "x"})
    assert desk.ask("plan")["running"]
    desk.finish()
    folder = Path(desk.session.folder.name)
    kept = b"".join(each.read_bytes() for each in [*folder.iterdir(), *Path.cwd().glob("*.toml")])
    assert shown.encode() not in kept
    printed = "".join(capfd.readouterr())
    assert shown not in caplog.text + printed
    desk.session.close()
    assert not folder.exists()


def test_the_policy_is_saved_as_it_is_shown_and_never_over_another(serve: Callable[..., Served]) -> None:
    """Comments stay; a file that somebody else changed meanwhile is left alone."""
    desk = serve('# mine\n[dataset]\nname = "t" # kept\n')
    desk.enter()
    place = Path("table.policy.toml")
    assert "cannot be read" in desk.ask("save", privacy__mu="x")["error"]
    said = desk.ask("save", dataset__title="A title")
    assert said["done"] == "wrote table.policy.toml"
    assert place.read_text() == '# mine\n[dataset]\nname = "t" # kept\ntitle = "A title"\n'
    assert "as it is in the form already" in desk.ask("save", dataset__title="A title")["done"]
    place.write_text('[dataset]\nname = "other"\n')
    assert "changed by somebody else" in desk.ask("save", dataset__title="Another")["error"]
    assert "other" in place.read_text()


def test_a_saved_policy_keeps_its_mode_and_its_link(serve: Callable[..., Served]) -> None:
    """A policy that others must not read stays so, and one that is kept elsewhere is written there."""
    Path("kept").mkdir()
    kept = Path("kept/mine.toml")
    kept.write_text('[dataset]\nname = "t"\n')
    kept.chmod(0o600)
    Path("table.policy.toml").symlink_to(kept)
    desk = serve()
    desk.enter()
    assert desk.ask("save", dataset__title="A title")["done"] == "wrote table.policy.toml"
    assert "A title" in kept.read_text()
    assert (Path("table.policy.toml").is_symlink(), kept.stat().st_mode & 0o777) == (True, 0o600)


@pytest.mark.slow
@pytest.mark.parametrize("replaced", ["policy", "table"])
def test_what_was_confirmed_is_published_or_nothing(
    serve: Callable[..., Served], monkeypatch: pytest.MonkeyPatch, replaced: str
) -> None:
    """Files that others write between the question and the command change nothing of what she said yes to.

    The table's name begins with a dash, which makes no option of it.
    """
    desk = serve(name="-x")
    desk.enter()

    def late(what: str, arguments: list[str]) -> Work:
        if replaced == "policy":
            Path("-x.policy.toml").write_text("[privacy]\nmu = 20.0\n")
        else:
            pd.read_parquet("-x.parquet").assign(salary=SECRETIVE).to_parquet("other.parquet")
            Path("other.parquet").replace("-x.parquet")
        return Work(what, arguments)

    monkeypatch.setattr(session, "Work", late)
    desk.ask("publish", privacy__mu="8", confirmed=desk.ask("check", privacy__mu="8")["key"])
    done, there = desk.finish(), Path("-x.bundle.tar").exists()
    if replaced == "policy":
        assert (done["published"], there) == (True, True), done["html"]
        (entry,) = Ledger().entries("-x")
        assert entry.cost.mu["row"] == pytest.approx(8)
    else:
        assert (done["published"], there, "was changed" in done["html"]) == (False, False, True)
        assert not Ledger().entries("-x")


@pytest.mark.slow
def test_looking_spends_nothing_and_publishing_is_the_command(serve: Callable[..., Served], command: Run) -> None:
    """Plan, look and audit leave the ledger as it is; publishing books one release, and gives the receipt.

    The bundle is verified, its page can be opened by a name that nobody can guess, and another release is objected to.
    """
    desk = serve()
    desk.enter()
    for what in ("plan", "look"):
        desk.ask(what, privacy__mu="8")
        assert "Nothing was spent" in desk.finish()["html"]
    assert "nothing has been published yet" in command("dp-publish", "ledger").stdout
    assert "cancel it" in [desk.ask("audit"), desk.ask("publish")][1]["error"]
    desk.ask("cancel")
    assert "was cancelled" in desk.finish()["html"]
    assert not Path("table.policy.toml").exists()

    key = desk.ask("check", privacy__mu="8")["key"]
    for sent in ({"privacy__mu": "8"}, {"privacy__mu": "9", "confirmed": key}):
        assert "was asked" in desk.ask("publish", **sent)["error"]
    assert "stands in the way" in desk.ask("publish", privacy__mu="x", confirmed=key)["error"]
    desk.ask("publish", privacy__mu="8", confirmed=key)
    done = desk.finish()
    assert done["published"]
    assert "wrote table.bundle.tar" in done["html"]
    shown = done["html"].partition('href="')[2].partition('"')[0]
    answer, page = desk.request("GET", shown)
    assert (answer.status, b"What this release promises" in page) == (200, True)
    assert "sandbox" in answer.headers["Content-Security-Policy"]
    assert desk.request("GET", shown[:-1])[0].status == 404
    assert command("dp-bundle", "verify", "table.bundle.tar").returncode == 0
    assert "are a release that was made" in desk.ask("check", privacy__mu="8")["objections"][""]


def test_an_hour_without_a_touch_ends_it(serve: Callable[..., Served], monkeypatch: pytest.MonkeyPatch) -> None:
    """Asking how far the work is counts as no touch, and work that goes on is waited for."""
    desk = serve()
    desk.enter()
    assert not server.is_idle(desk.session)
    monkeypatch.setattr(server, "IDLE", -1.0)
    assert server.is_idle(desk.session)
    touched = desk.session.touched
    desk.ask("work")
    assert desk.session.touched == touched
    desk.ask("audit")
    assert not server.is_idle(desk.session)
    desk.ask("close")
    assert desk.closed.is_set()


def test_another_address_has_what_was_in_the_form_and_puts_the_first_browser_out(serve: Callable[..., Served]) -> None:
    """Who closed the page before saving asks for an address at the terminal; only one browser is answered at a time."""
    desk = serve()
    desk.enter()
    asked = desk.ask("check", dataset__title="Not saved yet")
    assert "“" not in asked["parts"]["policy"]  # the policy is its own words, and not the form's
    assert "title = &#34;Not saved yet&#34;" in asked["parts"]["policy"]
    first = desk.secret
    desk.guard.renew()
    desk.token = desk.guard.token or ""
    assert 'value="Not saved yet"' in desk.enter()["html"]
    assert "used already" in desk.ask("enter", token=desk.token)["error"]
    assert desk.request("POST", "/check", b"{}", Authorization=f"Bearer {first}")[0].status == 403
