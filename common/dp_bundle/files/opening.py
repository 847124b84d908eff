"""From a path or URI to the store behind it, or to one content as a binary file that is never kept on a disk.

A local folder is a store, too: every content is a file that appears whole, by a link, and is on the disk by then.

Object stores (S3, Google Cloud Storage, Azure Blob Storage) and web servers, which are only read, are reached by
obstore. A request takes so many seconds in all, from connecting to the last byte of its answer. It is sent again, for
as long, where it was not answered or the server is busy. An answer that is cut short is continued where it was.

Every content goes up in one conditional PUT ("If-None-Match: *" on S3). That is the request that a store can refuse if
the name is taken. S3 takes 5 GiB so, and the largest part of a bundle has 1 GiB. After an error of a PUT, the name is
read before another one is sent.

A query in a URI, as of a signed link, goes with every request, and into no message.
"""

import contextlib
import datetime
import http.client
import io
import os
import re
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from dp_bundle.base.errors import ParameterError, StoreError
from dp_bundle.base.machine import is_loopback
from dp_bundle.base.quoting import quote_path
from dp_bundle.files.new_files import read_at, regular_file, sync_folder, whole_file
from dp_bundle.files.places import (
    RangeReader,
    RemotePath,
    Store,
    located,
    missing,
    number_chosen,
    plain_uri,
    require_name,
)

_AT_ONCE = 2**23  # bytes of a request, where a file is read from its start to its end
_SCHEMES = "a folder, file://, s3://, gs://, az://, or https:// to read"
T = TypeVar("T")

_CHUNK = 2**12  # of an answer; what comes after the last whole one is lost with the connection
_MOST_TRIES = 8  # in a row that bring nothing
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 3.0  # seconds
_UPLOAD = 1800.0  # seconds
_NO_BUCKET = ("<Code>NoSuchBucket</Code>", "<Code>ContainerNotFound</Code>")  # of S3 and Google, and of Azure
_ENDPOINTS = {  # variables that name another server than the provider's own
    "s3": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
    "gs": (),
    "az": ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT", "AZURITE_BLOB_STORAGE_URL"),
}
_AGAIN = (408, 409, 412, 425, 429)  # of the answers below 500, those that pass
_OUT_OF_RANGE = 416
_STATUS = re.compile(r"status code: (\d{3})")
_FAILURES = {  # words of obstore's, and what became of a request
    "InvalidCertificate": "the certificate of its server is not one that this system trusts",
    "dns error": "the name of its server is not known here, so it did not answer",
    "ConnectionRefused": "nothing takes connections there, so its server did not answer",
    "following redirect": "its server redirects in circles, or to an address of another kind than https://",
    "MissingContentLength": "its server does not say how long it is",
}
_PLAIN = re.compile(r"[!-~]*")


def open_store(place: str | os.PathLike[str]) -> Store:
    """Return the store at a place; nothing is read or written yet.

    Parameters
    ----------
    place : str or PathLike
        A local folder, which may not exist yet, or a URI: `file:///FOLDER`, `s3://BUCKET/PREFIX`, `gs://BUCKET/PREFIX`,
        `az://CONTAINER/PREFIX`, or `https://HOST/FOLDER`, which is only read. Credentials come from the environment.

    Raises
    ------
    ParameterError
        There is no such kind of place.
    StoreError
        It cannot be taken as such a place, or the environment does not say enough.
    """
    found = located(place)
    if isinstance(found, Path):
        return FolderStore(found)
    if urlsplit(found.uri).scheme in ("s3", "gs", "az", "https", "http"):
        return RemoteStore(found.uri)
    raise ParameterError("a place", _SCHEMES, str(found))


def require_create_only(store: Store) -> None:
    """Check that a store refuses to replace what is there; some that speak S3 ignore the condition.

    A small object is created twice, under a random name, and removed.

    Raises
    ------
    StoreError
        It replaces, or it cannot be written.
    """
    name, first = f"trial-{secrets.token_hex(8)}", b"first"
    store.create(name, first)
    try:
        if store.create(name, b"second") != first or store.read(name) != first:
            raise StoreError(store.uri, "this storage replaces objects although it was asked not to: use another")
    finally:
        store.delete(name)


def open_remote(path: RemotePath) -> io.BufferedReader:
    """Open a content elsewhere for reading from its start to its end, in few requests."""
    return io.BufferedReader(RemoteFile(path), _AT_ONCE)


