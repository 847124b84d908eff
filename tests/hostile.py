"""A server on this machine that tries to hold its readers for ever, or to fill their memory, in many ways."""

import contextlib
import gzip
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler

from tests.web import LocalServer

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
    "gzip-bomb": _bomb,
}


class HostileServer(LocalServer):
    """A server that behaves as the first folder of a path says."""

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        """Behave badly, until nobody reads any more."""
        with contextlib.suppress(OSError):
            for content in BEHAVIOURS[request.path.split("/")[1]]():
                request.wfile.write(content)
