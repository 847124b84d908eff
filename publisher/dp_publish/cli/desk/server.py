"""The desk's server: it listens on this machine alone, answers one browser, and ends with it or after an hour.

Who may ask is the one browser that was given its address, and no page of anybody else. The address carries a token in
its fragment, which no browser sends. The desk's own script exchanges it, once, for a secret that it sends with every
request. A cookie would be sent by any page to any port of this machine. Host and Origin are checked, so that no other
name leads here (DNS rebinding), and no other page asks.

All of that is in a request's head. No body is read before, and each connection carries one request. Who has the secret
is answered at once, others one after the other, and who says nothing costs nothing: who fills the port bars nobody.
"""

import asyncio
import contextlib
import hmac
import html
import logging
import os
import resource
import secrets
import signal
import socket
import sys
import time
import webbrowser
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tornado.httpserver
import tornado.netutil
import tornado.web
from pydantic import TypeAdapter, ValidationError
from tornado.iostream import IOStream

from dp_bundle.base.errors import DpGraphError
from dp_publish.cli.desk import page
from dp_publish.cli.desk.session import Asked, Session

MOST = 2**22  # bytes of a request; a form of a thousand columns takes fewer
IDLE = 3600.0  # seconds without a touch, after which the desk closes
PATIENCE = 10.0  # seconds that a head, and a body, may take to be here
STRANGERS = 2500  # connections that wait, where there are descriptors for them
_SPARE = 1400  # descriptors for those who are let in, and for other things
_APART = 0.01  # seconds between two strangers who are let in, and have `PATIENCE` for their bodies
_AT_ONCE = 32  # connections that are taken before others are answered
_HEAD = 2**15  # bytes of a head, which a browser sends in one piece
_TOKEN = 2**10  # bytes of the request that has the token
_WAITING = 2**12  # connections that the system keeps for the desk
_LOOK = 5.0  # seconds between two looks at the clock
_SHOWN = {"Content-Security-Policy": "sandbox allow-scripts allow-popups"}  # of pages that were written for others
_FIELDS = TypeAdapter(dict[str, str])  # what a request holds

_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


@dataclass
class Guard:
    """The token of one address, and the secret that it is exchanged for, of one browser at a time."""

    port: int
    token: str | None = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    secret: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)

    @property
    def address(self) -> str:
        """What the browser is given, once."""
        return f"{self._origins[0]}/#{self.token}"

    @property
    def _origins(self) -> tuple[str, str]:
        return f"http://127.0.0.1:{self.port}", f"http://localhost:{self.port}"

    def admits(self, method: str, headers: Mapping[str, str]) -> bool:
        """Return whether a request is to this desk by its name, and, if it asks anything, from its own page.

        Any page may lead to the frame, which is empty without the secret.
        """
        origin = f"http://{headers.get('Host', '')}"
        if origin not in self._origins or headers.get("Origin", origin) != origin:
            return False
        return method == "GET" or (
            "Origin" in headers and headers.get("Sec-Fetch-Site", "same-origin") == "same-origin"
        )

    def enter(self, token: str) -> str | None:
        """Return the secret for the token, the first time; None for any other."""
        if self.token is None or not hmac.compare_digest(token.encode(), self.token.encode()):
            return None
        self.token, self.secret = None, secrets.token_urlsafe(32)
        return self.secret

    def renew(self) -> None:
        """Make another address, for the publisher who asks at the terminal; a browser that came before is out then."""
        self.token = secrets.token_urlsafe(32)

    def knows(self, headers: Mapping[str, str]) -> bool:
        """Return whether a request carries the secret."""
        return hmac.compare_digest(headers.get("Authorization", "").encode(), f"Bearer {self.secret}".encode())


