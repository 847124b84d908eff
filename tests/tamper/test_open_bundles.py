"""A bundle that is open: bytes that change are noticed, and its file is closed once."""

import gc
import os
import warnings
from pathlib import Path

import pytest

from dp_bundle import open_bundle
from dp_bundle.base.errors import BundleFormatError
from dp_bundle.trust.judging import UnsafeTrustAnyone
from dp_publish import Receipt


def test_file_that_changes_after_it_was_verified_is_noticed(bundle: Receipt, tmp_path: Path) -> None:
    """Bytes that were verified are the bytes that are read: a file changed in place raises, whichever byte it is."""
    content = bundle.path.read_bytes()
    path = tmp_path / "changing.tar"
    path.write_bytes(content)
    with open_bundle(path) as opened:
        rows = sum(batch.num_rows for batch in opened.batches())
        member = opened.members["data/part-00000.parquet"]
        readme = opened.open("README.md").read()
        for place in (member.offset, member.offset + member.size // 2, member.offset + member.size - 1):
            with path.open("r+b") as file:
                file.seek(place)
                file.write(bytes([content[place] ^ 1]))
            with pytest.raises(BundleFormatError, match="was changed after it was verified"):
                list(opened.batches())
            path.write_bytes(content)
        assert sum(batch.num_rows for batch in opened.batches()) == rows
        os.truncate(path, member.offset)
        with pytest.raises(BundleFormatError, match="was changed after it was verified"):
            list(opened.batches())
        assert opened.open("README.md").read() == readme


def test_closing_twice_closes_nothing_of_others(bundle: Receipt, tmp_path: Path) -> None:
    """A second close does not take the descriptor of a file that was opened since, and a closed bundle says so."""
    opened = open_bundle(bundle.path)
    opened.close()
    with (tmp_path / "other").open("wb") as other:
        opened.close()
        other.write(b"still open")
    with pytest.raises(ValueError, match="closed: open it again"):
        list(opened.batches())


def test_bundle_that_is_not_closed_is_closed_for_it() -> None:
    """A bundle that goes out of sight open leaves no descriptor behind."""
    golden = Path(__file__).parents[1] / "golden" / "bundle-rows.tar"
    gc.collect()  # of what other tests left
    before = len(list(Path("/proc/self/fd").iterdir()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        opened = open_bundle(golden, UnsafeTrustAnyone())
        assert len(list(Path("/proc/self/fd").iterdir())) == before + 1
        del opened
        gc.collect()
    assert len(list(Path("/proc/self/fd").iterdir())) == before
