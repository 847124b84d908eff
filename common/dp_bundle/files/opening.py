"""From a path or URI to the store behind it, or to one content as a binary file that is never kept on a disk."""

from __future__ import annotations

import io
import os
import secrets
from pathlib import Path
from urllib.parse import urlsplit

from dp_bundle.base.errors import ParameterError, StoreError
from dp_bundle.files.patience import Pace
from dp_bundle.files.places import RemotePath, Store, located
from dp_bundle.files.windows import RangeReader

_AT_ONCE = 2**23  # bytes of a request, where a file is read from its start to its end
_SCHEMES = "a folder, file://, s3://, gs://, az://, or https:// to read"


def open_store(place: str | os.PathLike[str], pace: Pace | None = None) -> Store:
    """Return the store at a place; nothing is read or written yet.

    Parameters
    ----------
    place : str or PathLike
        A local folder, which may not exist yet, or a URI: `file:///FOLDER`, `s3://BUCKET/PREFIX`, `gs://BUCKET/PREFIX`,
        `az://CONTAINER/PREFIX`, or `https://HOST/FOLDER`, which is only read. Credentials come from the environment.
    pace : Pace, optional
        How slow all that is read of it may be, together; by default, each transfer has a pace of its own.

    Raises
    ------
    ParameterError
        There is no such kind of place.
    StoreError
        obstore is needed and not installed, or the environment does not say enough.
    """
    found = located(place)
    if isinstance(found, Path):
        from dp_bundle.files.local import FolderStore

        return FolderStore(found)
    scheme = urlsplit(found.uri).scheme
    if scheme in ("s3", "gs", "az"):
        from dp_bundle.files.buckets import BucketStore

        return BucketStore(found.uri, pace)
    if scheme in ("https", "http"):
        from dp_bundle.files.web import WebStore

        return WebStore(found.uri, pace)
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
            raise StoreError(store.uri, "this storage replaces objects although it was told not to: use another")
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
