"""Object stores (S3, Google Cloud Storage, Azure Blob Storage) by obstore, which the extra `cloud` installs.

Every content goes up in one conditional PUT ("If-None-Match: *" on S3), because that is the request that a store can
refuse if the name is taken; S3 takes 5 GiB so, and the largest part of a bundle has 1 GiB. Retrying is this room's
business alone, so that an error of a PUT is never followed by another before the name was read.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from dp_bundle.base.errors import StoreError
from dp_bundle.base.machine import is_loopback
from dp_bundle.files.patience import Pace, PassingError, patiently, pause, read_patiently
from dp_bundle.files.places import missing, plain_uri, require_name

if TYPE_CHECKING:
    from obstore.store import AzureStore, GCSStore, S3Store

T = TypeVar("T")

_CHUNK = 2**12  # of an answer; what comes after the last whole one is lost with the connection
_LISTED = 300  # bytes of a list for each name
_MOST_TRIES = 8
_UPLOAD = 1800.0  # seconds
_NO_BUCKET = ("<Code>NoSuchBucket</Code>", "<Code>ContainerNotFound</Code>")  # of S3 and Google, and of Azure
_ENDPOINTS = {  # variables that name another server than the provider's own
    "s3": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
    "gs": (),
    "az": ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT", "AZURITE_BLOB_STORAGE_URL"),
}
_STATUS = re.compile(r"status code: (\d{3})")
_AGAIN = ("408", "409", "425", "429")  # of the answers below 500, those that pass
_OUT_OF_RANGE = "416"


class BucketStore:
    """Contents in objects whose names begin with a prefix; `Store` says the rest.

    Parameters
    ----------
    uri : str
        `s3://BUCKET/PREFIX`, `gs://BUCKET/PREFIX` or `az://CONTAINER/PREFIX`. Credentials come from the environment, as
        obstore documents.
    pace : Pace, optional
        That of all that is read together; by default, each transfer has one of its own.

    Raises
    ------
    StoreError
        obstore is not installed, or the environment does not say enough.
    """

    def __init__(self, uri: str, pace: Pace | None = None) -> None:
        parts = urlsplit(uri)
        self.uri = plain_uri(uri).rstrip("/")
        if not parts.netloc or "@" in parts.netloc or parts.query or parts.fragment:
            raise StoreError(
                repr(plain_uri(uri)), f"it must be {parts.scheme}://BUCKET/PREFIX, without anything behind that"
            )
        try:
            import obstore
        except ImportError as error:
            raise StoreError(self.uri, 'this needs obstore: pip install "obstore>=0.12"') from error
        self._obstore: Any = obstore
        self._pace = pace
        connect = partial(self._connect, parts.scheme, parts.netloc, parts.path.strip("/"))
        self._store = connect(Pace().leeway)  # what is cut off by the end of that time goes on where it was
        self._writer = connect(_UPLOAD)

    def names(self, folder: str = "") -> list[str]:
        """Return all names, or those below a folder."""
        inside = f"{require_name(folder)}/" if folder else None

        def listed(pace: Pace) -> list[str]:
            found: list[str] = []
            for batch in self._obstore.list(self._store, inside):
                found += [each["path"] for each in batch]
                pace.received(len(batch) * _LISTED)
            return found

        return sorted(self._ask(self.uri, listed))

    def size(self, name: str) -> int:
        """Return the number of bytes of an object."""

        def stated(_: Pace) -> int:
            try:
                return int(self._obstore.head(self._store, name)["size"])
            except FileNotFoundError:
                # Only the content of an answer tells whether there is a bucket, and HEAD has none.
                self._obstore.get(self._store, name, options={"range": (0, 1)})
                raise

        return self._ask(self._place(name), stated)

    def read(self, name: str, start: int = 0, length: int | None = None) -> bytes:
        """Return `length` bytes of an object, or fewer at its end, in one request if none fails."""
        place, pace = self._place(name), self._pace or Pace()

        def chunks(position: int, size: int | None) -> Iterator[bytes]:
            wanted = {"offset": position} if size is None else (position, position + size)
            try:
                answer = self._obstore.get(self._store, name, options={"range": wanted} if position or size else None)
                expected = answer.range[1] - answer.range[0]
                for chunk in answer.stream(_CHUNK):
                    expected -= len(chunk)
                    yield bytes(chunk)
            except Exception as error:
                if _status(error) == _OUT_OF_RANGE:
                    return
                raise self._judge(place, error) from None
            if expected > 0:
                raise PassingError("its answer was cut short")

        return b"" if length == 0 else read_patiently(place, chunks, start, length, pace)

    def create(self, name: str, content: bytes) -> bytes:
        """Put an object under a free name; after an error, the name is read, and only if it is free tried again."""
        place = self._place(name)
        for failures in range(1, _MOST_TRIES + 1):
            try:
                self._obstore.put(self._writer, name, content, mode="create", use_multipart=False)
            except Exception as error:
                try:
                    return self.read(name)
                except FileNotFoundError:
                    last = self._judge(place, error, writing=True)
            else:
                return content
            if isinstance(last, StoreError):
                raise last
            pause(failures)
        raise StoreError(place, f"{last}, also when asked again")

    def delete(self, name: str) -> None:
        """Remove an object."""

        def remove(_: Pace) -> None:
            with contextlib.suppress(FileNotFoundError):
                self._obstore.delete(self._store, name)

        self._ask(self._place(name), remove)

    def _ask(self, place: str, ask: Callable[[Pace], T]) -> T:
        """Return the answer to a request of obstore's, which is sent again after failures that may pass."""
        pace = self._pace or Pace()

        def attempt() -> T:
            try:
                return ask(pace)
            except Exception as error:
                raise self._judge(place, error) from None

        return patiently(place, attempt, pace)

    def _connect(self, scheme: str, bucket: str, prefix: str, seconds: float) -> S3Store | GCSStore | AzureStore:
        """Return obstore's own store; TLS is decided on here, whatever the environment says."""
        from obstore import store

        settings: dict[str, Any] = {
            "prefix": prefix or None,
            "client_options": {
                "allow_http": self._is_on_this_machine(scheme),
                "allow_invalid_certificates": False,
                "connect_timeout": datetime.timedelta(seconds=min(10.0, seconds)),
                "read_timeout": datetime.timedelta(seconds=min(300.0, seconds / 2)),
                "timeout": datetime.timedelta(seconds=seconds),
            },
            "retry_config": {"max_retries": 0, "retry_timeout": datetime.timedelta(0)},
        }
        make = {"s3": store.S3Store, "gs": store.GCSStore, "az": store.AzureStore}[scheme]
        try:
            return make(bucket, **settings)  # type: ignore[no-any-return]
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
        """Return the error to raise instead, without a word of the answer or request, where credentials may be."""
        status, kind = _status(error), type(error).__name__
        if isinstance(error, FileNotFoundError) or status == "404":
            if writing or place == self.uri or any(each in str(error) for each in _NO_BUCKET):
                return StoreError(place, "there is no such bucket or container")
            return missing(place)
        if kind in ("PermissionDeniedError", "UnauthenticatedError") or status in ("401", "403"):
            return StoreError(place, "the storage says that these credentials have no right to it")
        if status is None:
            return PassingError("the storage did not answer, or not to the end")
        if status in _AGAIN or status >= "500" or kind in ("AlreadyExistsError", "PreconditionError"):
            return PassingError(f"the storage answered with status {status}")
        return StoreError(place, f"the storage answered with status {status}")

    def _place(self, name: str) -> str:
        return f"{self.uri}/{require_name(name)}"


def _status(error: Exception) -> str | None:
    """Return the status of an answer that obstore did not take, of which it speaks in a sentence only."""
    found = _STATUS.search(str(error))
    return found.group(1) if found else None