class Door:
    """The port, at which there is room for another connection, whoever holds those that there are; the oldest goes.

    Parameters
    ----------
    own : socket
        It listens.
    guard : Guard
    application : Application
        What answers.
    """

    def __init__(self, own: socket.socket, guard: Guard, application: tornado.web.Application) -> None:
        self._own, self._guard, self._loop = own, guard, asyncio.get_running_loop()
        self._waiting: dict[socket.socket, asyncio.TimerHandle] = {}
        self._turn = 0.0
        descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self._most = STRANGERS if descriptors < 0 else max(_AT_ONCE, min(STRANGERS, descriptors - _SPARE))
        self._server = tornado.httpserver.HTTPServer(
            application, no_keep_alive=True, max_header_size=_HEAD, max_body_size=MOST, body_timeout=PATIENCE
        )
        self._loop.add_reader(own, self._take)

    def _take(self) -> None:
        """Take connections, for which nothing is done before their heads are here."""
        with contextlib.suppress(OSError):  # there are no more
            for _ in range(_AT_ONCE):
                connection, _address = self._own.accept()
                connection.setblocking(False)
                if len(self._waiting) >= self._most:
                    self._end(next(iter(self._waiting)))
                self._loop.add_reader(connection.fileno(), self._look, connection)
                self._waiting[connection] = self._loop.call_later(PATIENCE, self._end, connection)

    def _look(self, connection: socket.socket) -> None:
        """Hand a connection over that has the secret, and give one with another whole head its turn."""
        self._loop.remove_reader(connection.fileno())
        try:
            head = connection.recv(_HEAD, socket.MSG_PEEK)
        except OSError:
            head = b""
        if self._guard.secret.encode() in head:
            self._let_in(connection)
        elif b"\r\n\r\n" in head:
            self._turn = max(self._turn, self._loop.time()) + _APART
            self._waiting[connection].cancel()
            self._waiting[connection] = self._loop.call_at(self._turn, self._let_in, connection)
        elif not head:
            self._end(connection)

    def _let_in(self, connection: socket.socket) -> None:
        self._waiting.pop(connection).cancel()
        self._server.handle_stream(IOStream(connection, max_buffer_size=MOST), ("127.0.0.1", 0))

    def _end(self, connection: socket.socket) -> None:
        self._waiting.pop(connection).cancel()
        self._loop.remove_reader(connection.fileno())
        connection.close()

    async def close(self) -> None:
        """Take no more connections, and end those that there are."""
        self._loop.remove_reader(self._own)
        await asyncio.sleep(0.2)  # for the last answer to leave
        for connection in [*self._waiting]:
            self._end(connection)
        await self._server.close_all_connections()


@tornado.web.stream_request_body
class _Handler(tornado.web.RequestHandler):
    """What all requests have in common: who may ask, and what the answer says to the browser."""

    _most = 0  # bytes of a body

    def initialize(self, guard: Guard, session: Session, done: Callable[[], None]) -> None:
        self.guard, self.session, self.done, self.body = guard, session, done, b""
        self.connection: Any = self.request.connection

    def set_default_headers(self) -> None:
        self.clear_header("Server")
        for name, value in _HEADERS.items():
            self.set_header(name, value)

    def prepare(self) -> None:
        if not self.guard.admits(self.request.method or "", self.request.headers):
            self.refuse("this is no page of the desk, or the desk has another name")
        self.connection.set_max_body_size(self._most)

    def data_received(self, chunk: bytes) -> None:
        self.body += chunk

    def refuse(self, why: str) -> None:
        """Answer with one sentence, and nothing of the table."""
        self.set_status(403)
        self.finish({"error": f"{why}; press Enter where dp-publish desk runs, or start it again"})

    def write_error(self, status_code: int, **_: Any) -> None:
        self.set_status(status_code)
        self.finish({"error": "the desk could not do this"})

    def log_exception(self, *_: Any) -> None:
        """Log nothing: a trace may hold values."""


class _File(_Handler):
    """The frame of the page, its style and its script, which say nothing of the table."""

    def get(self, name: str) -> None:
        kind, content = page.files()[name]
        self.set_header("Content-Type", f"{kind}; charset=utf-8")
        self.finish(content)


class _Shown(_Handler):
    """A page that a command wrote."""

    def get(self, name: str) -> None:
        path = self.session.shown.get(name)
        if path is None or not path.is_file():
            self.send_error(404)
            return
        for header, value in _SHOWN.items():
            self.set_header(header, value)
        self.finish(path.read_bytes())


class _Ask(_Handler):
    """All that the page asks, by its name."""

    _most = _TOKEN

    def prepare(self) -> None:
        super().prepare()
        if self._finished or self.path_args == ["enter"]:
            return
        if self.guard.knows(self.request.headers):
            self.connection.set_max_body_size(MOST)
        else:
            self.refuse("this browser did not come by the desk's address")

    async def post(self, what: str) -> None:
        try:
            sent = _FIELDS.validate_json(self.body or b"{}")
        except ValidationError:  # it is no request of the page
            self.send_error(400)
            return
        if what == "enter":
            secret = self.guard.enter(sent.get("token", ""))
            if secret is None:
                self.refuse("this address was used already, or is none of this desk")
            else:
                self.finish({"secret": secret})
            return
        if what != "work":
            self.session.touched = time.monotonic()
        try:
            if what in ("work", "cancel", "close"):
                reply = self._reply(what, sent)
            else:  # one after the other, while these three are answered at once
                reply = await asyncio.get_running_loop().run_in_executor(self.session.pool, self._reply, what, sent)
        except DpGraphError as error:
            reply = {"error": str(error)}
        self.finish(reply)

    def _reply(self, what: str, sent: dict[str, str]) -> dict[str, Any]:
        session = self.session
        if what == "page":
            return _whole_page(session)
        if what == "close":
            self.done()
            return {"closed": True}
        if what == "cancel" and session.work is not None:
            session.work.cancel()
        if what in ("cancel", "work"):
            return page.work_state(session.work, session)

        if session.is_opening or session.failure:
            return {"error": "the table is not open yet"}
        if what in ("save", "check"):
            done = {"done": session.save(sent)} if what == "save" else {}
            return {**done, **page.state(session.answer(sent), session)}
        session.start(what, sent)
        return page.work_state(session.work, session)


