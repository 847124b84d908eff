"""A web server as a store that is only read: GET requests with ranges, over TLS, by the standard library.

A query in the URI, as of a signed link, goes with every request, and into no message. `pace` says how long it may take.
"""

from __future__ import annotations

import http.client
import re
import socket
import urllib.error
from collections.abc import Iterator
from typing import Any, NoReturn
from urllib.parse import quote, urlsplit, urlunsplit

from dp_bundle.base.errors import StoreError
from dp_bundle.files.http_answers import RedirectError, make_opener, paced_request
from dp_bundle.files.pace import Pace
from dp_bundle.files.patience import PassingError, patiently, read_patiently
from dp_bundle.files.places import is_loopback, missing, plain_uri, require_name

_CHUNK = 2**20
_RANGE = re.compile(r"bytes ([0-9]{1,18})-([0-9]{1,18})/([0-9]{1,18})")
_AGAIN = (408, 425, 429)
_HEADERS = {"Accept-Encoding": "identity", "Cache-Control": "no-cache", "User-Agent": "dpgraph"}
_PLAIN = re.compile(r"[!-~]*")


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

    def copy(self, source: str, target: str) -> NoReturn:  # noqa: ARG002
        """Refuse."""
        self.create(target, b"")

    def delete(self, name: str) -> NoReturn:
        """Refuse."""
        self.create(name, b"")

    def _get(self, name: str, place: str, wanted: str | None, pace: Pace) -> Any:
        """Return an open answer with a status of 200, 206 or 416."""
        path = f"{self._parts.path.rstrip('/')}/{quote(name)}"
        headers = {**_HEADERS, **({"Range": wanted} if wanted else {})}
        url = urlunsplit((self._parts.scheme, self._parts.netloc, path, self._parts.query, ""))
        try:
            return self._opener.open(paced_request(url, headers, pace))
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
