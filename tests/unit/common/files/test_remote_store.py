"""A web server as a store: ranges, cut and excessive answers, redirections, TLS, and what messages hold."""

import socket
from pathlib import Path

import pytest
from tests.web import WebServer, make_certificate

from dp_bundle.base.errors import StoreError
from dp_bundle.files.opening import open_store

CONTENT = bytes(range(256)) * 8192  # 2 MiB


def test_a_content_comes_whole_and_in_ranges(web: WebServer) -> None:
    """Each range is one request, and the end of the content is the end."""
    store = open_store(f"{web.url}/a")
    assert store.read("large") == CONTENT
    assert store.read("large", 1000, 70_000) == CONTENT[1000:71_000]
    assert store.read("large", len(CONTENT) - 5, 100) == CONTENT[-5:]
    assert store.read("large", len(CONTENT), 100) == b""
    assert store.size("large") == len(CONTENT)
    assert [wanted for _, wanted in web.requests[:2]] == [None, "bytes=1000-70999"]


def test_a_server_without_ranges_is_refused_where_they_are_needed(web: WebServer) -> None:
    """The start of a file can be had from any server, and the rest only by a range."""
    web.ignores_ranges = True
    store = open_store(f"{web.url}/a")
    assert store.read("large", 0, 100) == CONTENT[:100]
    with pytest.raises(StoreError, match="range"):
        store.read("large", 100, 100)


def test_passing_failures_are_tried_again_and_others_are_not(web: WebServer) -> None:
    """A server that is busy, or cuts its answers, is asked again, and one that refuses is not."""
    store = open_store(f"{web.url}/a")
    web.statuses = [503, 429, 500]
    assert store.read("large", 0, 5) == CONTENT[:5]
    web.cuts = 5
    assert store.read("large") == CONTENT
    for status in (403, 418):
        web.statuses = [status]
        with pytest.raises(StoreError, match=f"status {status}"):
            store.read("large")
    with pytest.raises(FileNotFoundError):
        store.read("other")


def test_a_query_goes_with_every_request_and_into_no_message(web: WebServer) -> None:
    """What a signed link has behind its question mark is sent, and not shown."""
    store = open_store(f"{web.url}/a?signature=secret")
    assert store.read("large", 0, 5) == CONTENT[:5]
    assert web.requests[0][0] == "/a/large?signature=secret"
    web.statuses = [403]
    for name in ("large", "other"):
        with pytest.raises((StoreError, FileNotFoundError)) as caught:
            store.read(name)
        assert "secret" not in f"{caught.value} {caught.value.__cause__!r} {store.uri}"
        assert caught.value.__suppress_context__


def test_tls_is_verified_and_kept_to(web: WebServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A certificate that nobody vouches for is refused, by buckets, too; a redirection leads to no plain address."""
    authority = make_certificate(tmp_path / "own.pem")
    secure = WebServer(tmp_path / "own.pem")
    secure.contents["/a/large"] = CONTENT
    secure.redirects = {"/a/here": "/a/large", "/a/plain": f"{web.url}/a/large", "/a/round": "/a/round"}
    monkeypatch.setenv("DPGRAPH_PATIENCE", "2")
    with pytest.raises(StoreError, match="certificate"):
        open_store(f"{secure.url}/a").read("large")
    monkeypatch.setenv("AWS_ENDPOINT_URL", secure.url)
    monkeypatch.setenv("AWS_ALLOW_INVALID_CERTIFICATES", "true")
    monkeypatch.setenv("AWS_SKIP_SIGNATURE", "true")
    with pytest.raises(StoreError, match="certificate"):
        open_store("s3://bucket/x").read("a")
    assert secure.requests == []

    monkeypatch.setenv("SSL_CERT_FILE", str(authority))
    store = open_store(f"{secure.url}/a")
    assert store.read("here", 5, 10) == CONTENT[5:15]
    for name in ("plain", "round"):
        with pytest.raises(StoreError, match="redirects"):
            store.read(name)
    assert web.requests == []
    secure.close()


def test_a_host_that_cannot_be_asked_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that is not known and a port without a server have sentences of their own."""
    monkeypatch.setenv("DPGRAPH_PATIENCE", "0.5")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(StoreError, match="takes connections"):
        open_store(f"https://127.0.0.1:{port}/x").read("a")
    with pytest.raises(StoreError, match="did not answer"):
        open_store(f"https://{'a' * 64}.example/x").read("a")


def test_it_is_only_read(web: WebServer) -> None:
    """Nothing can be written to a web server, or listed."""
    store = open_store(f"{web.url}/a")
    for call in (lambda: store.create("x", b""), lambda: store.delete("x"), store.names):
        with pytest.raises(StoreError):
            call()
    assert web.requests == []