def _whole_page(session: Session) -> dict[str, Any]:
    """Return the page, or how far the opening of the table is."""
    if session.is_opening:
        return {"opening": f"{time.monotonic() - session.began:.0f}"}
    if session.failure:
        return {"error": session.failure}
    try:
        answer = session.answer(session.fields)
    except Exception:
        answer = session.answer({})
    return {"html": page.render_desk(answer, session), **page.state(answer, session)}


def application(guard: Guard, session: Session, done: Callable[[], None]) -> tornado.web.Application:
    """Return the desk as tornado serves it; it keeps no log."""
    given = {"guard": guard, "session": session, "done": done}
    return tornado.web.Application(
        [
            (r"/((?:desk\.(?:css|js))?)", _File, given),
            (r"/shown/([\w-]{8,80})", _Shown, given),
            (r"/(enter|page|check|save|work|cancel|publish|plan|look|audit|close)", _Ask, given),
        ],
        default_handler_class=_Nothing,
        default_handler_args=given,
        log_function=lambda _: None,
    )


class _Nothing(_Handler):
    """Whatever else is asked for."""

    def prepare(self) -> None:
        self.send_error(404)


def serve(asked: Asked, *, port: int, browse: bool, tell: Callable[[str], None]) -> None:
    """Serve the desk until it is closed, interrupted, or not touched for an hour.

    Parameters
    ----------
    asked : Asked
        The table and what goes with it.
    port : int
        0 for any that is free.
    browse : bool
        Whether to open the user's browser.
    tell : callable
        Takes sentences for the terminal; one has the address.

    Raises
    ------
    DpGraphError
        The policy cannot be read, or nothing can listen at the port.
    """
    with _listening(port) as own:
        session = Session(asked)
        with contextlib.closing(session):
            asyncio.run(_serve(session, own, browse, tell))
    tell("the desk is closed")
    if session.is_opening:  # Python would wait for what reads the table, and that for Python
        os._exit(0)


def _listening(port: int) -> socket.socket:
    """Return a socket that listens on this machine alone."""
    try:
        (found,) = tornado.netutil.bind_sockets(port, "127.0.0.1", backlog=_WAITING)
    except OSError as error:
        raise DpGraphError(f"the desk cannot listen at port {port}: {error.strerror}; give another --port") from error
    return found


async def _serve(session: Session, own: socket.socket, browse: bool, tell: Callable[[str], None]) -> None:
    guard, over = Guard(own.getsockname()[1]), asyncio.Event()
    with contextlib.suppress(ValueError, OSError):
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most if 0 <= most < _WAITING else _WAITING, most))
    logging.disable()  # strangers would fill the terminal, and a trace may hold values
    door = Door(own, guard, application(guard, session, over.set))
    loop = asyncio.get_running_loop()
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(each, over.set)

    def show() -> None:
        is_shown = browse and _is_opened(guard.address, session)
        where = "your browser shows the desk" if is_shown else f"open {guard.address} in a browser on this machine"
        tell(
            f"{where}; it is for you alone, and closes with Ctrl-C or an hour after it was last used"
            + "; if you lose its page, press Enter here for one with all that you typed" * listens
        )

    def renew() -> None:
        guard.renew()
        show()

    listens = _listens_for_enter(loop, renew)
    show()
    while not over.is_set() and not is_idle(session):
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(over.wait(), _LOOK)
    await door.close()


def is_idle(session: Session) -> bool:
    """Return whether nobody has asked anything for an hour, and nothing is being done."""
    ended = session.work.ended if session.work is not None else 0.0
    return not session.is_working and time.monotonic() - max(session.touched, ended) > IDLE


def _listens_for_enter(loop: asyncio.AbstractEventLoop, pressed: Callable[[], None]) -> bool:
    """Call a function at every line that is typed while the desk is in the foreground; return whether any can be."""

    def is_ours() -> bool:
        return not os.isatty(place) or os.tcgetpgrp(place) == os.getpgrp()

    def take() -> None:
        if is_ours() and os.read(place, 4096):
            pressed()
        else:
            loop.remove_reader(place)

    with contextlib.suppress(OSError, ValueError, AttributeError):  # there is nothing that could be typed into
        place = sys.stdin.fileno()
        if is_ours():
            loop.add_reader(place, take)
            return True
    return False


def _is_opened(address: str, session: Session) -> bool:
    """Return whether a browser was opened, by a private file that leads to the address: programs' words are seen."""
    start = Path(session.folder.name) / "desk.html"
    link = html.escape(address, quote=True)
    start.write_text(
        f'<!DOCTYPE html><meta charset="utf-8"><title>desk</title><meta http-equiv="refresh" content="0;url={link}">'
        f'<a href="{link}">the desk</a>',
        encoding="utf-8",
    )
    try:
        return webbrowser.open(start.as_uri())
    except (webbrowser.Error, OSError):
        return False
