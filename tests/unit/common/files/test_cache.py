"""The cache of downloads: each content once, whole, bounded, and with the digest that was asked for."""

import hashlib
import os
from pathlib import Path

import pytest

from dp_bundle.base.errors import DigestMismatchError, ParameterError, StoreError
from dp_bundle.files import cache
from dp_bundle.files.cache import Cache

CONTENT = bytes(range(256)) * 40
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class Source:
    """A place that counts what is read, and fails when told."""

    def __init__(self, content: bytes = CONTENT) -> None:
        self.content = content
        self.asked: list[tuple[int, int]] = []
        self.fails_after = 10**9

    def read(self, position: int, size: int) -> bytes:
        """Return bytes of the content."""
        if len(self.asked) >= self.fails_after:
            raise StoreError("s3://x", "gone")
        self.asked.append((position, size))
        return self.content[position : position + size]


@pytest.fixture(autouse=True)
def small_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask for 1000 bytes at a time."""
    monkeypatch.setattr(cache, "RANGE", 1000)


def test_a_content_is_downloaded_once(tmp_path: Path) -> None:
    """The second time it is there, for another object as well, and no more is asked for than its size."""
    source = Source(CONTENT + bytes(10**6))
    for _ in range(2):
        path = Cache(tmp_path / "new" / "x").fetch("part", SHA256, len(CONTENT), source.read)
        assert path.read_bytes() == CONTENT
    assert source.asked == [(at, min(1000, len(CONTENT) - at)) for at in range(0, len(CONTENT), 1000)]


def test_a_download_goes_on_where_it_stopped(tmp_path: Path) -> None:
    """What was there when a download failed is not asked for again."""
    source, own = Source(), Cache(tmp_path)
    source.fails_after = 4
    with pytest.raises(StoreError, match="gone"):
        own.fetch("part", SHA256, len(CONTENT), source.read)
    assert [path.name for path in tmp_path.iterdir() if path.suffix != ".lock"] == [f"{SHA256}.partial"]
    source.fails_after = 10**9
    assert own.fetch("part", SHA256, len(CONTENT), source.read).read_bytes() == CONTENT
    assert [position for position, _ in source.asked] == list(range(0, len(CONTENT), 1000))


@pytest.mark.parametrize("left", [b"wrong" * 100, CONTENT + b"more"])
def test_a_remainder_of_something_else_is_thrown_away(tmp_path: Path, left: bytes) -> None:
    """A partial download that does not lead to the digest is begun again."""
    (tmp_path / f"{SHA256}.partial").write_bytes(left)
    assert Cache(tmp_path).fetch("part", SHA256, len(CONTENT), Source().read).read_bytes() == CONTENT


def test_another_content_is_refused_and_not_kept(tmp_path: Path) -> None:
    """Bytes with another digest raise, and nothing stays."""
    for content in (CONTENT[:-1] + b"x", CONTENT[:-1]):
        with pytest.raises(DigestMismatchError, match="signed"):
            Cache(tmp_path).fetch("part", SHA256, len(CONTENT), Source(content).read)
    assert [path for path in tmp_path.iterdir() if path.suffix != ".lock"] == []


def test_what_was_used_longest_ago_makes_room(tmp_path: Path) -> None:
    """The cache holds what was used last, within its bound."""
    own = Cache(tmp_path, limit=2500)
    contents = [bytes([index]) * 1000 for index in range(3)]
    digests = [hashlib.sha256(content).hexdigest() for content in contents]
    for index, (content, digest) in enumerate(zip(contents, digests, strict=True)):
        os.utime(own.fetch("part", digest, 1000, Source(content).read), (index, index))
    assert {path.name for path in tmp_path.iterdir() if path.suffix != ".lock"} == set(digests[1:])
    assert own.fetch("part", digests[0], 1000, Source(contents[0]).read).exists()
    assert not (tmp_path / digests[1]).exists()


def test_its_place_and_bound_are_chosen_by_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """XDG_CACHE_HOME and DPGRAPH_CACHE_GB are followed, and nonsense is refused."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("DPGRAPH_CACHE_GB", "0.5")
    assert (Cache().folder, Cache().limit) == (tmp_path / "dpgraph", 5 * 10**8)
    for nonsense in ("much", "nan", "inf"):
        monkeypatch.setenv("DPGRAPH_CACHE_GB", nonsense)
        with pytest.raises(ParameterError, match="DPGRAPH_CACHE_GB"):
            Cache()


@pytest.mark.parametrize("name", [SHA256, f"{SHA256}.partial"])
def test_links_in_it_are_not_followed(tmp_path: Path, name: str) -> None:
    """A link to another file of the user's is neither read nor written through."""
    victim, folder = tmp_path / "diary", tmp_path / "cache"
    victim.write_bytes(CONTENT[:700])
    folder.mkdir(mode=0o700)
    (folder / name).symlink_to(victim)
    with pytest.raises(StoreError, match="symbolic links"):
        Cache(folder).fetch("part", SHA256, len(CONTENT), Source().read)
    assert victim.read_bytes() == CONTENT[:700]
