"""Kernels compiled by numba, and their cache: those of a graph take five to ten seconds of CPU time to compile.

The cache is in the folder that NUMBA_CACHE_DIR names, else in the code's own folder if that is writable, else in the
user's cache folder, else in a private folder under the system's temporary one. What lies there is unpickled and run, so
a folder that others could write to, or that has a file of theirs, is passed over for the next one. So is what a
settings file in the current folder says of it. If none can be used, every run compiles. A cache in the code's folder
also serves users who can only read it: one run by whoever installed the package compiles for everybody. A damaged cache
entry is compiled again, and a full disk only prevents caching.
"""

import contextlib
import importlib
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

from dp_bundle.base.machine import cache_folder

FAST = {"reassoc", "contract"}  # sums in any order, and products that are added without rounding in between
_KERNELS = (".nbi", ".nbc")
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
F = TypeVar("F", bound=Callable[..., Any])
_listeners: list[Callable[[bool], None]] = []
_unkept: list[str] = []


def before_compiling(tell: Callable[[bool], None]) -> None:
    """Set the function to call once when a kernel is about to be compiled; it is told if the result will be cached."""
    _listeners[:] = [tell]


def njit(*, cache: bool = True, **options: Any) -> Callable[[F], F]:
    """Compile a function by `numba.njit`, with its options, when it is first called, and cache the result.

    It runs without the interpreter's lock.
    """
    import numba  # slow to import: only modules of kernels pay for it, which commands import when needed

    def decorate(function: F) -> F:
        kernel = numba.njit(nogil=True, **options)(function)
        if cache and hasattr(kernel, "enable_caching"):  # not where NUMBA_DISABLE_JIT is set
            _keep(kernel, Path(function.__code__.co_filename))
            kernel._cache = _Kept(kernel._cache, _shared_cache(function))
        return cast(F, kernel)

    return decorate


class _Kept:
    """A numba cache that never fails: unreadable entries are compiled again, unwritable ones are dropped."""

    def __init__(self, own: Any, shared: Any) -> None:
        self._own = own
        self._shared = shared

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)

    def load_overload(self, signature: Any, context: Any) -> Any:
        """Return a compiled kernel, or None."""
        if self._shared is not None:
            with contextlib.suppress(Exception):
                found = self._shared.load_overload(signature, context)
                if found is not None:
                    return found
        try:
            found = self._own.load_overload(signature, context)
        except Exception:  # anything that pickle and LLVM raise for a truncated file
            with contextlib.suppress(Exception):
                self._own.flush()
            found = None
        if found is None and _listeners:
            _listeners.pop()(not _unkept)
        return found

    def save_overload(self, signature: Any, compiled: Any) -> None:
        """Cache a compiled kernel if the disk has room."""
        with contextlib.suppress(OSError):
            self._own.save_overload(signature, compiled)


def _keep(kernel: Any, code: Path) -> None:
    """Let numba keep a kernel in the first place that nobody else can change, of those that it can write to."""
    for find in (_chosen_folder, lambda: cache_folder() / "kernels", _temporary_folder):
        try:
            with _cache_folder(find()):
                kernel.enable_caching()
        except (OSError, RuntimeError):  # numba found none, or this user has no such folder
            continue
        if _is_ours(Path(kernel._cache.cache_path), code):
            return
    kernel._cache = importlib.import_module("numba.core.caching").NullCache()
    _unkept.append(kernel.__name__)


def _chosen_folder() -> Path | None:
    """Return the folder that the user named for kernels; None to have numba choose: the code's own, or the user's."""
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    return Path(chosen).absolute() if chosen else None


@cache
def _is_ours(folder: Path, code: Path) -> bool:
    """Return True if none but this user, root and whoever owns the code could have put anything into a folder.

    That is a question of all folders that it is in, by name and by where links lead, and of what it holds already.
    """
    trusted = {0, os.geteuid()}
    try:
        trusted.add(code.stat().st_uid)
        real = folder.resolve(strict=True)
        for place in dict.fromkeys((real, *real.parents, *folder.absolute().parents)):
            status = place.stat()
            shared = place != real and status.st_mode & stat.S_ISVTX  # where nobody can rename the files of others
            if status.st_uid not in trusted or (status.st_mode & _OTHERS_WRITE and not shared):
                return False
        files = [entry.stat(follow_symlinks=False) for entry in os.scandir(real) if entry.name.endswith(_KERNELS)]
    except OSError:
        return False
    return all(
        stat.S_ISREG(file.st_mode) and file.st_uid in trusted and not file.st_mode & _OTHERS_WRITE for file in files
    )


@contextlib.contextmanager
def _cache_folder(folder: Path | None) -> Iterator[None]:
    """Make numba cache in this folder, or in one of its own choice, what is decorated inside the block."""
    config: Any = importlib.import_module("numba.core.config")
    before = config.CACHE_DIR
    config.CACHE_DIR = str(folder or "")
    try:
        yield
    finally:
        config.CACHE_DIR = before


def _temporary_folder() -> Path:
    """Return a folder that only this user can write to: cached kernels are executed."""
    folder = Path(tempfile.gettempdir()) / f"dpgraph-kernels-{os.geteuid()}"
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o077:
        raise PermissionError(f"{folder} is not this user's alone")
    return folder


def _shared_cache(function: Callable[..., Any]) -> Any:
    """Return a read-only cache in the code's own folder, if that holds kernels and is not writable."""
    code = Path(function.__code__.co_filename)
    folder = code.parent / "__pycache__"
    if os.access(folder, os.W_OK) or not any(folder.glob("*.nbi")) or not _is_ours(folder, code):
        return None
    try:
        caching = importlib.import_module("numba.core.caching")
        in_tree = getattr(caching, "InTreeCacheLocator", None) or caching._InTreeCacheLocator
        read_only = type("ReadOnly", (in_tree,), {"ensure_cache_path": lambda _: None})
        layout = type("Layout", (caching.CompileResultCacheImpl,), {"_locator_classes": [read_only]})
        return type("Shared", (caching.FunctionCache,), {"_impl_class": layout})(function)
    except Exception:  # another version of numba: compile instead
        return None
