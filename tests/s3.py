"""An S3 server on this machine (moto), and a proxy before it that fails as networks and busy servers do."""

import contextlib
import http.client
import random
import socket
import struct
import subprocess
import sys
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler

from tests.web import LocalServer

_SERVE = """
import os, sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print("port", server.get_host_and_port()[1], flush=True)
sys.stdin.read()
os._exit(0)
"""
_HOP = ("connection", "transfer-encoding", "keep-alive", "content-length", "server", "date")


class S3Server:
    """Moto's server in a process of its own, which ends with this one: its import is heavy."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _SERVE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._process.stdout is not None
        words: list[str] = []
        while words[:1] != ["port"]:
            line = self._process.stdout.readline()
            assert line, "moto's server did not start"
            words = line.split()
        self.port = int(words[1])
        self._buckets = 0

    def new_bucket(self) -> str:
        """Make a bucket and return its name."""
        self._buckets += 1
        name = f"bucket-{self._buckets}"
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("PUT", f"/{name}")
        assert connection.getresponse().status == 200
        connection.close()
        return name

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


class FaultyProxy(LocalServer):
    """A proxy that passes requests on, counts them, and fails as it is told.

    Attributes
    ----------
    unavailable, reset, cut : float
        The shares of requests that are answered by 503 or not at all, without being passed on, and the share of GETs
        whose answer ends in the middle.
    cuts : int
        How many of the next GETs have answers that end in the middle.
    lose_answers : bool
        Whether the first conditional PUT of every object is passed on, and its answer is not.
    passed_on : Counter
        How many requests of each method were passed on.
    faults : Counter
        How often each kind of fault happened.
    bytes_sent : int
        Of all answers together.
    bucket : str
        A bucket of this test's own.
    """

    bucket: str

    def __init__(self, port: int, seed: int = 0) -> None:
        self.unavailable = self.reset = self.cut = 0.0
        self.cuts = 0
        self.lose_answers = False
        self.passed_on: Counter[str] = Counter()
        self.lost: set[str] = set()
        self.faults: Counter[str] = Counter()
        self.bytes_sent = 0
        self._random = random.Random(seed)
        self._lock = threading.Lock()
        self._one_at_a_time = threading.Lock()
        self._port = port
        super().__init__(version="HTTP/1.1")

    def break_everything(self) -> None:
        """Fail in every way, each on a tenth of the requests, and lose the answer of each first conditional PUT."""
        self.unavailable = self.reset = self.cut = 0.1
        self.lose_answers = True

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        """Answer one request, or fail."""
        content = request.rfile.read(int(request.headers.get("Content-Length", 0)))
        fault = self._choose(request)
        if fault == "unavailable":
            request.send_response(503)
            request.send_header("Content-Length", "0")
            request.end_headers()
            return
        if fault == "reset":
            _reset(request)
            return

        # moto looks for the object and writes it in two steps; S3 does both in one
        with self._one_at_a_time if "If-None-Match" in request.headers else contextlib.nullcontext():
            connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
            connection.request(request.command, request.path, content, dict(request.headers.items()))
            answer = connection.getresponse()
            body = answer.read()
            connection.close()
        with self._lock:
            self.passed_on[request.command] += 1
        if fault == "lost":
            _reset(request)
            return

        request.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in _HOP:
                request.send_header(name, value)
        length = answer.getheader("Content-Length") if request.command == "HEAD" else str(len(body))
        request.send_header("Content-Length", length or "0")
        request.end_headers()
        if fault == "cut":
            request.wfile.write(body[: len(body) // 2])
            self.bytes_sent += len(body) // 2
            _reset(request, gently=True)
            return
        if request.command != "HEAD":
            request.wfile.write(body)
            self.bytes_sent += len(body)

    def _choose(self, request: BaseHTTPRequestHandler) -> str | None:
        """Choose what goes wrong with a request, if anything, and count it."""
        with self._lock:
            fault, chance = None, self._random.random()
            if chance < self.unavailable:
                fault = "unavailable"
            elif chance < self.unavailable + self.reset:
                fault = "reset"
            elif "If-None-Match" in request.headers and self.lose_answers and request.path not in self.lost:
                self.lost.add(request.path)
                fault = "lost"
            elif request.command == "GET" and (self.cuts or chance > 1 - self.cut):
                self.cuts = max(0, self.cuts - 1)
                fault = "cut"
            if fault:
                self.faults[fault] += 1
            return fault


def _reset(request: BaseHTTPRequestHandler, *, gently: bool = False) -> None:
    """Close a connection, by a reset if not gently."""
    request.close_connection = True
    if gently:
        request.wfile.flush()
        time.sleep(0.001)
        request.connection.shutdown(socket.SHUT_RDWR)
    else:
        request.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    request.connection.close()
