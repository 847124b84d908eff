"""Servers that mean to hold a reader for ever, or to fill its memory: each ends soon, in a sentence, within 256 MB."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.hostile import BEHAVIOURS, HostileServer

from dp_bundle import open_bundle
from dp_bundle.base.errors import BundleError, ParameterError, StoreError
from dp_bundle.files.opening import open_store
from dp_bundle.trust.judging import UnsafeTrustAnyone


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
