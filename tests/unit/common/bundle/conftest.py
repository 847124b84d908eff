"""A release in several parts, as tars and as folders."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.conftest import make_policy
from tests.web import WebServer

from dp_bundle import open_bundle
from dp_bundle.bundle.packing import unpack_bundle
from dp_bundle.data import rows
from dp_bundle.trust.judging import UnsafeTrustAnyone
from dp_bundle.trust.store import new_key_pair
from dp_publish import load_key, publish


@pytest.fixture(autouse=True)
def quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep downloads in the test's folder, and expect parts of least size."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(rows, "_PART_CELLS", 1)


@pytest.fixture(scope="session")
def multipart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Publish two columns in three parts, twice; return the folder with `a.tar`, `a`, `b.tar`, `b` and `home`."""
    place = tmp_path_factory.mktemp("parts")
    rng = np.random.default_rng(3)
    table = pd.DataFrame({"height": rng.normal(170, 10, 600_000), "weight": rng.normal(80, 12, 600_000)})
    policy = make_policy({"height": [120, 220], "weight": [20, 140]}, mu=8.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DPGRAPH_HOME", str(place / "home"))
        patch.setattr(rows, "_PART_CELLS", 1)
        new_key_pair()
        for name in ("a", "b"):
            publish(table, policy, out=place / f"{name}.tar", key=load_key())
            with open_bundle(place / f"{name}.tar", UnsafeTrustAnyone()) as bundle:
                unpack_bundle(bundle, place / name)
    return place


@pytest.fixture
def web(multipart: Path) -> Iterator[WebServer]:
    """Serve both releases, each as a folder and as a tar."""
    server = WebServer()
    for name in ("a", "a.tar", "b", "b.tar"):
        server.serve_folder(multipart / name, f"/{name}")
    yield server
    server.close()
