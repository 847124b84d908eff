"""Servers that mean to hold a reader for ever, or to fill its memory: each ends soon, in a sentence, within 256 MB."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.hostile import BEHAVIOURS, HostileServer, drip

from dp_bundle import open_bundle
from dp_bundle.base.errors import BundleError, DpGraphError, ParameterError, StoreError
from dp_bundle.files.opening import open_store
from dp_bundle.trust.judging import UnsafeTrustAnyone

_MOST_BYTES = 256 * 10**6
_MEASURE = """
import json, os, subprocess, sys, time
start, running = time.monotonic(), {}
for address in sys.argv[2:]:
    command = [sys.argv[1], "verify", address, "--any-signer"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    running[process.pid] = address, process
while running:
    pid, status, usage = os.wait3(0)
    address, process = running.pop(pid)
    process.returncode = os.waitstatus_to_exitcode(status)
    found = address, process.returncode, time.monotonic() - start, usage.ru_maxrss * 1024, process.stderr.read()
    print(json.dumps(found))
"""  # a process's peak is at least that of the one that starts it, so a small one does


@pytest.fixture
def hostile(multipart: Path) -> Iterator[HostileServer]:
    """Serve a bundle, and behave badly beside it."""
    server = HostileServer(multipart / "a")
    yield server
    server.close()


@pytest.mark.parametrize("behaviour", BEHAVIOURS)
def test_no_server_holds_a_reader(hostile: HostileServer, behaviour: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With little patience, each behaviour is given up within that, and a second for the rest of the work."""
    monkeypatch.setenv("DPGRAPH_PATIENCE", "0.2")
    start = time.monotonic()
    with pytest.raises((StoreError, BundleError)):
        open_bundle(f"{hostile.url}/{behaviour}/x.tar", UnsafeTrustAnyone())
    assert time.monotonic() - start < 6


def test_a_handshake_that_drips_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """TLS that comes byte by byte counts as every wait does."""
    monkeypatch.setenv("DPGRAPH_PATIENCE", "0.5")
    server = HostileServer(at_once=lambda: drip(b"\x16\x03\x03\x40\x00\x02"))
    start = time.monotonic()
    with pytest.raises(StoreError, match="too slow"):
        open_bundle(f"{server.url.replace('http', 'https')}/x", UnsafeTrustAnyone())
    assert time.monotonic() - start < 2.5
    server.close()


def test_an_endless_description_is_cut_where_the_manifest_ends_it(hostile: HostileServer) -> None:
    """Of a README without end, no more is read than follows from the manifest."""
    with pytest.raises(BundleError, match=r"README\.md"):
        open_bundle(f"{hostile.url}/readme", UnsafeTrustAnyone())


@pytest.mark.parametrize("nonsense", ["much", "nan", "inf", "0", "-1", "1e9"])
def test_patience_is_a_number_of_seconds(nonsense: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nonsense in the variable is refused by its name."""
    monkeypatch.setenv("DPGRAPH_PATIENCE", nonsense)
    with pytest.raises(ParameterError, match="DPGRAPH_PATIENCE"):
        open_store("https://example.org/x").read("a")


def test_the_sentence_says_how_long_and_what_to_set(hostile: HostileServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever has a slow line finds the limits, and the variable that changes them."""
    monkeypatch.setenv("DPGRAPH_PATIENCE", "0.5")
    with pytest.raises(DpGraphError, match=r"0\.5 seconds .*DPGRAPH_PATIENCE"):
        open_store(f"{hostile.url}/body-drips").read("a", 0, 10**6)


@pytest.mark.long
def test_the_command_ends_in_time_and_memory(hostile: HostileServer) -> None:
    """The real command, in a process of its own, ends soon after its patience, in one sentence, within 256 MB.

    But for the text of an error, which obstore reads whole.
    """
    addresses = [f"{hostile.url}/{behaviour}/x" for behaviour in BEHAVIOURS if "error" not in behaviour]
    addresses.append(f"{hostile.url}/readme")
    seconds = 4.0
    variables = {**os.environ, "DPGRAPH_PATIENCE": str(seconds)}
    script = str(Path(sys.executable).with_name("dp-bundle"))
    done = subprocess.run(
        [sys.executable, "-c", _MEASURE, script, *addresses], env=variables, capture_output=True, text=True, check=True
    )
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) == len(addresses)
    for address, code, took, peak, said in found:
        assert code in (1, 3), (address, said)
        assert said.startswith("error: "), said
        assert said.count("\n") == 1, said
        assert "a fault" not in said
        assert took < seconds + 120, address
        assert peak < _MOST_BYTES, (address, peak)
