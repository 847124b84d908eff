"""A web server."""

from collections.abc import Iterator

import pytest
from tests.web import WebServer


@pytest.fixture
def web() -> Iterator[WebServer]:
    """Return a server with one content."""
    server = WebServer()
    server.contents["/a/large"] = bytes(range(256)) * 8192
    yield server
    server.close()
