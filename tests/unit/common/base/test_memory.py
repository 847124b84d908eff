"""Sizes in words, what a machine has to give, and the refusal of what needs more."""

import resource
from pathlib import Path

import pytest

from dp_bundle.base import machine as memory
from dp_bundle.base.errors import MemoryLimitError, ParameterError
from dp_bundle.base.machine import describe_need, format_size, parse_size, require_memory, usable_memory


@pytest.mark.parametrize(
    ("text", "n_bytes"),
    [("800MB", 800e6), ("4G", 4e9), ("1.5GiB", 1.5 * 2**30), (" 2 tb ", 2e12), ("1kB", 1e3), ("64KiB", 2**16)],
)
def test_sizes_are_read(text: str, n_bytes: float) -> None:
    """Decimal and binary units, in either case, with or without the B."""
    assert parse_size(text) == n_bytes


@pytest.mark.parametrize("text", ["", "4", "4B", "0MB", "-1GB", "1e9GB", "nan MB", "9999999TB", "1GBB", "½GB", "1.GB"])
def test_what_is_no_size_is_refused(text: str) -> None:
    """A number without a unit could mean anything."""
    with pytest.raises(ParameterError, match=r"--max-memory must be a size with its unit, such as 800MB or 4GB"):
        parse_size(text)


@pytest.mark.parametrize("n_bytes", [1, 999_999, 10**6, 9_949_999_999, 9_950_000_001, 123_456_789_012, 10**15])
def test_a_printed_size_is_enough_when_it_is_typed(n_bytes: int) -> None:
    """Sizes are rounded up, by less than a tenth, so that the size in a refusal is one that lifts it."""
    assert n_bytes <= parse_size(format_size(n_bytes)) <= max(1.1 * n_bytes, 1000)


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder like a machine's, with 8 GB available, and no limits of the process."""
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/meminfo").write_text("MemTotal: 16000000 kB\nMemAvailable:    8000000 kB\n")
    return tmp_path


def _limit(system: Path, folder: str, name: str, text: str) -> None:
    (system / folder).mkdir(parents=True, exist_ok=True)
    (system / folder / name).write_text(text)


def test_what_is_available_counts(system: Path) -> None:
    """Without control groups, it is what the kernel can give without swapping."""
    assert usable_memory(system) == 8_000_000 * 1024


@pytest.mark.parametrize(
    ("line", "folder", "name"),
    [
        ("0::/job/inner\n", "sys/fs/cgroup/job/inner", "memory.max"),
        ("0::/job/inner\n", "sys/fs/cgroup/job", "memory.max"),
        ("0::/../elsewhere\n", "sys/fs/cgroup", "memory.max"),
        ("3:cpu,memory:/job\n1:name=x:/y\n", "sys/fs/cgroup/memory/job", "memory.limit_in_bytes"),
        ("3:memory:/job\n", "sys/fs/cgroup/memory", "memory.limit_in_bytes"),
    ],
)
def test_limits_of_control_groups_count(line: str, folder: str, name: str, system: Path) -> None:
    """Those of the process's own group, of the groups around it, and in containers of the outermost."""
    (system / "proc/self/cgroup").write_text(line)
    _limit(system, folder, name, "3000000000\n")
    assert usable_memory(system) == 3_000_000_000
    _limit(system, folder, name, "max\n")
    assert usable_memory(system) == 8_000_000 * 1024


def test_limits_of_the_shell_count(system: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What `ulimit -v` sets."""
    monkeypatch.setattr(resource, "getrlimit", lambda which: (10**9 if which == resource.RLIMIT_AS else -1, -1))
    assert usable_memory(system) == 10**9


def test_an_unusual_machine_has_all_that_it_has(system: Path) -> None:
    """Where nothing says what is available, the limit is the memory that there is."""
    (system / "proc/meminfo").unlink()
    assert usable_memory(system) > 10**8


def test_more_than_may_be_had_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sentence says what is needed, what there is, and how to lift the limit."""
    assert require_memory(10**9, 2 * 10**9, "work") == 10**9
    with pytest.raises(MemoryLimitError, match=r"allow it with --max-memory 3\.0GB") as typed:
        require_memory(3 * 10**9, 2 * 10**9, "learning")
    assert (typed.value.needed, typed.value.allowed, typed.value.work) == (3 * 10**9, 2 * 10**9, "learning")
    monkeypatch.setattr(memory, "usable_memory", lambda: 10**9)
    with pytest.raises(MemoryLimitError, match=r"this machine can give 1\.0GB"):
        require_memory(3 * 10**9, None, "learning")


def test_much_is_announced() -> None:
    """Work that takes gigabytes is begun with a word about it."""
    assert describe_need(10**9) == []
    assert describe_need(3 * 10**9) == ["note: this may need 3.0GB of memory"]
