"""A bundle's two forms: the same bytes whichever way they were made, read alike, whole or not at all, or closed."""

import gc
import shutil
from pathlib import Path

import pytest
from tests.conftest import Run, untar

from dp_bundle import open_bundle
from dp_bundle.base.errors import BundleError, ClosedBundleError, DpGraphError
from dp_bundle.bundle.packing import pack_bundle, unpack_bundle
from dp_bundle.trust.judging import UnsafeTrustAnyone
from dp_publish import Receipt

GOLDEN = sorted((Path(__file__).parents[3] / "golden").glob("bundle-*.tar"))


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda path: path.stem)
def test_tar_to_folder_to_tar_gives_the_same_bytes(golden: Path, tmp_path: Path) -> None:
    """Stored bundles of all versions come back, byte for byte, and the folder is what tar itself unpacks."""
    with open_bundle(golden, UnsafeTrustAnyone()) as bundle:
        unpack_bundle(bundle, tmp_path / "a")
        digest = bundle.manifest_sha256
    with open_bundle(tmp_path / "a", UnsafeTrustAnyone()) as bundle:
        assert bundle.manifest_sha256 == digest
        pack_bundle(bundle, tmp_path / "a.tar")
    assert (tmp_path / "a.tar").read_bytes() == golden.read_bytes()
    untar(golden, tmp_path / "by-tar")
    with open_bundle(tmp_path / "by-tar", UnsafeTrustAnyone()) as bundle:
        assert bundle.manifest_sha256 == digest


def test_nothing_is_replaced_and_nothing_is_left_half(multipart: Path, tmp_path: Path) -> None:
    """A name that is taken, a missing folder, and a bundle that changes while it is copied leave nothing behind."""
    shutil.copy(multipart / "a.tar", tmp_path)
    (tmp_path / "taken").mkdir()
    with open_bundle(tmp_path / "a.tar", UnsafeTrustAnyone()) as bundle:
        for write in (pack_bundle, unpack_bundle):
            with pytest.raises(DpGraphError, match="already"):
                write(bundle, tmp_path / "taken")
            with pytest.raises(DpGraphError, match="no folder"):
                write(bundle, tmp_path / "none/b")
        with (tmp_path / "a.tar").open("r+b") as file:
            file.seek(bundle.members["data/part-00002.parquet"].offset + 100)
            file.write(b"changed")
        for write in (pack_bundle, unpack_bundle):
            with pytest.raises(BundleError, match="changed after"):
                write(bundle, tmp_path / "b")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.tar", "taken"]


def test_a_folder_is_closed_like_a_file(multipart: Path) -> None:
    """No descriptor is left open, however many parts were read, and a closed folder says that it is closed."""
    numbers = Path("/proc/self/fd")
    gc.collect()  # what other tests left open is not this one's
    before = len(list(numbers.iterdir())) if numbers.exists() else 0
    bundle = open_bundle(multipart / "a", UnsafeTrustAnyone())
    batches = bundle.batches()
    next(batches)
    bundle.close()
    bundle.close()
    with pytest.raises(ClosedBundleError):
        list(batches)
    if before:
        assert len(list(numbers.iterdir())) <= before


def test_a_folder_is_staged_as_its_tar(multipart: Path, tmp_path: Path, command: Run) -> None:
    """By a command without a key, to the byte."""
    assert command("dp-bundle", "stage", multipart / "a", "staged", "--for", "static", "--any-signer").returncode == 0
    assert (tmp_path / "staged/a.tar").read_bytes() == (multipart / "a.tar").read_bytes()


def test_a_member_keeps_its_bundle_open(bundle: Receipt) -> None:
    """Whoever has a member but no longer the bundle can read it to its end."""
    opened = open_bundle(bundle.path)
    readme = opened.open("README.md")
    source = opened._source
    del opened
    gc.collect()
    assert readme.read().startswith(b"# ")
    source.close()
