"""The interface that all places have in common, how one is written (a path or a URI), and a content as a file."""

from __future__ import annotations

import errno
import io
import math
import os
import re
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeAlias, TypeVar
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from dp_bundle.base.errors import ParameterError

_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_PART = r"(?!\.)[\w.~+=@,() -]+"
_NAME = re.compile(rf"{_PART}(/{_PART})*")
_LONGEST_NAME = 500


class Store(Protocol):
    """Named, immutable contents in one folder or under one prefix; several threads may use it at once.

    A name is one part or several with slashes between them, each of letters, digits, spaces and `._~+=@,()-`, and none
    begins with a dot. Failures that may pass (no answer, an answer that is cut short, a busy server) are tried
    again for some seconds.

    Attributes
    ----------
    uri : str
        Where it is, without a query or credentials, for messages.
    """

    uri: str

    def names(self, folder: str = "") -> list[str]:
        """Return all names, or those below a folder, in order; there need not be such a folder.

        Raises
        ------
        StoreError
            The place cannot be read, or cannot be listed.
        """

    def size(self, name: str) -> int:
        """Return the number of bytes under a name.

        Raises
        ------
        FileNotFoundError
            There is nothing under it.
        StoreError
            The place cannot be read.
        """

    def read(self, name: str, start: int = 0, length: int | None = None) -> bytes:
        """Return `length` bytes from a position on, or all; fewer only where the content ends.

        Raises
        ------
        FileNotFoundError
            There is nothing under the name.
        StoreError
            The place cannot be read.
        """

    def create(self, name: str, content: bytes) -> bytes:
        """Put content under a name that is free, in one step, and return the content that is under it afterwards.

        That is what was given, even if only the answer was lost, or what another had put there before. Nothing is ever
        replaced, and no error is taken for an answer: after each, the name is read.

        Raises
        ------
        StoreError
            The place cannot be written or read, so that nobody knows; the content may be there, or come yet.
        """

    def delete(self, name: str) -> None:
        """Remove a name; one that is not there is no error.

        Raises
        ------
        StoreError
            The place cannot be written.
        """


@dataclass(frozen=True)
class RemotePath(os.PathLike[str]):
    """The URI of a file or folder elsewhere, in the place of a `Path`; as text, it has no query and no user.

    Parameters
    ----------
    uri : str
        With everything that is needed to read it.
    """

    uri: str = field(repr=False)

    @property
    def name(self) -> str:
        """The last part of its path, or the bucket or host if it has none."""
        parts = urlsplit(plain_uri(self.uri))
        last = parts.path.rstrip("/").rpartition("/")[2] or parts.netloc
        return unquote(last) if self._is_escaped else last

    @property
    def suffix(self) -> str:
        """The end of its name, from the last dot on."""
        return Path(self.name).suffix

    @property
    def folder(self) -> str:
        """The URI of what it is in."""
        parts = urlsplit(self.uri)
        return urlunsplit(parts._replace(path=parts.path.rstrip("/").rpartition("/")[0]))

    def with_name(self, name: str) -> RemotePath:
        """Return the same with another name."""
        return RemotePath(self.folder).joined(name)

    def joined(self, name: str) -> RemotePath:
        """Return the path of what has this name in it."""
        parts = urlsplit(self.uri)
        inside = f"{parts.path.rstrip('/')}/{quote(name) if self._is_escaped else name}"
        return RemotePath(urlunsplit(parts._replace(path=inside)))

    def __fspath__(self) -> str:
        return plain_uri(self.uri).rstrip("/")

    def __str__(self) -> str:
        return os.fspath(self)

    @property
    def _is_escaped(self) -> bool:
        return urlsplit(self.uri).scheme in ("http", "https")


Place: TypeAlias = Path | RemotePath
AnyPath = TypeVar("AnyPath", Path, RemotePath, Path | RemotePath)


def is_uri(place: str | os.PathLike[str]) -> bool:
    """Return True for text that begins with a scheme and `://`."""
    return isinstance(place, str) and _URI.match(place) is not None


def plain_uri(uri: str) -> str:
    """Return a URI without user, query and fragment, where credentials may be."""
    parts = urlsplit(uri)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def located(place: str | os.PathLike[str]) -> Path | RemotePath:
    """Return where a path or URI points: `file://` to a path, and other URIs elsewhere.

    Raises
    ------
    ParameterError
        It begins like a URI and is none, such as one with a bracket that is not closed, or with a port beyond 65535.
    """
    if isinstance(place, RemotePath) or not is_uri(place):
        return place if isinstance(place, RemotePath) else Path(place)
    uri = os.fspath(place)
    try:
        parts = urlsplit(uri)
        _ = parts.port  # which is parsed only now
    except ValueError:
        shown = re.sub(r"[?#].*", "", re.sub(r"//[^/]*@", "//", uri), flags=re.DOTALL)  # without what may be secret
        raise ParameterError("an address", "like https://HOST/FOLDER or https://HOST:PORT/FOLDER", shown) from None
    if parts.scheme == "file" and parts.netloc in ("", "localhost"):
        return Path(unquote(parts.path))
    return RemotePath(uri)


def number_chosen(name: str, default: float, allowed: str, fits: Callable[[float], bool]) -> float:
    """Return the number in a variable of the environment, or the default.

    Raises
    ------
    ParameterError
        The variable is no number that fits; the message says what is allowed.
    """
    given = os.environ.get(name, str(default))
    try:
        number = float(given)
    except ValueError:
        number = math.nan
    if not fits(number):
        raise ParameterError(name, allowed, given)
    return number


def missing(place: str) -> FileNotFoundError:
    """Return the error for a name under which there is nothing."""
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), place)


def require_name(name: str) -> str:
    """Return the name if a store may have it.

    Raises
    ------
    ParameterError
        It may not.
    """
    if len(name) > _LONGEST_NAME or _NAME.fullmatch(name) is None:
        raise ParameterError("a name", "of letters, digits, spaces, ._~+=@,()- and single slashes", name)
    return name


class RangeReader(io.RawIOBase):
    """A seekable, read-only file over whatever gives ranges of a content.

    Parameters
    ----------
    size : int
        Bytes of the content, beyond which nothing is asked for.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._position = 0

    @abstractmethod
    def _content(self, position: int, size: int) -> bytes:
        """Return `size` bytes from a position on, or fewer where the content ends early."""

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the position within the content."""
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move within the content, or beyond its end."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        self._position = max(0, base + offset)
        return self._position

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        """Read into a buffer, never past the end."""
        content = self._content(self._position, min(len(buffer), max(0, self._size - self._position)))
        buffer[: len(content)] = content
        self._position += len(content)
        return len(content)
