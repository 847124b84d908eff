"""A web server as a store that is only read: GET requests with ranges, over TLS, by the standard library.

A query in the URI, as of a signed link, goes with every request, and into no message.

`http.client` waits anew for each byte of a head, skips any number of interim answers (RFC 9110, section 15.2) and takes
the body of a redirection to its end. Here each wait takes what is left of a `Pace`, so that connecting, the TLS
handshake, heads and content together end when it is used up, and a head has a size.
"""

from __future__ import annotations

import functools
import http.client
import io
import re
import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import IO, Any, NoReturn, Self
from urllib.parse import quote, urlsplit, urlunsplit

from dp_bundle.base.errors import StoreError
from dp_bundle.base.machine import is_loopback
from dp_bundle.files.patience import Pace, PassingError, patiently, read_patiently
from dp_bundle.files.places import missing, plain_uri, require_name

_CHUNK = 2**20
_RANGE = re.compile(r"bytes ([0-9]{1,18})-([0-9]{1,18})/([0-9]{1,18})")
_AGAIN = (408, 425, 429)
_HEADERS = {"Accept-Encoding": "identity", "Cache-Control": "no-cache", "User-Agent": "dpgraph"}
_PLAIN = re.compile(r"[!-~]*")
_MOST_HEAD = 2**18  # bytes before an answer's content: interim answers, status and header lines
_BUFFER = 2**16


class WebStore:
    """Contents behind a URL; `Store` says the rest. It cannot be listed or written.

    Parameters
    ----------
    uri : str
        `https://HOST/FOLDER`, perhaps with a query. `http://` is taken to this machine only.
    pace : Pace, optional
        That of all transfers together; by default, each has one of its own.

    Raises
    ------
    StoreError
        It is another kind of URI.
    """

    def __init__(self, uri: str, pace: Pace | None = None) -> None:
        self.uri = plain_uri(uri).rstrip("/")
        parts = urlsplit(uri)
        if parts.scheme != "https" and not is_loopback(parts.hostname):
            raise StoreError(self.uri, "without TLS anybody on the way could change it: give an https:// address")
        if not parts.hostname or "@" in parts.netloc or parts.fragment or not _PLAIN.fullmatch(uri):
            raise StoreError(self.uri, "it must be https://HOST/FOLDER, in ASCII, and without a user")
        self._parts = parts
        self._pace, self._opener = pace, make_opener()

    def names(self, folder: str = "") -> NoReturn:  # noqa: ARG002
        """Refuse: web servers have no lists of names."""
        raise StoreError(self.uri, "a web server cannot be listed")

    def size(self, name: str) -> int:
        """Return the number of bytes under a name; the first is asked for, as a signed link may allow GET alone."""
        place, pace = self._place(name), self._pace or Pace()

        def attempt() -> int:
            with self._get(name, place, "bytes=0-0", pace) as answer:
                if answer.status == http.client.REQUESTED_RANGE_NOT_SATISFIABLE:
                    return 0
                if answer.status == http.client.PARTIAL_CONTENT:
                    return _parse_range(answer, place)[2]
                if answer.length is None:
                    raise StoreError(place, "its server does not say how long it is")
                return int(answer.length)

        return patiently(place, attempt, pace)

    def read(self, name: str, start: int = 0, length: int | None = None) -> bytes:
        """Return `length` bytes, or fewer at the end, in one request if none fails; what comes beyond is cut off."""
        place, pace = self._place(name), self._pace or Pace()

        def chunks(position: int, size: int | None) -> Iterator[bytes]:
            last = "" if size is None else position + size - 1
            with self._get(name, place, f"bytes={position}-{last}" if position or size else None, pace) as answer:
                if answer.status == http.client.REQUESTED_RANGE_NOT_SATISFIABLE:
                    return
                if answer.status == http.client.PARTIAL_CONTENT:
                    first, end, _ = _parse_range(answer, place)
                    expected: int | None = end + 1 - first
                    if first != position:
                        raise StoreError(place, "its server sent another range than was asked for")
                elif position:
                    raise StoreError(place, "its server cannot send a range of a file (RFC 9110, section 14)")
                else:
                    expected = answer.length
                yield from _content(answer, expected)

        return b"" if length == 0 else read_patiently(place, chunks, start, length, pace)

    def create(self, name: str, content: bytes) -> NoReturn:  # noqa: ARG002
        """Refuse."""
        raise StoreError(self._place(name), "a web server is only read: publish to a folder or an object store")

    def delete(self, name: str) -> NoReturn:
        """Refuse."""
        self.create(name, b"")

    def _get(self, name: str, place: str, wanted: str | None, pace: Pace) -> Any:
        """Return an open answer with a status of 200, 206 or 416."""
        path = f"{self._parts.path.rstrip('/')}/{quote(name)}"
        headers = {**_HEADERS, **({"Range": wanted} if wanted else {})}
        url = urlunsplit((self._parts.scheme, self._parts.netloc, path, self._parts.query, ""))
        try:
            return self._opener.open(PacedRequest(url, headers, pace))
        except urllib.error.HTTPError as error:
            if error.code == http.client.REQUESTED_RANGE_NOT_SATISFIABLE:
                return error
            error.close()
            raise _judge(place, error.code) from None
        except RedirectError as error:
            raise StoreError(place, str(error)) from None
        except urllib.error.URLError as error:
            if "CERTIFICATE_VERIFY_FAILED" in str(error.reason):
                raise StoreError(place, "the certificate of its server is not one that this system trusts") from None
            raise PassingError(_describe(error.reason)) from None
        except OSError as error:
            raise PassingError(_describe(error)) from None
        except (http.client.HTTPException, ValueError):  # such as an address to be redirected to that is none
            raise PassingError("its server did not answer in HTTP") from None

    def _place(self, name: str) -> str:
        return f"{self.uri}/{require_name(name)}"


