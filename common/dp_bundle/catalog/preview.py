"""A preview of a site in a browser on this machine, and on no other."""

from __future__ import annotations

import errno
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

from dp_bundle.base.errors import DpGraphError
from dp_bundle.base.quoting import quote_path

_LOOPBACK = "127.0.0.1"


class _Quiet(SimpleHTTPRequestHandler):
    """Files of the site without a word; nothing is kept by the browser, and no hidden file is shown."""

    extensions_map = {  # noqa: RUF012  as the standard library has it
        **SimpleHTTPRequestHandler.extensions_map,
        ".jsonld": "application/ld+json",
        ".xml": "application/xml",
    }

    def send_head(self):  # type: ignore[no-untyped-def]
        if "/." in unquote(self.path):
            self.send_error(404)
            return None
        return super().send_head()

    def end_headers(self) -> None:
        self.send_header("Cache-Control", "no-store")
        super().end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def serve_site(site: Path, port: int = 8000) -> ThreadingHTTPServer:
    """Return a server of a site for this machine alone; `serve_forever` starts it.

    Parameters
    ----------
    site : Path
        What `make_catalog` wrote.
    port : int
        0 for any that is free.

    Raises
    ------
    DpGraphError
        There is no site, or the port cannot be used.
    """
    if not (site / "index.html").is_file():
        raise DpGraphError(f"{quote_path(site)} holds no site: make one with dp-bundle catalog DIR --out {site}")
    try:
        return ThreadingHTTPServer((_LOOPBACK, port), partial(_Quiet, directory=str(site)))
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise DpGraphError(
                f"port {port} is in use: give another one with --port, or 0 for any that is free"
            ) from error
        raise DpGraphError(f"port {port} cannot be used ({error.strerror}): give another one with --port") from error
