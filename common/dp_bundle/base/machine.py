"""Memory that a piece of work may take: sizes in words and in bytes, what this machine has to give, and the refusal.

What work will need is known from the shape of its table before it starts. So nobody's file, however soundly signed,
makes a machine swap or the system end its processes.

The cores that this process may use, the machine's own address, and where it keeps what can be lost.

Kernels compiled by numba, and their cache: those of a graph take five to ten seconds of CPU time to compile.

The cache is in the folder that NUMBA_CACHE_DIR names, else in the code's own folder if that is writable. Failing these
it is in the user's cache folder, or in a private folder under the system's temporary one. What lies there is unpickled
and run. So a folder that others could write to, or that has a file of theirs, is passed over. So is what a settings
file in the current folder says of it. If none can be used, every run compiles. A cache in the code's folder also serves
users who can only read it: one run by whoever installed the package compiles for everybody. A damaged cache entry is
compiled again, and a full disk only prevents caching.
"""

import contextlib
import importlib
import os
import re
import stat
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

from dp_bundle.base.errors import MemoryLimitError, ParameterError
from dp_bundle.base.quoting import format_size


def count_cores() -> int:
    """Return the number of cores that this process may use, which may be fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def is_loopback(host: str | None) -> bool:
    """Return True for this machine's own address."""
    import ipaddress  # takes longer to import than the rest of this module

    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return False


def cache_folder() -> Path:
    """Return the folder of downloads: `dpgraph` in `$XDG_CACHE_HOME`, or where this system keeps what can be lost."""
    from platformdirs import user_cache_path

    chosen = os.environ.get("XDG_CACHE_HOME")
    return Path(chosen, "dpgraph") if chosen else user_cache_path("dpgraph", appauthor=False)


_WORTH_TELLING = 2 * 10**9  # bytes
LIMIT: ContextVar[int | None] = ContextVar("LIMIT", default=None)  # bytes that a command's work may take
_SIZE = re.compile(r"\s*([0-9]{1,6}(?:\.[0-9]{1,6})?)\s*([kmgt])(i?)b?\s*", re.IGNORECASE)
_POWERS = {"k": 1, "m": 2, "g": 3, "t": 4}
_CONTROLLERS = {  # of control groups: where their folders are, and the file with the limit, in versions 2 and 1
    "": ("sys/fs/cgroup", "memory.max"),
    "memory": ("sys/fs/cgroup/memory", "memory.limit_in_bytes"),
}


def parse_size(text: str) -> int:
    """Return the bytes that a size such as `800MB`, `4G` or `1.5GiB` stands for; `format_size` is the inverse.

    Raises
    ------
    ParameterError
        It is no such size, or less than a kilobyte.
    """
    found = _SIZE.fullmatch(text)
    number, unit, binary = found.groups() if found is not None else ("0", "k", "")
    n_bytes = int(float(number) * (1024 if binary else 1000) ** _POWERS[unit.lower()])
    if n_bytes < 1000:
        raise ParameterError("--max-memory", "a size with its unit, such as 800MB or 4GB", text)
    return n_bytes


def usable_memory(system: Path = Path("/")) -> int:
    """Return the bytes of memory that this process can have: the least of what is available and of its limits.

    Parameters
    ----------
    system : Path
        The folder that holds `proc` and `sys`.
    """
    return min([_available(system), *_limits_of_groups(system), *_limits_of_process()])


def require_memory(needed: int, limit: int | None, work: str, remedy: str = "use fewer columns") -> int:
    """Return the bytes that work needs, if it may have as many.

    Parameters
    ----------
    needed : int
        Bytes.
    limit : int, optional
        Bytes; by default `LIMIT`, or what the machine can give.
    work : str
        What it is for, and how large that is, as the beginning of a sentence: "learning from 8,000 columns".
    remedy : str
        What else could be done than to allow more memory; nothing, if empty.

    Raises
    ------
    MemoryLimitError
        It needs more.
    """
    limit = LIMIT.get() if limit is None else limit
    allowed = usable_memory() if limit is None else limit
    if needed > allowed:
        raise MemoryLimitError(work, needed, allowed, from_machine=limit is None, remedy=remedy)
    return needed


def describe_need(needed: int) -> list[str]:
    """Return the sentence that announces work that may need so many bytes, where they are many."""
    return [f"note: this may need {format_size(needed)} of memory"] if needed >= _WORTH_TELLING else []


def _available(system: Path) -> int:
    """Return the memory that the system can give without swapping, or where it does not say, all that it has."""
    with contextlib.suppress(OSError, ValueError):
        found = re.search(r"^MemAvailable:\s*([0-9]+) kB$", (system / "proc/meminfo").read_text(), re.MULTILINE)
        if found is not None:
            return int(found[1]) * 1024
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _limits_of_groups(system: Path) -> Iterator[int]:
    """Yield the limits of this process's control groups, and of those that they are in."""
    try:
        lines = (system / "proc/self/cgroup").read_text().splitlines()
    except (OSError, ValueError):
        return
    for line in lines:
        _, names, inner = [*line.split(":", 2), "", ""][:3]
        for root, name in (_CONTROLLERS[each] for each in names.split(",") if each in _CONTROLLERS):
            place = system / root / inner.lstrip("/")  # inside a container the outermost may be its own
            for folder in (place, *place.parents):
                if folder.is_relative_to(system / root):
                    with contextlib.suppress(OSError, ValueError):  # there is none, or it says "max"
                        yield int((folder / name).read_text())


def _limits_of_process() -> Iterator[int]:
    """Yield the limits that a shell sets with ulimit."""
    import resource

    for limit in (resource.RLIMIT_AS, resource.RLIMIT_DATA):
        soft, _ = resource.getrlimit(limit)
        if soft != resource.RLIM_INFINITY:
            yield soft


def forbid_cores() -> None:
    """Let no core of this process be dumped, whatever the system's limit, where there are such limits."""
    with contextlib.suppress(ImportError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


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
    import tempfile  # which few have a use for

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
