"""From a path or URI to the store behind it, or to one content as a binary file that is never kept on a disk.

A local folder is a store, too: every content is a file that appears whole, by a link, and is on the disk by then.
"""

import contextlib
import io
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from dp_bundle.base.errors import ParameterError, StoreError
from dp_bundle.base.quoting import quote_path
from dp_bundle.files.new_files import sync_folder, whole_file
from dp_bundle.files.places import RemotePath, Store, located, missing, require_name
from dp_bundle.files.windows import RangeReader, read_at, regular_file

_AT_ONCE = 2**23  # bytes of a request, where a file is read from its start to its end
_SCHEMES = "a folder, file://, s3://, gs://, az://, or https:// to read"


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
        from dp_bundle.files.remote_store import RemoteStore

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
