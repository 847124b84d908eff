"""Stores in a folder and in an S3 bucket: what is created stays, and every error is followed by a look."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from tests.s3 import FaultyProxy

from dp_bundle.base.errors import ParameterError, StoreError
from dp_bundle.files.opening import open_store, require_create_only
from dp_bundle.files.places import Store

CONTENT = bytes(range(256)) * 8192  # 2 MiB


@pytest.fixture(params=["folder", "file", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """Return an empty store of each kind that can be written."""
    if request.param == "s3":
        return open_store(f"s3://{request.getfixturevalue('s3').bucket}/some/prefix")
    return open_store(tmp_path / "new" / "folder" if request.param == "folder" else f"file://{tmp_path}/a%20folder")


def test_a_content_comes_back_whole_and_in_ranges(store: Store) -> None:
    """A content is read as it was put there, from any position, and ends where it ends."""
    assert store.create("data/part-00000.parquet", CONTENT) == CONTENT
    assert store.size("data/part-00000.parquet") == len(CONTENT)
    assert store.read("data/part-00000.parquet") == CONTENT
    assert store.read("data/part-00000.parquet", 1000, 70_000) == CONTENT[1000:71_000]
    assert store.read("data/part-00000.parquet", len(CONTENT) - 5, 70_000) == CONTENT[-5:]
    assert store.read("data/part-00000.parquet", len(CONTENT), 1) == b""
    assert store.read("data/part-00000.parquet", len(CONTENT) + 9, 1) == b""
    assert store.read("data/part-00000.parquet", 7, 0) == b""


def test_names_are_listed_in_order_and_by_folder(store: Store) -> None:
    """All names are listed, or those of one folder, which is not one that begins alike."""
    for name in ("b", "data/2", "data/1", "database/1"):
        store.create(name, b"x")
    assert store.names() == ["b", "data/1", "data/2", "database/1"]
    assert store.names("data") == ["data/1", "data/2"]
    assert store.names("nowhere") == []


def test_what_is_missing_is_missing(store: Store) -> None:
    """Reading a name that is free raises FileNotFoundError, and deleting it nothing."""
    for call in (store.size, store.read):
        with pytest.raises(FileNotFoundError, match="nowhere/x"):
            call("nowhere/x")
    store.delete("nowhere/x")


@pytest.mark.parametrize("name", ["", "/x", "x/", "a//b", "../x", "a/../b", ".hidden", "a?b", "a%b", "a\\b", "x" * 501])
def test_names_that_lead_elsewhere_are_refused(store: Store, name: str) -> None:
    """A name can neither leave the folder nor be hidden in it."""
    for call in (store.read, store.size, store.delete, lambda name: store.create(name, b"x")):
        with pytest.raises(ParameterError, match="a name"):
            call(name)


def test_of_many_who_create_one_name_one_wins(store: Store) -> None:
    """Threads that create the same name at once all learn of the same winner, whom nobody replaces."""
    with ThreadPoolExecutor(8) as threads:
        told = list(threads.map(lambda index: store.create("winner", str(index).encode()), range(8)))
    assert set(told) == {store.read("winner")}


def test_a_flaky_server_changes_nothing(s3: FaultyProxy) -> None:
    """With a tenth of 503, of resets and of cut answers, and every put's answer lost once, all is as without."""
    store = open_store(f"s3://{s3.bucket}/flaky")
    s3.break_everything()
    for index in range(8):
        assert store.create(f"data/{index:02}", CONTENT[: 9000 * index]) == CONTENT[: 9000 * index]
        assert store.create(f"data/{index:02}", b"late") == CONTENT[: 9000 * index]
    assert store.names() == [f"data/{index:02}" for index in range(8)]
    for index in range(8):
        assert store.read(f"data/{index:02}", 9, 900 * index) == CONTENT[9 : 9 + 900 * index]
        assert store.size(f"data/{index:02}") == 9000 * index
    assert s3.faults["lost"] == 8
    assert all(s3.faults[kind] for kind in ("unavailable", "reset", "cut"))


def test_an_answer_that_is_cut_short_is_continued(s3: FaultyProxy) -> None:
    """What came before an answer broke off is not asked for again."""
    store = open_store(f"s3://{s3.bucket}/x")
    store.create("large", CONTENT)
    s3.passed_on.clear()
    s3.cuts = 5
    assert store.read("large", 1, len(CONTENT)) == CONTENT[1:]
    assert (s3.passed_on["GET"], s3.faults["cut"]) == (6, 5)
    assert s3.bytes_sent < 1.2 * len(CONTENT)  # half of what was left, each time


def test_a_server_that_never_answers_is_given_up(s3: FaultyProxy) -> None:
    """After some tries there is one sentence, which says where, and nothing of the request."""
    store = open_store(f"s3://{s3.bucket}/x")
    s3.unavailable = 1.0
    for call in (lambda: store.read("a"), lambda: store.create("a", b"x"), store.names, lambda: store.size("a")):
        with pytest.raises(StoreError, match=rf"^s3://{s3.bucket}/x.*status 503, also when asked again$") as caught:
            call()
        assert caught.value.__suppress_context__ or "http" not in repr(caught.value.__cause__)


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("s3:///x", "BUCKET/PREFIX"),
        ("s3://bucket/x?signature=secret", "BUCKET/PREFIX"),
        ("file://elsewhere/x", "a place must be"),
    ],
)
def test_other_places_are_refused(uri: str, said: str) -> None:
    """A place that is none of those is refused in a sentence without credentials."""
    with pytest.raises((ParameterError, StoreError), match=said) as caught:
        open_store(uri)
    assert "secret" not in str(caught.value)


def test_a_bucket_is_not_asked_without_tls(monkeypatch: pytest.MonkeyPatch) -> None:
    """An endpoint elsewhere must be https, whatever the environment allows."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://storage.example.org")
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    with pytest.raises(StoreError, match="without TLS"):
        open_store("s3://bucket/x")


def test_a_file_whose_link_lost_its_answer_is_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder on a network that gave the name and then failed is looked at, and what is there counts."""
    link = os.link

    def link_and_fail(*arguments: Any, **options: Any) -> None:
        link(*arguments, **options)
        raise OSError(5, "Input/output error")

    store = open_store(tmp_path / "x")
    store.create("before", b"")
    monkeypatch.setattr(os, "link", link_and_fail)
    assert store.create("mine", b"content") == b"content"
    assert store.create("mine", b"other") == b"content"


def test_a_full_disk_is_no_success(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A create that failed and left nothing says so."""
    store = open_store(tmp_path / "x")
    store.create("before", b"")
    monkeypatch.setattr(os, "fsync", Mock(side_effect=OSError(28, "No space left on device")))
    with pytest.raises(StoreError, match="No space left"):
        store.create("mine", b"content")
    assert store.names() == ["before"]


def test_a_store_that_replaces_is_found_out(tmp_path: Path) -> None:
    """A store that takes a condition for decoration is refused, and nothing stays behind."""

    class Careless:
        uri = "s3://careless/x"

        def __init__(self) -> None:
            self.contents: dict[str, bytes] = {}
            self.read: Callable[[str], bytes] = self.contents.__getitem__
            self.delete = self.contents.pop

        def create(self, name: str, content: bytes) -> bytes:
            self.contents[name] = content
            return content

    store: Any = Careless()
    with pytest.raises(StoreError, match="replaces"):
        require_create_only(store)
    assert not store.contents
