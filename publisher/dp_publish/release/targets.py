"""The places where a bundle may go: a tar, a local folder, or an address elsewhere.

A tar is written without a name and gets its own in one step. For the other two, that tar is first made whole on this
machine. Its members are then put in place, the manifest last, and the tar is removed. Whatever interrupts that, the tar
is left, and `dp-bundle unpack` goes on with it. A member that is there already is compared, and none is replaced.
"""

import contextlib
import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import BinaryIO, TypeAlias

from dp_bundle.base.errors import BundleError, DpGraphError, ParameterError, StoreError
from dp_bundle.base.quoting import quote_path
from dp_bundle.bundle.opened import tar_beside
from dp_bundle.bundle.packing import unpack_bundle
from dp_bundle.bundle.reading import open_bundle
from dp_bundle.bundle.writing import MANIFEST_NAME
from dp_bundle.files.new_files import require_folder, require_names, whole_file
from dp_bundle.files.opening import open_store, require_create_only
from dp_bundle.files.places import RemotePath, located
from dp_bundle.files.tar import end_in_name
from dp_bundle.trust.judging import UnsafeTrustAnyone

_MOST = 2**25  # bytes of a manifest, and more


class TarTarget:
    """A tar that is not there yet.

    Attributes
    ----------
    path : Path or RemotePath
        The place of the bundle.
    spelled : str
        The same, as `choose_target` takes it from anywhere.
    tar : Path or RemotePath
        The tar itself, or the one that the folder packs to, beside which signatures are.
    folder : Path
        Where files without a name are made on the way.
    """

    def __init__(self, path: Path) -> None:
        self.path = self.tar = path
        self.folder, self.spelled = path.parent, str(path.absolute())

    def prepare(self) -> None:
        """Refuse a name that is taken, and a folder where no file can be given a name in one step; nothing is left.

        Raises
        ------
        DpGraphError, OSError
            It is.
        """
        self.require_free()
        require_names(self.folder)

    def require_free(self) -> None:
        """Refuse a name that is taken, or that no file can have; the system says so of a name that is too long, say."""
        try:
            os.lstat(self.path)
        except (FileNotFoundError, NotADirectoryError):
            require_folder(self.path)
        except ValueError as error:
            raise ParameterError("--out", "a name without a zero byte", str(self.path)) from error
        else:
            raise taken(self.path)

    def staging(self) -> AbstractContextManager[BinaryIO]:
        """Open a file without a name, which it gets when the block ends without an error."""
        return whole_file(self.path)

    def holds(self, manifest_sha256: str) -> bool:
        """Return True if the bundle with this manifest is in its place, whole."""
        return _is_bundle(self.path, manifest_sha256)

    def finish(self, manifest_sha256: str) -> bool:
        """Return whether it is there: a file that has no name yet is lost with its process."""
        return self.holds(manifest_sha256)


class MembersTarget:
    """A folder that is not there yet, here or elsewhere, with the methods and attributes of `TarTarget`.

    Its tar is made in this folder, or in that which holds the folder.
    """

    def __init__(self, path: Path | RemotePath) -> None:
        if isinstance(path, Path) and not end_in_name(path).name:
            raise ParameterError("--out", "a file or a folder that is not there yet", str(path))
        self.path = path
        self.spelled = f"{path.absolute()}/" if isinstance(path, Path) else path.uri
        self.tar = tar_beside(path)
        self._staged = TarTarget(self.tar if isinstance(self.tar, Path) else Path(self.tar.name))
        self.folder = self._staged.folder

    def prepare(self) -> None:
        """Refuse a place that is taken, and a storage that would replace what is there."""
        if isinstance(self.path, RemotePath) and self.path.name.endswith(".tar"):
            raise ParameterError("--out", "a URI without .tar, as a bundle elsewhere is a folder", str(self.path))
        self.require_free()
        self._staged.prepare()
        if isinstance(self.path, RemotePath):
            require_create_only(open_store(self.path.uri))

    def require_free(self) -> None:
        """Refuse a place where there is anything, and the name of a tar that is taken."""
        self._staged.require_free()
        if isinstance(self.path, RemotePath):
            is_free = not open_store(self.path.uri).names()
        else:
            is_free = not os.path.lexists(self.path)
        if not is_free:
            raise taken(self.path)

    @contextlib.contextmanager
    def staging(self) -> Iterator[BinaryIO]:
        """Open a file for the tar, and when the block ends, give it its name and put its members in place."""
        with self._staged.staging() as file:
            yield file
        self._unpack()

    def finish(self, manifest_sha256: str) -> bool:
        """Put the members of a whole tar in place, if there is one, and remove it."""
        is_made, is_held = self._staged.holds(manifest_sha256), self.holds(manifest_sha256)
        if is_made and not is_held:
            self._unpack()
        elif is_made:
            self._staged.path.unlink()
        return is_made or is_held

    def _unpack(self) -> None:
        """Put the members of the tar in place, and remove it."""
        tar = self._staged.path
        try:
            with open_bundle(tar, UnsafeTrustAnyone()) as bundle:
                unpack_bundle(bundle, self.path)
        except BaseException as error:
            again = f"dp-bundle unpack {quote_path(tar)} --out {quote_path(self.path)}"
            error.add_note(f"the bundle is whole at {quote_path(tar)}: `{again}` puts it in its place")
            raise
        with contextlib.suppress(OSError):
            tar.unlink()

    def holds(self, manifest_sha256: str) -> bool:
        """Return True if the bundle with this manifest is there; elsewhere, its manifest came after all else."""
        if isinstance(self.path, Path):
            return _is_bundle(self.path, manifest_sha256)
        try:
            manifest = open_store(self.path.uri).read(MANIFEST_NAME, 0, _MOST)
        except (OSError, StoreError):
            return False
        return hashlib.sha256(manifest).hexdigest() == manifest_sha256


Target: TypeAlias = TarTarget | MembersTarget


def choose_target(out: str | os.PathLike[str]) -> Target:
    """Return the target that a path or URI stands for; text that ends in a slash is a folder."""
    path = located(out)
    if isinstance(path, Path) and not (isinstance(out, str) and out.endswith("/")):
        return TarTarget(path)
    return MembersTarget(path)


def place(manifest_sha256: str, meant: Target, hidden: str, now: Target) -> Target | None:
    """Put a sealed bundle in its place, if it is not there yet, and return where it is; None if its file is gone.

    Parameters
    ----------
    manifest_sha256 : str
        By which it is known.
    meant : Target
        Where it was to go.
    hidden : str
        The hidden name of its tar, if it has one.
    now : Target
        Where it goes if it is only there yet.
    """
    if meant.finish(manifest_sha256):
        return meant
    try:
        with open(hidden, "rb") as file:  # noqa: PTH123  an empty name is none
            now.prepare()
            with now.staging() as new:
                shutil.copyfileobj(file, new)
    except FileNotFoundError:
        return None
    return now


def taken(path: Path | RemotePath) -> DpGraphError:
    """Return the error for a place where there is something."""
    what = "something" if isinstance(path, RemotePath) or os.path.isdir(path) else "a file"  # noqa: PTH112  an odd name is none
    return DpGraphError(f"there is {what} at {path} already, and releases are never replaced: give another --out")


def _is_bundle(path: Path, manifest_sha256: str) -> bool:
    try:
        with open_bundle(path, UnsafeTrustAnyone()) as bundle:
            return bundle.manifest_sha256 == manifest_sha256
    except BundleError:
        return False
