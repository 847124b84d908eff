"""Servers on this machine: any, and one that serves contents in ranges, and misbehaves as it is told."""

import datetime
import ipaddress
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

_ENDLESS = 2**28  # bytes: what comes of a server that does not stop, before the test does


class LocalServer:
    """A server whose `answer` is called with every request, each in a thread of its own."""

    def __init__(self, certificate: Path | None = None, version: str = "HTTP/1.0") -> None:
        answer = self.answer

        class Handler(BaseHTTPRequestHandler):
            protocol_version = version

            def log_message(self, *_: Any) -> None:
                pass

            def _answer(self) -> None:
                answer(self)

            do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = _answer  # noqa: N815

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.handle_error = lambda *_: None  # type: ignore[method-assign]
        scheme = "http"
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
            scheme = "https"
        self.url = f"{scheme}://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        """Answer one request."""
        raise NotImplementedError

    def close(self) -> None:
        """Stop."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class WebServer(LocalServer):
    """A server of the contents in a dictionary, by path.

    Attributes
    ----------
    contents : dict of str to bytes
        What is under which path, from the first slash on.
    requests : list of (path with query, range or None)
        What was asked for.
    cuts : int
        How many of the next answers end after half of their bytes.
    ignores_ranges, endless : bool
        Whether it always sends everything, and whether it goes on after the end.
    redirects : dict of str to str
        Where requests for a path are sent.
    statuses : list of int
        Those of the next answers.
    sent : int
        Bytes of all answers together.
    """

    def __init__(self, certificate: Path | None = None) -> None:
        self.contents: dict[str, bytes] = {}
        self.requests: list[tuple[str, str | None]] = []
        self.cuts = 0
        self.ignores_ranges = self.endless = False
        self.redirects: dict[str, str] = {}
        self.statuses: list[int] = []
        self.sent = 0
        super().__init__(certificate)

    def serve_folder(self, folder: Path, under: str) -> None:
        """Serve the files of a folder, or one file, under a path."""
        files = [folder] if folder.is_file() else [path for path in folder.rglob("*") if path.is_file()]
        for path in files:
            name = "" if path == folder else f"/{path.relative_to(folder).as_posix()}"
            self.contents[f"{under}{name}"] = path.read_bytes()

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        """Answer one request."""
        path, wanted = request.path.partition("?")[0], request.headers.get("Range")
        self.requests.append((request.path, wanted))
        if path in self.redirects:
            request.send_response(302)
            request.send_header("Location", self.redirects[path])
            request.end_headers()
            return
        content = self.contents.get(path)
        status = self.statuses.pop(0) if self.statuses else 200 if content is not None else 404
        if status != 200 or content is None:
            request.send_response(status)
            request.end_headers()
            return

        if wanted and not self.ignores_ranges:
            first, _, last = wanted.removeprefix("bytes=").partition("-")
            start, end = int(first), min(int(last or len(content)), len(content) - 1)
            if start > end:
                request.send_response(416)
                request.end_headers()
                return
            request.send_response(206)
            request.send_header("Content-Range", f"bytes {start}-{end}/{len(content)}")
            content = content[start : end + 1]
        else:
            request.send_response(200)
        request.send_header("Content-Length", str(len(content) + _ENDLESS * self.endless))
        request.end_headers()
        if self.cuts:
            self.cuts -= 1
            content = content[: len(content) // 2]
        self._send(request, content)
        while self.endless and self.sent < _ENDLESS:
            self._send(request, bytes(2**16))

    def _send(self, request: BaseHTTPRequestHandler, content: bytes) -> None:
        self.sent += len(content)  # before a reader can have them
        request.wfile.write(content)


def make_certificate(path: Path) -> Path:
    """Write a certificate for this machine, with its key, and return the file of the certificate alone."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([])
    now, day = datetime.datetime.now(datetime.UTC), datetime.timedelta(days=1)
    here = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now - day, now + day)
    own = builder.add_extension(here, critical=True).sign(key, hashes.SHA256())
    form, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    certificate = path.with_suffix(".ca")
    certificate.write_bytes(own.public_bytes(serialization.Encoding.PEM))
    path.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, plain) + certificate.read_bytes())
    return certificate