def _content(answer: Any, expected: int | None) -> Iterator[bytes]:
    """Yield what an answer holds, and refuse one that ends before it should."""
    while expected is None or expected > 0:
        try:
            chunk = answer.read1(_CHUNK if expected is None else min(_CHUNK, expected))
        except TimeoutError:
            raise PassingError("its server was silent in the middle of an answer") from None
        except (OSError, http.client.HTTPException):
            raise PassingError("its server's answer was cut short") from None
        if not chunk:
            if expected:
                raise PassingError("its server's answer was cut short")
            return
        expected = None if expected is None else expected - len(chunk)
        yield chunk


def _parse_range(answer: Any, place: str) -> tuple[int, int, int]:
    found = _RANGE.fullmatch(answer.headers.get("Content-Range", ""))
    if found is None:
        raise StoreError(place, "its server does not say which range it sent")
    first, last, whole = map(int, found.groups())
    return first, last, whole


def _judge(place: str, status: int) -> Exception:
    """Return the error to raise for a status."""
    if status in (http.client.NOT_FOUND, http.client.GONE):
        return missing(place)
    if status in (http.client.UNAUTHORIZED, http.client.FORBIDDEN):
        return StoreError(place, f"its server refuses to give it (status {status})")
    if status in _AGAIN or status >= http.client.INTERNAL_SERVER_ERROR:
        return PassingError(f"its server answered with status {status}")
    return StoreError(place, f"its server answered with status {status}")


def _describe(error: object) -> str:
    """Return what became of a request that was not answered."""
    if isinstance(error, socket.gaierror):
        return "the name of its server is not known here, so it did not answer"
    if isinstance(error, ConnectionRefusedError):
        return "nothing takes connections there, so its server did not answer"
    return "its server did not answer"


class RedirectError(Exception):
    """A redirection that is not followed."""


def make_opener() -> urllib.request.OpenerDirector:
    """Return what opens a `PacedRequest`; certificates and names are verified by this system's authorities."""
    opener = urllib.request.OpenerDirector()
    usual = urllib.request.ProxyHandler, urllib.request.HTTPDefaultErrorHandler, urllib.request.HTTPErrorProcessor
    for handler in (*usual, _Plain, _Secure, _Redirects):
        opener.add_handler(handler())
    return opener


class PacedRequest(urllib.request.Request):
    """A request whose answer, and those that it is redirected to, come within a pace."""

    def __init__(self, url: str, headers: dict[str, str], pace: Pace) -> None:
        super().__init__(url, headers=headers)
        self.pace = pace


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

    def within(self, pace: Pace) -> Self:
        """Take a pace, for the connection and for its answers."""
        self._pace = pace
        self._create_connection = self._connect_to_any
        self.response_class = functools.partial(_Answer, pace=pace)  # type: ignore[assignment]
        return self

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
        return self.do_open(lambda host, **options: _Connection(host, **options).within(req.pace), req)


class _Secure(urllib.request.HTTPSHandler):
    def https_open(self, req: Any) -> Any:
        options = {"context": self._authorities}
        return self.do_open(lambda host, **given: _SecureConnection(host, **given).within(req.pace), req, **options)

    @functools.cached_property
    def _authorities(self) -> ssl.SSLContext:
        context = ssl.create_default_context()
        context.set_alpn_protocols(["http/1.1"])
        return context


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
        return None if found is None else PacedRequest(found.full_url, dict(found.headers), req.pace)
