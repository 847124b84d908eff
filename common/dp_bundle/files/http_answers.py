"""HTTP by the standard library, with a limit of time on every byte and of size on everything but content.

`http.client` waits anew for each byte of a head, skips any number of interim answers (RFC 9110, section 15.2) and takes
the body of a redirection to its end. Here each wait takes what is left of a `Pace`, so that connecting, the TLS
handshake, heads and content together end when it is used up, and a head has a size.
"""

from __future__ import annotations

import functools
import http.client
import io
import socket
import ssl
import urllib.request
from collections.abc import Callable
from typing import IO, Any
from urllib.parse import urlsplit

from dp_bundle.files.pace import Pace
from dp_bundle.files.places import is_loopback

_MOST_HEAD = 2**18  # bytes before an answer's content: interim answers, status and header lines
_BUFFER = 2**16


class RedirectError(Exception):
    """A redirection that is not followed."""


def make_opener() -> urllib.request.OpenerDirector:
    """Return what opens a `PacedRequest`; certificates and names are verified by this system's authorities."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        _Plain(),
        _Secure(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
        _Redirects(),
    ):
        opener.add_handler(handler)
    return opener


class PacedRequest(urllib.request.Request):
    """A request whose answer comes within a pace."""

    pace: Pace


def paced_request(url: str, headers: dict[str, str], pace: Pace) -> PacedRequest:
    """Return a request whose answer, and those that it is redirected to, come within a pace."""
    request = PacedRequest(url, headers=headers)
    request.pace = pace
    return request


class _PacedFile(io.RawIOBase):
    """The bytes of a connection: every wait takes the rest of a pace, and a head has a size."""

    def __init__(self, raw: Any, connection: socket.socket, pace: Pace) -> None:
        self._raw, self._connection, self._pace = raw, connection, pace
        self._head: int | None = 0

    def end_head(self) -> None:
        """Count no more bytes: from here on, content comes, of which its reader takes as much as it wants."""
        self._head = None

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int | None:
        """Read what is there, or wait."""
        self._connection.settimeout(self._pace.wait())
        n_bytes: int | None = self._raw.readinto(buffer)
        if self._head is not None:
            self._head += n_bytes or 0
            if self._head > _MOST_HEAD:
                raise http.client.HTTPException("the head of an answer does not end")
        return n_bytes

    def close(self) -> None:
        """Close the connection."""
        self._raw.close()
        super().close()


class _Answer(http.client.HTTPResponse):
    """An answer that comes within a pace."""

    def __init__(self, sock: socket.socket, *arguments: Any, pace: Pace, **options: Any) -> None:
        super().__init__(sock, *arguments, **options)
        self._paced = _PacedFile(self.fp.detach(), sock, pace)
        self.fp = io.BufferedReader(self._paced, _BUFFER)

    def begin(self) -> None:
        """Read the head."""
        super().begin()
        self._paced.end_head()


class _Connection(http.client.HTTPConnection):
    """A connection that is made within a pace, which it is told before anything else."""

    _pace: Pace

    def take(self, pace: Pace) -> None:
        """Take a pace, for the connection and for its answers."""
        self._pace = pace
        self._create_connection = self._connect_to_any
        self.response_class = functools.partial(_Answer, pace=pace)  # type: ignore[assignment]

    def connect(self) -> None:
        """Connect, and leave what is left for the handshake, which is one wait."""
        super().connect()
        self.sock.settimeout(self._pace.wait())

    def _connect_to_any(self, address: tuple[str, int], *_ignored: object) -> socket.socket:
        """Connect to the first of a name's addresses that answers."""
        error: OSError = ConnectionError("its name has no address")
        for family, kind, protocol, _, place in socket.getaddrinfo(*address, type=socket.SOCK_STREAM):
            connection = socket.socket(family, kind, protocol)
            try:
                connection.settimeout(self._pace.wait())
                connection.connect(place)
            except OSError as failed:
                connection.close()
                error = failed
            else:
                return connection
        raise error


class _SecureConnection(http.client.HTTPSConnection, _Connection):
    """The same with TLS."""


class _Plain(urllib.request.HTTPHandler):
    def http_open(self, req: Any) -> Any:
        return self.do_open(functools.partial(_connection, _Connection, req.pace), req)


class _Secure(urllib.request.HTTPSHandler):
    def https_open(self, req: Any) -> Any:
        return self.do_open(functools.partial(_connection, _SecureConnection, req.pace, context=self._authorities), req)

    @functools.cached_property
    def _authorities(self) -> ssl.SSLContext:
        context = ssl.create_default_context()
        context.set_alpn_protocols(["http/1.1"])
        return context


def _connection(kind: Callable[..., _Connection], pace: Pace, host: str, **options: Any) -> _Connection:
    """Return a connection within a pace, which is not made yet."""
    connection = kind(host, **options)
    connection.take(pace)
    return connection


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Redirections to addresses of the same scheme alone."""

    def http_error_302(self, req: Any, fp: Any, code: int, msg: str, headers: Any) -> Any:
        """Open what is redirected to; what is no address is an error."""
        try:
            return super().http_error_302(req, fp, code, msg, headers)
        except ValueError:
            fp.close()
            raise

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        """Return the next request."""
        fp.close()  # whose content may have no end
        old, new = urlsplit(req.full_url), urlsplit(newurl)
        if new.scheme != old.scheme or (new.scheme != "https" and not is_loopback(new.hostname)):
            raise RedirectError("its server redirects to an address of another kind than https://")
        found = super().redirect_request(req, fp, code, msg, headers, newurl)
        assert isinstance(req, PacedRequest)  # noqa: S101
        return None if found is None else paced_request(found.full_url, dict(found.headers), req.pace)
