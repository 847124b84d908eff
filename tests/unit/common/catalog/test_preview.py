"""The preview of a site: its files, on the loopback interface alone, without hidden ones."""

from __future__ import annotations

import socket
import threading
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from dp_bundle.base.errors import DpGraphError
from dp_bundle.catalog.preview import serve_site


def test_a_site_is_served_on_loopback_without_hidden_files(tmp_path: Path) -> None:
    """The list is served with its type; what the next run remembers is not."""
    (tmp_path / "index.html").write_text("<p>the list</p>")
    (tmp_path / ".dpgraph-catalog.json").write_text("{}")
    with serve_site(tmp_path, 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        where = f"http://127.0.0.1:{server.server_port}"
        try:
            with urllib.request.urlopen(f"{where}/") as answer:  # noqa: S310  our own
                assert (answer.headers["Content-Type"], answer.read()) == ("text/html", b"<p>the list</p>")
            for hidden in ("/.dpgraph-catalog.json", "/%2edpgraph-catalog.json"):
                with pytest.raises(urllib.error.HTTPError, match="404") as error:
                    urllib.request.urlopen(f"{where}{hidden}")  # noqa: S310  our own
                error.value.close()
        finally:
            server.shutdown()
            thread.join()
    assert server.server_address[0] == "127.0.0.1"


def test_a_port_in_use_and_a_missing_site_are_told_in_a_sentence(tmp_path: Path) -> None:
    """Each error says what to do."""
    with pytest.raises(DpGraphError, match="holds no site: make one with dp-bundle catalog"):
        serve_site(tmp_path, 0)
    (tmp_path / "index.html").write_text("")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(DpGraphError, match=f"port {port} is in use: give another one with --port"):
            serve_site(tmp_path, port)
