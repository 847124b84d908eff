"""From the place that a user names to the ledger that is there."""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path
from urllib.parse import urlsplit

from dp_bundle.files.opening import open_store
from dp_bundle.files.ownership import home_folder
from dp_bundle.files.places import is_uri
from dp_publish.ledger.ledger import Ledger
from dp_publish.ledger.shared_log import SharedLog


def open_ledger(place: str | Path | None = None) -> Ledger:
    """Return the ledger at a place.

    Parameters
    ----------
    place : str or Path, optional
        The user's own ledger by default; otherwise a ledger of objects under a URI (`s3://BUCKET/PREFIX`, `gs://`,
        `az://`, `file://`) or in a folder, whose path ends in a slash unless it exists, or an SQLite file.

    Raises
    ------
    ParameterError, StoreError
        There is no such kind of place.
    """
    if place is None or place == "":
        return Ledger()
    text = str(place)
    if is_uri(text) or text.endswith("/") or Path(text).is_dir():
        store = open_store(text)
        return Ledger(log=SharedLog(store, _copy_of(_one_spelling(store.uri), store.uri)))
    path, own = Path(os.path.realpath(text)), Path(os.path.realpath(Ledger().path))
    if path == own:
        return Ledger()
    return Ledger(path, _copy_of(str(path), str(Path(text).absolute())))


def _one_spelling(uri: str) -> str:
    """Return the place of a store, as it is written whatever links lead there; in buckets there are none."""
    parts = urlsplit(uri)
    return f"{parts.scheme}://{parts.netloc}/{parts.path.strip('/')}" if is_uri(uri) else os.path.realpath(uri)


def _copy_of(place: str, spelled: str) -> Path:
    """Return where this machine keeps the lines that it has seen of the ledger at a place.

    Earlier versions named the copy after the place as it was spelled.
    """
    copy, earlier = (
        home_folder() / "keys" / f"ledger-{hashlib.sha256(each.encode()).hexdigest()[:16]}.log"
        for each in (place, spelled)
    )
    if copy != earlier and not copy.exists():
        with contextlib.suppress(FileNotFoundError):
            earlier.rename(copy)
    return copy
