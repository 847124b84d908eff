"""From a path or URI to the store behind it."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from urllib.parse import urlsplit

from dp_bundle.base.errors import ParameterError, StoreError
from dp_bundle.files.pace import Pace
from dp_bundle.files.places import Store, located

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
