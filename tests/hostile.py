"""A server on this machine that tries to hold its readers for ever, or to fill their memory, in many ways."""

import contextlib
import gzip
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

_OK = b"HTTP/1.1 200 OK\r\n"
_ENDLESS_BODY = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n"


def _drip(content: bytes, pause: float = 0.2) -> Iterator[bytes]:
    """Yield a byte now and then, and the last one for ever."""
    for index in range(10**6):
        yield content[min(index, len(content) - 1) :][:1]
        time.sleep(pause)


def _flood(start: bytes, again: bytes) -> Iterator[bytes]:
    yield start
    while True:
        yield again


def _silence() -> Iterator[bytes]:
    time.sleep(10**4)
    yield b""


def _bomb() -> Iterator[bytes]:
    packed = gzip.compress(bytes(2**26))
    yield b"%sContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s" % (_OK, len(packed), packed)


BEHAVIOURS: dict[str, Callable[[], Iterator[bytes]]] = {
    "silent": _silence,
    "headers-drip": lambda: _drip(b"HTTP/1.1 200 OK\r\nX: yyyyyyy"),
    "headers-without-end": lambda: _flood(_OK, b"X: y\r\n" * 1000),
    "body-drips": lambda: (each for part in ([_ENDLESS_BODY], _drip(b"x")) for each in part),
    "body-without-end": lambda: _flood(_ENDLESS_BODY, bytes(2**20)),
    "chunks-without-end": lambda: _flood(b"%sTransfer-Encoding: chunked\r\n\r\n" % _OK, b"1\r\nx\r\n" * 1000),
    "redirect-without-end": lambda: iter([b"HTTP/1.1 302 Found\r\nLocation: /redirect-without-end/\r\n\r\n"]),
    "gzip-bomb": _bomb,
    "shorter-than-said": lambda: iter([b"%sContent-Length: 100000\r\n\r\n{}" % _OK]),
}


class HostileServer:
    """A server that behaves as the first folder of a path says; what is below `/true` is served as it is.

    Below `/readme`, a folder is served whose README has no end.

    Parameters
    ----------
    folder : Path
        The bundle that is served below `/true` and `/readme`.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Take no more requests."""
        self._socket.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            head = b""
            while b"\r\n\r\n" not in head:
                received = connection.recv(2**16)
                if not received:
                    return
                head += received
            behaviour, _, name = head.split(b" ")[1].decode().lstrip("/").partition("/")
            for content in self._contents(behaviour, name):
                connection.sendall(content)

    def _contents(self, behaviour: str, name: str) -> Iterator[bytes]:
        if behaviour in BEHAVIOURS:
            return BEHAVIOURS[behaviour]()
        if behaviour == "readme" and name == "README.md":
            return _flood(_ENDLESS_BODY, bytes(2**20))
        path = self._folder / name
        if not path.is_file():
            return iter([b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"])
        content = path.read_bytes()
        return iter([b"%sContent-Length: %d\r\n\r\n%s" % (_OK, len(content), content)])
