"""The tar: what is written is read, by us and by others, and nothing else is."""

import gzip
import io
import lzma
import os
import tarfile
from collections.abc import Callable, Iterator
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_bundle.base.errors import BundleFormatError
from dp_bundle.files.new_files import read_at
from dp_bundle.files.tar import HeldFile, Member, MemberReader, Members, scan_archive, write_archive

Contents = list[tuple[str, bytes]]
CONTENTS: Contents = [("a.json", b"one"), ("data/empty", b""), ("data/block", b"x" * 512), ("data/more", b"y" * 1300)]


@pytest.fixture
def memory() -> Iterator[int]:
    """Make an unnamed file to scan archives from."""
    descriptor = os.memfd_create("archive")
    yield descriptor
    os.close(descriptor)


def archive(contents: Contents) -> bytes:
    """Write an archive into memory."""
    file = io.BytesIO()
    write_archive(file, [(name, io.BytesIO(content)) for name, content in contents])
    return file.getvalue()


def load(descriptor: int, content: bytes) -> list[Member]:
    """Scan these bytes as an archive."""
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, content, 0)
    return scan(descriptor)


def scan(descriptor: int) -> list[Member]:
    """Scan an open file as an archive."""
    return scan_archive(partial(read_at, descriptor), os.fstat(descriptor).st_size, 100)


def held(descriptor: int) -> Members:
    """Return what reads members of an archive in this open file."""
    return Members(HeldFile(os.fdopen(descriptor, "rb", buffering=0, closefd=False)), "t")


@settings(max_examples=50)
@given(st.lists(st.binary(max_size=1100), max_size=25))
def test_any_contents_round_trip_and_are_a_tar(contents: list[bytes]) -> None:
    """Whatever the members hold, our reader and Python's tarfile both give it back."""
    pairs = [(f"data/part-{index:05d}", content) for index, content in enumerate(contents)]
    written = archive(pairs)
    descriptor = os.memfd_create("archive")
    try:
        members = load(descriptor, written)
        assert [(m.name, MemberReader(held(descriptor), m).readall()) for m in members] == pairs
        assert [b"".join(MemberReader(held(descriptor), m).chunks(100)) for m in members] == contents
    finally:
        os.close(descriptor)
    with tarfile.open(fileobj=io.BytesIO(written)) as tar:
        assert [(entry.name, tar.extractfile(entry).read()) for entry in tar] == pairs  # type: ignore[union-attr]


def test_bytes_outside_members_are_fixed(memory: int) -> None:
    """A change to any single header, padding or trailer byte is refused."""
    sound = archive([("a.json", b"one"), ("data/b", b"two")])
    members = load(memory, sound)
    inside = {member.offset + index for member in members for index in range(member.size)}
    passed = []
    for position in (index for index in range(4096) if index not in inside):
        changed = bytearray(sound)
        changed[position] ^= 1
        try:
            load(memory, bytes(changed))
            passed.append(position)
        except BundleFormatError:
            continue
    assert passed == []


def test_source_that_shrinks_is_noticed() -> None:
    """A source whose size changes while it is copied makes no archive."""

    class Shrinking(io.BytesIO):
        def read(self, _size: int | None = -1) -> bytes:
            return super().read(3) if self.tell() == 0 else b""

    with pytest.raises(OSError, match="changed its size"):
        write_archive(io.BytesIO(), [("a", Shrinking(b"12345"))])


def test_member_cut_off_after_the_scan_is_noticed(memory: int) -> None:
    """A file that shrinks while it is read ends in an error and not in an endless loop."""
    member = load(memory, archive(CONTENTS))[3]
    os.ftruncate(memory, member.offset + 10)
    with pytest.raises(BundleFormatError, match="truncated"):
        list(MemberReader(held(memory), member).chunks())


@pytest.mark.parametrize(
    ("compress", "said"),
    [
        (gzip.compress, "is compressed .* unpack it with `gunzip FILE`"),
        (lzma.compress, "is compressed .* unpack it with `unxz FILE`"),
        (lambda content: b"PK\3\4" + bytes(26) + b"[Content_Types].xml" + content, "is a spreadsheet.*`dp-publish"),
    ],
)
def test_what_is_no_bundle_is_called_what_it_is(compress: Callable[[bytes], bytes], said: str, memory: int) -> None:
    """A file that a portal or a mail program has compressed is not called damaged; a spreadsheet is to be published."""
    os.pwrite(memory, compress(archive(CONTENTS)), 0)
    with pytest.raises(BundleFormatError, match=said):
        scan(memory)
