"""A release to a folder and to an object store: the manifest last, nothing replaced, all of it in the ledger."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.conftest import Run
from tests.s3 import FaultyProxy
from tests.unit.publisher.release.conftest import Publish, states

from dp_bundle import open_bundle
from dp_bundle.base.errors import BundleFormatError, DpGraphError, StoreError
from dp_bundle.bundle.packing import pack_bundle
from dp_bundle.data import rows
from dp_bundle.files.opening import RemoteStore, open_store
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


@pytest.mark.parametrize("place", ["people/", "s3"])
def test_a_release_appears_as_a_folder(
    place: str, tmp_path: Path, publish_to: Publish, request: pytest.FixtureRequest
) -> None:
    """The folder verifies, packs to a tar, and is in the ledger; nothing else is left, though a server be flaky."""
    out = place
    if place == "s3":
        out = request.getfixturevalue("store").uri
        request.getfixturevalue("s3").break_everything()
    receipt = publish_to(out)
    assert str(receipt.path) == out.rstrip("/")
    assert {path.name for path in tmp_path.iterdir()} - {"home", "cache", "people"} == set()
    with open_bundle(out) as bundle:
        assert (bundle.manifest_sha256, len(bundle.members)) == (receipt.manifest_sha256, 7)
        assert sum(batch.num_rows for batch in bundle.batches()) == 20_000
        pack_bundle(bundle, tmp_path / "packed.tar")
    open_bundle(tmp_path / "packed.tar").close()
    assert [(entry.state, entry.manifest_sha256) for entry in Ledger().entries()] == [
        ("published", receipt.manifest_sha256)
    ]


def test_the_manifest_comes_last(publish_to: Publish, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts come first, descriptions after them, and the manifest after everything, once the books say sealed.

    A storage that ignores the condition of a put could lose a release, and gets none.
    """
    created: list[tuple[str, list[str]]] = []
    create = RemoteStore.create

    def note(self: Any, name: str, content: bytes) -> bytes:
        created.append((name.partition("/")[0].partition("-")[0], states()))
        return create(self, name, content)

    with monkeypatch.context() as patch:
        patch.setattr(RemoteStore, "create", lambda _self, _name, content: content)
        with pytest.raises(StoreError, match="replaces"):
            publish_to(store.uri)
    monkeypatch.setattr(RemoteStore, "create", note)
    publish_to(store.uri)
    kinds = ["data"] * 3 + ["README.md", "datapackage.json", "croissant.json", "manifest.dsse.json"]
    assert [each for each in created if each != ("trial", [])] == [(kind, ["sealed"]) for kind in kinds]


@pytest.mark.parametrize("member", ["data/part-00002.parquet", "manifest.dsse.json"])
def test_a_crash_before_the_manifest_leaves_no_release_and_stays_paid_for(
    member: str,
    tmp_path: Path,
    publish_to: Publish,
    store: Store,
    monkeypatch: pytest.MonkeyPatch,
    command: Run,
) -> None:
    """Nobody can read it as a release, it is booked as spent, and the tar finishes it, or else the same command."""
    create = RemoteStore.create

    def fail(self: Any, name: str, content: bytes) -> bytes:
        if name == member:
            raise StoreError(self.uri, "gone")
        return create(self, name, content)

    with monkeypatch.context() as patch:
        patch.setattr(RemoteStore, "create", fail)
        with pytest.raises(StoreError, match="gone") as caught:
            publish_to(store.uri)
    with pytest.raises(BundleFormatError):
        open_bundle(store.uri)
    said = f"dp-bundle unpack people.tar --out {store.uri}"
    notes = " ".join(caught.value.__notes__)
    assert said in notes
    assert "stays in the ledger as spent, and the same command" in notes
    assert states() == ["sealed"]

    if member.endswith(".parquet"):
        publish_to(store.uri)
        assert states() == ["published"]
    else:
        assert command("dp-bundle", *said.split()[1:]).returncode == 0
    with open_bundle(store.uri) as bundle:
        assert bundle.manifest_sha256 == Ledger().entries()[0].manifest_sha256


@pytest.mark.parametrize(
    ("out", "said"),
    [
        ("stray", "already"),
        ("folder/", "already"),
        ("other/", "already"),
        ("s3://nowhere/x", "bucket"),
        ("s3://nowhere/x.tar", "without .tar"),
        ("https://example.org/x", "listed"),
        ("no/such/folder/", "folder"),
    ],
)
def test_places_that_cannot_be_had_cost_nothing(out: str, said: str, publish_to: Publish, store: Store) -> None:
    """A place that is none, or with anything in it, is refused; so is a name that is taken of the tar on the way."""
    store.create("stray", b"x")
    Path("folder").mkdir()
    Path("other.tar").touch()
    with pytest.raises(DpGraphError, match=said):
        publish_to(store.uri if out == "stray" else out)
    assert states() == []
    assert store.names() == ["stray"]
