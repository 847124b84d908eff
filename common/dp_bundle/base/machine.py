"""Memory that a piece of work may take: sizes in words and in bytes, what this machine has to give, and the refusal.

What work will need is known from the shape of its table before it starts, so that nobody's file, however soundly
signed, makes a machine swap or the system end its processes.

The cores that this process may use, the machine's own address, and where it keeps what can be lost.
"""

import contextlib
import os
import re
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path

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