class RemoteFile(RangeReader):
    """A seekable file; every read is one request, so wrap it where reads are small.

    Parameters
    ----------
    path : RemotePath
        Where it is.

    Raises
    ------
    FileNotFoundError
        There is nothing.
    StoreError
        The place cannot be read.
    """

    def __init__(self, path: RemotePath) -> None:
        self._store, self._name = open_store(path.folder), path.name
        super().__init__(self._store.size(path.name))

    def _content(self, position: int, size: int) -> bytes:
        return self._store.read(self._name, position, size)


class FolderStore:
    """Contents in the files of a folder, which is made with the first one; `Store` says the rest.

    Parameters
    ----------
    folder : Path
        It may not exist yet; so may its parents.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self.uri = str(self.folder)

    def names(self, folder: str = "") -> list[str]:
        """Return all names, or those below a folder; files whose names begin with a dot are not whole yet."""
        top = self.folder / require_name(folder) if folder else self.folder
        found = []
        for place, folders, files in os.walk(top, onerror=self._refuse):
            folders[:] = [name for name in folders if not name.startswith(".")]
            found += [Path(place, name) for name in files if not name.startswith(".")]
        return sorted(path.relative_to(self.folder).as_posix() for path in found)

    def size(self, name: str) -> int:
        """Return the number of bytes of a file."""
        with self._opened(name) as descriptor:
            return os.fstat(descriptor).st_size

    def read(self, name: str, start: int = 0, length: int | None = None) -> bytes:
        """Return `length` bytes of a file, or fewer at its end."""
        with self._opened(name) as descriptor:
            rest = max(0, os.fstat(descriptor).st_size - start)
            return read_at(descriptor, start, rest if length is None else min(length, rest))

    def create(self, name: str, content: bytes) -> bytes:
        """Make a new file; a file system on a network may lose the answer, so after an error the name is read."""
        path = self.folder / require_name(name)
        try:
            for each in reversed([each for each in path.parents if not each.exists()]):
                each.mkdir(exist_ok=True)
                sync_folder(each.parent)  # so that names of new folders are on the disk, too
            with whole_file(path) as file:
                file.write(content)
        except OSError as error:
            try:
                found = self.read(name)
            except FileNotFoundError:
                raise self._error(name, error) from error
            if found == content:
                sync_folder(path.parent)
            return found
        return content

    def delete(self, name: str) -> None:
        """Remove a file."""
        path = self.folder / require_name(name)
        try:
            path.unlink(missing_ok=True)
            if path.parent.is_dir():
                sync_folder(path.parent)
        except OSError as error:
            raise self._error(name, error) from error

    @contextlib.contextmanager
    def _opened(self, name: str) -> Iterator[int]:
        try:
            with regular_file(self.folder / require_name(name)) as descriptor:
                yield descriptor
        except (FileNotFoundError, NotADirectoryError):
            raise missing(quote_path(self.folder / name)) from None
        except OSError as error:
            raise self._error(name, error) from error

    def _refuse(self, error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):
            raise self._error("", error) from error

    def _error(self, name: str, error: OSError) -> StoreError:
        return StoreError(quote_path(self.folder / name), error.strerror or type(error).__name__)


def remove_below(place: str, name: str) -> None:
    """Remove all that is under a name in a folder or at a URI, as far as the place lets us."""
    with contextlib.suppress(StoreError, OSError):
        store = open_store(place)
        for each in store.names(name):
            store.delete(each)
        folder = located(place)
        if isinstance(folder, Path):
            shutil.rmtree(folder / name, ignore_errors=True)  # empty folders by now


class RemoteStore:
    """Contents in objects whose names begin with a prefix, or behind a URL; `Store` says the rest.

    Parameters
    ----------
    uri : str
        `s3://BUCKET/PREFIX`, `gs://BUCKET/PREFIX` or `az://CONTAINER/PREFIX`, whose credentials come from the
        environment, as obstore documents; or `https://HOST/FOLDER`, perhaps with a query. `http://` is taken to this
        machine only.

    Raises
    ------
    StoreError
        It is no such URI, or the environment does not say enough.
    """

    def __init__(self, uri: str) -> None:
        import obstore  # only those who read elsewhere pay for its import

        self._obstore: Any = obstore
        self.uri = plain_uri(uri).rstrip("/")
        self._is_web = urlsplit(uri).scheme in ("http", "https")
        allowed = "a number of seconds, at most those of a day"
        self._seconds = number_chosen("DPGRAPH_PATIENCE", 60.0, allowed, lambda given: 0 < given <= 86_400)
        self._store = self._connect(uri, self._seconds, _MOST_TRIES)
        self._writer = None if self._is_web else self._connect(uri, _UPLOAD, 0)

    def names(self, folder: str = "") -> list[str]:
        """Return all names, or those below a folder."""
        if self._is_web:
            raise StoreError(self.uri, "a web server cannot be listed")
        inside = f"{require_name(folder)}/" if folder else None
        batches = self._ask(self.uri, lambda: [*self._obstore.list(self._store, inside)])
        return sorted(found["path"] for batch in batches for found in batch)

    def size(self, name: str) -> int:
        """Return the number of bytes of an object; the first is asked for, as a signed link may allow GET alone."""
        answer = self._get(name, 0, 1)
        return 0 if answer is None else int(answer.meta["size"])

    def read(self, name: str, start: int = 0, length: int | None = None) -> bytes:
        """Return `length` bytes of an object, or fewer at its end, in one request if none fails."""
        found, place, failures = bytearray(), self._place(name), 0
        end = time.monotonic() + self._seconds
        while length is None or len(found) < length:
            had = len(found)
            answer = self._get(name, start + had, None if length is None else length - had)
            if answer is None:
                break
            whole = had + answer.range[1] - answer.range[0]
            try:
                for chunk in answer.stream(_CHUNK):
                    found += chunk
                    if len(found) >= (whole if length is None else min(whole, length)):
                        break  # of a server that cannot send ranges, or does not stop
                del found[whole:]
                break
            except Exception:
                failures = failures + 1 if len(found) == had else 1
            if time.monotonic() > end:
                raise StoreError(place, self._too_slow())
            if failures == _MOST_TRIES:
                raise StoreError(place, "its server's answer was cut short, also when asked again")
            _pause(failures)
        return bytes(found if length is None else found[:length])

    def create(self, name: str, content: bytes) -> bytes:
        """Put an object under a free name; after an error, the name is read, and only if it is free tried again."""
        place = self._place(name)
        if self._is_web:
            raise StoreError(place, "a web server is only read: publish to a folder or an object store")
        for failures in range(1, _MOST_TRIES + 1):
            try:
                self._obstore.put(self._writer, name, content, mode="create", use_multipart=False)
            except Exception as error:
                try:
                    return self.read(name)
                except FileNotFoundError:
                    told = self._judge(place, error, writing=True)
            else:
                return content
            if not isinstance(told, _PassingError):
                break
            _pause(failures)
        raise told

    def delete(self, name: str) -> None:
        """Remove an object."""
        place = self._place(name)
        if self._is_web:
            raise StoreError(place, "a web server is only read: publish to a folder or an object store")
        with contextlib.suppress(FileNotFoundError):
            self._ask(place, lambda: self._obstore.delete(self._store, name))

    def _get(self, name: str, start: int, length: int | None) -> Any:
        """Return an answer that begins at a position; None if that is the end."""
        wanted = {"offset": start} if length is None else (start, start + length)
        options = {"range": wanted} if start or length is not None else None
        try:
            return self._ask(self._place(name), lambda: self._obstore.get(self._store, name, options=options))
        except _OutOfRangeError:
            return None
        except _NoRangesError:
            if start:
                raise
            return self._ask(self._place(name), lambda: self._obstore.get(self._store, name))

    def _ask(self, place: str, ask: Callable[[], T]) -> T:
        """Return the answer to a request of obstore's, or raise our error.

        Obstore asks again after an answer that says so; here it is asked again where a connection was lost.
        """
        end, failures = time.monotonic() + self._seconds, 0
        while True:
            try:
                return ask()
            except Exception as error:
                told, failures = self._judge(place, error), failures + 1
                if not isinstance(told, _LostError) or failures == _MOST_TRIES or time.monotonic() > end:
                    raise told from None
            _pause(failures)

    def _connect(self, uri: str, seconds: float, n_retries: int) -> Any:
        """Return obstore's own store; TLS is decided on here, whatever the environment says."""
        from obstore import store

        parts = urlsplit(uri)
        if self._is_web:
            if parts.scheme != "https" and not is_loopback(parts.hostname):
                raise StoreError(self.uri, "without TLS anybody on the way could change it: give an https:// address")
            if not parts.hostname or "@" in parts.netloc or parts.fragment or not _PLAIN.fullmatch(uri):
                raise StoreError(self.uri, "it must be https://HOST/FOLDER, in ASCII, and without a user")
            is_plain = parts.scheme == "http"
        else:
            if not parts.netloc or "@" in parts.netloc or parts.query or parts.fragment:
                must = f"it must be {parts.scheme}://BUCKET/PREFIX, without anything behind that"
                raise StoreError(repr(plain_uri(uri)), must)
            is_plain = self._is_on_this_machine(parts.scheme)

        whole, pause = datetime.timedelta(seconds=seconds), datetime.timedelta(seconds=_FIRST_PAUSE)
        options: Any = {
            "allow_http": is_plain,
            "allow_invalid_certificates": False,
            "connect_timeout": min(whole, datetime.timedelta(seconds=10)),
            "timeout": whole,
        }
        backoff = {"init_backoff": pause, "max_backoff": datetime.timedelta(seconds=_LONGEST_PAUSE), "base": 2}
        retries: Any = {"max_retries": n_retries, "retry_timeout": whole, "backoff": backoff}
        try:
            if self._is_web:
                headers = {"accept-encoding": "identity", "cache-control": "no-cache", "user-agent": "dpgraph"}
                options["default_headers"] = headers
                return store.HTTPStore.from_url(uri, client_options=options, retry_config=retries)
            make: Any = {"s3": store.S3Store, "gs": store.GCSStore, "az": store.AzureStore}[parts.scheme]
            prefix = parts.path.strip("/") or None
            return make(parts.netloc, prefix=prefix, client_options=options, retry_config=retries)
        except Exception:  # its message may quote the environment
            raise StoreError(
                self.uri, "the environment's settings for this kind of storage are incomplete or wrong"
            ) from None

    def _is_on_this_machine(self, scheme: str) -> bool:
        """Return True if the server named by the environment is here and speaks plain HTTP; refuse one elsewhere."""
        named = [os.environ[name] for name in _ENDPOINTS[scheme] if os.environ.get(name)]
        try:
            plain = [each for each in named if urlsplit(each).scheme != "https"]
            is_elsewhere = any(not is_loopback(urlsplit(each).hostname) for each in plain)
        except ValueError:
            variables = " or ".join(_ENDPOINTS[scheme])
            raise StoreError(self.uri, f"the address of its server in {variables} is none: correct it") from None
        if is_elsewhere:
            raise StoreError(self.uri, "its server is to be asked without TLS: give an https:// endpoint")
        emulated = scheme == "az" and os.environ.get("AZURE_STORAGE_USE_EMULATOR", "").lower() in ("1", "true")
        return emulated or bool(plain)

    def _judge(self, place: str, error: Exception, *, writing: bool = False) -> Exception:
        """Return the error to raise instead, without a word of the request."""
        said, kind = str(error), type(error).__name__
        found = _STATUS.search(said)
        status = int(found.group(1)) if found else None
        server = "its server" if self._is_web else "the storage"
        if isinstance(error, FileNotFoundError) or status in (404, 410):
            if not self._is_web and (writing or place == self.uri or any(each in said for each in _NO_BUCKET)):
                return StoreError(place, "there is no such bucket or container")
            return missing(place)
        if kind == "NotSupportedError":
            return _NoRangesError(place, "its server cannot send a range of a file (RFC 9110, section 14)")
        if status == _OUT_OF_RANGE:
            return _OutOfRangeError()
        if kind in ("PermissionDeniedError", "UnauthenticatedError"):
            refusal = "refuses to give it" if self._is_web else "says that these credentials have no right to it"
            return StoreError(place, f"{server} {refusal} (status {status})")

        if status is not None:
            told = f"{server} answered with status {status}"
            if status in _AGAIN or status >= http.client.INTERNAL_SERVER_ERROR:
                return _PassingError(place, f"{told}, also when asked again")
            return StoreError(place, told)
        if "TimedOut" in said:
            return _PassingError(place, self._too_slow())
        for word, sentence in _FAILURES.items():
            if word in said:
                return _PassingError(place, sentence)
        return _LostError(place, f"{server} did not answer, also when asked again")

    def _too_slow(self) -> str:
        return (
            f"its server is too slow: it is given {self._seconds:g} seconds for at most 4 MiB; try again later, or set "
            f"DPGRAPH_PATIENCE to more than {self._seconds:g}"
        )

    def _place(self, name: str) -> str:
        return f"{self.uri}/{require_name(name)}"


class _OutOfRangeError(Exception):
    """There is nothing at the position that was asked for."""


class _NoRangesError(StoreError):
    """The server sends whole contents only."""


class _PassingError(StoreError):
    """What was asked for may be had a little later."""


class _LostError(_PassingError):
    """There was no answer, or it was cut short."""


def _pause(failures: int) -> None:
    """Wait for longer after each failure."""
    time.sleep(min(_LONGEST_PAUSE, _FIRST_PAUSE * 2**failures))
