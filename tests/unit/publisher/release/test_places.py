"""A release to a folder and to an object store: the manifest last, nothing replaced, all of it on the books."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.s3 import FaultyProxy
from tests.unit.publisher.release.conftest import Publish

from dp_bundle import open_bundle
from dp_bundle.base.errors import BundleFormatError, DpGraphError, ParameterError, StoreError
from dp_bundle.bundle.packing import pack_bundle
from dp_bundle.data import rows
from dp_bundle.files import remote_store
from dp_bundle.files.opening import open_store
from dp_bundle.files.places import Store
from dp_publish.ledger.ledger import Ledger


@pytest.fixture(autouse=True)
def quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make parts of 8192 rows, work in the test's folder, and wait for hardly any time after a failure."""
    monkeypatch.setattr(rows, "_PART_CELLS", 1)
    monkeypatch.setattr(rows, "_MOST_ROWS", 2**13)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def frame() -> pd.DataFrame:
    """Return rows for three parts."""
    return pd.DataFrame({"x": np.random.default_rng(1).uniform(size=20_000)})


@pytest.fixture
def publish_to(publish_here: Publish, frame: pd.DataFrame) -> Publish:
    """Return what publishes these rows to a place."""
    return lambda out: publish_here(frame, out=out)


@pytest.fixture
def store(s3: FaultyProxy) -> Store:
    """Return an empty place in a bucket."""
    return open_store(f"s3://{s3.bucket}/data/people")


def states() -> list[str]:
    """Return what the ledger has of every release."""
    return [entry.state for entry in Ledger().entries()]


def here(folder: Path) -> set[str]:
    """Return what is in the working folder, but for the state folder and downloads."""
    return {path.name for path in folder.iterdir()} - {"home", "cache"}


@pytest.mark.parametrize("place", ["people/", "s3"])
def test_a_release_appears_as_a_folder(
    place: str, tmp_path: Path, publish_to: Publish, request: pytest.FixtureRequest
) -> None:
    """The folder verifies, packs to a tar, holds all rows, and is on the books; nothing else is left."""
    out = request.getfixturevalue("store").uri if place == "s3" else place
    receipt = publish_to(out)
    assert str(receipt.path) == out.rstrip("/")
    assert here(tmp_path) == ({"people"} if place == "people/" else set())
    with open_bundle(out) as bundle:
        assert bundle.manifest_sha256 == receipt.manifest_sha256
        assert sum(name.startswith("data/") for name in bundle.members) == 3
        assert sum(batch.num_rows for batch in bundle.batches()) == 20_000
        pack_bundle(bundle, tmp_path / "packed.tar")
    with open_bundle(tmp_path / "packed.tar") as bundle:
        assert bundle.manifest_sha256 == receipt.manifest_sha256
    assert [(entry.state, entry.manifest_sha256) for entry in Ledger().entries()] == [
        ("published", receipt.manifest_sha256)
    ]


def test_the_manifest_comes_last(publish_to: Publish, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts come first, descriptions after them, and the manifest after everything, once the books say sealed."""
    created: list[tuple[str, list[str]]] = []
    create = remote_store.RemoteStore.create

    def note(self: Any, name: str, content: bytes) -> bytes:
        created.append((name, states()))
        return create(self, name, content)

    monkeypatch.setattr(remote_store.RemoteStore, "create", note)
    publish_to(store.uri)
    kinds = [name.partition("/")[0] for name, _ in created if not name.startswith("trial-")]
    assert kinds == ["data"] * 3 + ["README.md", "datapackage.json", "croissant.json", "manifest.dsse.json"]
    assert all(found == ["sealed"] for name, found in created if not name.startswith("trial-"))
    assert all(found == [] for name, found in created if name.startswith("trial-"))


def test_a_flaky_server_publishes_the_same(publish_to: Publish, s3: FaultyProxy, store: Store) -> None:
    """With 503, resets, cut answers and the answer of every first put lost, one release is there, and on the books."""
    s3.break_everything()
    receipt = publish_to(store.uri)
    assert s3.faults["lost"] >= 7
    assert states() == ["published"]
    with open_bundle(store.uri) as bundle:
        assert bundle.manifest_sha256 == receipt.manifest_sha256
    assert len(store.names()) == 7


@pytest.mark.parametrize("member", ["data/part-00002.parquet", "manifest.dsse.json"])
def test_a_crash_before_the_manifest_leaves_no_release_and_stays_paid_for(
    member: str,
    tmp_path: Path,
    publish_to: Publish,
    store: Store,
    monkeypatch: pytest.MonkeyPatch,
    command: Callable[..., Any],
) -> None:
    """Whatever is reached, nobody can read it as a release, it is booked as spent, and the tar here finishes it."""
    with monkeypatch.context() as patch:
        create = remote_store.RemoteStore.create

        def fail(self: Any, name: str, content: bytes) -> bytes:
            if name == member:
                raise StoreError(self.uri, "gone")
            return create(self, name, content)

        patch.setattr(remote_store.RemoteStore, "create", fail)
        with pytest.raises(StoreError, match="gone") as caught:
            publish_to(store.uri)
    with pytest.raises(BundleFormatError, match=r"manifest\.dsse\.json is missing"):
        open_bundle(store.uri)
    assert states() == ["sealed"]
    assert here(tmp_path) == {"people.tar"}
    said = f"dp-bundle unpack people.tar --out {store.uri}"
    assert any(said in note for note in caught.value.__notes__)
    assert any("stays on the books as spent" in note for note in caught.value.__notes__)

    with pytest.raises(DpGraphError, match="already"):  # a new release goes elsewhere, and costs nothing here
        publish_to(store.uri)
    assert states() == ["sealed"]

    finished = command("dp-bundle", *said.split()[1:])
    assert finished.returncode == 0, finished.stderr
    with open_bundle(store.uri) as bundle:
        assert bundle.manifest_sha256 == Ledger().entries()[0].manifest_sha256


def test_nothing_is_replaced_or_booked_where_something_is(tmp_path: Path, publish_to: Publish, store: Store) -> None:
    """A place with anything in it is refused before anything is booked, and so is the name of the tar on the way."""
    store.create("stray", b"x")
    (tmp_path / "folder").mkdir()
    for place in (store.uri, "folder/"):
        with pytest.raises(DpGraphError, match="already"):
            publish_to(place)
    (tmp_path / "other.tar").touch()
    with pytest.raises(DpGraphError, match="already"):
        publish_to("other/")
    assert states() == []
    assert store.names() == ["stray"]


def test_a_storage_that_replaces_is_refused_before_anything_is_booked(
    publish_to: Publish, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A storage that ignores the condition of a put could lose a release, and gets none."""
    monkeypatch.setattr(remote_store.RemoteStore, "create", lambda _self, _name, content: content)
    with pytest.raises(StoreError, match="replaces"):
        publish_to(store.uri)
    assert states() == []


@pytest.mark.parametrize(
    ("out", "error", "said"),
    [
        ("s3://nowhere/x", StoreError, "bucket"),
        ("s3://nowhere/x.tar", ParameterError, "without .tar"),
        ("https://example.org/x", StoreError, "listed"),
        ("ftp://example.org/x", ParameterError, "place"),
        ("no/such/folder/", ParameterError, "folder"),
    ],
)
def test_places_that_cannot_be_had_cost_nothing(
    out: str, error: type[Exception], said: str, publish_to: Publish, s3: FaultyProxy
) -> None:
    """A place that is none is refused before anything is booked."""
    with pytest.raises(error, match=said):
        publish_to(out)
    assert states() == []
