"""Failures that pass quickly, and a web server."""

from collections.abc import Iterator

import pytest
from tests.web import WebServer

from dp_bundle.files import patience


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for hardly any time after a failure."""
    monkeypatch.setattr(patience, "_FIRST_PAUSE", 0.0005)


@pytest.fixture
def web() -> Iterator[WebServer]:
    """Return a server with one content."""
    server = WebServer()
    server.contents["/a/large"] = bytes(range(256)) * 8192
    yield server
    server.close()
