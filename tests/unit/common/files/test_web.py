"""A web server as a store: ranges, cut and excessive answers, redirections, TLS, and what messages hold."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.web import WebServer, make_certificate

from dp_bundle.base.errors import StoreError
from dp_bundle.files.opening import open_store

CONTENT = bytes(range(256)) * 8192  # 2 MiB


@pytest.fixture
def secure(tmp_path: Path) -> Iterator[WebServer]:
    """Return a server with TLS, whose certificate is in `own.pem` and nobody's."""
    make_certificate(tmp_path / "own.pem")
    server = WebServer(tmp_path / "own.pem")
    server.contents["/a/large"] = CONTENT
    yield server
    server.close()


def test_a_content_comes_whole_and_in_ranges(web: WebServer) -> None:
    """Each range is one request, and the end of the content is the end."""
    store = open_store(f"{web.url}/a")
    assert store.read("large") == CONTENT
    assert store.read("large", 1000, 70_000) == CONTENT[1000:71_000]
    assert store.read("large", len(CONTENT) - 5, 100) == CONTENT[-5:]
    assert store.read("large", len(CONTENT), 100) == b""
    assert store.size("large") == len(CONTENT)
    assert [wanted for _, wanted in web.requests[:2]] == [None, "bytes=1000-70999"]
    assert len(web.requests) == 5


def test_what_comes_beyond_a_range_is_cut_off(web: WebServer) -> None:
    """A server that does not stop is left when there is enough."""
    web.endless = True
    store = open_store(f"{web.url}/a")
    assert store.read("large", 10, 1000) == CONTENT[10:1010]
    web.ignores_ranges = True
    assert store.read("large", 0, 1000) == CONTENT[:1000]
    assert web.sent < 2**26


def test_a_server_without_ranges_is_refused_where_they_are_needed(web: WebServer) -> None:
    """The start of a file can be had from any server, and the rest only by a range."""
    web.ignores_ranges = True
    store = open_store(f"{web.url}/a")
    assert store.read("large", 0, 100) == CONTENT[:100]
    with pytest.raises(StoreError, match="cannot send a range"):
        store.read("large", 100, 100)


def test_passing_failures_are_tried_again_and_others_are_not(web: WebServer) -> None:
    """A server that is busy is asked again, and one that refuses is not."""
    store = open_store(f"{web.url}/a")
    web.statuses = [503, 429, 500]
    assert store.read("large", 0, 5) == CONTENT[:5]
    web.statuses = [403]
    with pytest.raises(StoreError, match="refuses to give it"):
        store.read("large")
    web.statuses = [418]
    with pytest.raises(StoreError, match="status 418"):
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


def test_redirections_keep_to_the_scheme(
    web: WebServer, secure: WebServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A redirection is followed to the same kind of address, and to no other."""
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "own.pem"))
    secure.redirects = {
        "/a/here": "/a/large",
        "/a/plain": f"{web.url}/a/large",
        "/a/file": "file:///etc/hostname",
        "/a/ftp": "ftp://127.0.0.1/x",
        "/a/round": "/a/round",
    }
    store = open_store(f"{secure.url}/a")
    assert store.read("here", 5, 10) == CONTENT[5:15]
    for name in ("plain", "file", "ftp", "round"):
        with pytest.raises(StoreError, match=r"redirects to an address of another kind|status 302"):
            store.read(name)
    assert web.requests == []

    web.redirects = {"/a/away": "http://example.org/large"}
    with pytest.raises(StoreError, match="redirects to an address"):
        open_store(f"{web.url}/a").read("away")


def test_certificates_are_verified(secure: WebServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A certificate that nobody vouches for is refused, and one that the system was given is taken."""
    with pytest.raises(StoreError, match="certificate"):
        open_store(f"{secure.url}/a").read("large")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "own.pem"))
    assert open_store(f"{secure.url}/a").read("large") == CONTENT


def test_no_variable_turns_verification_off_for_a_bucket(secure: WebServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A storage whose certificate nobody vouches for is asked for nothing, though a variable of obstore's allows it."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", secure.url)
    monkeypatch.setenv("AWS_ALLOW_INVALID_CERTIFICATES", "true")
    monkeypatch.setenv("AWS_SKIP_SIGNATURE", "true")
    with pytest.raises(StoreError, match="did not answer"):
        open_store("s3://bucket/x").read("a")
    assert secure.requests == []


def test_it_is_only_read(web: WebServer) -> None:
    """Nothing can be written to a web server, or listed."""
    store = open_store(f"{web.url}/a")
    for call in (lambda: store.create("x", b""), lambda: store.delete("x")):
        with pytest.raises(StoreError, match="only read"):
            call()
    with pytest.raises(StoreError, match="cannot be listed"):
        store.names()
