"""A bundle that was closed: nothing is read from it, or from whatever file has its number by then."""

from __future__ import annotations

import gc

import pytest

from dp_bundle import open_bundle
from dp_bundle.base.errors import ClosedBundleError, DpGraphError
from dp_publish import Receipt


@pytest.mark.parametrize("others", [0, 5])
def test_a_reader_of_a_closed_bundle_says_so(bundle: Receipt, others: int) -> None:
    """Members that were opened before say that the bundle is closed, even where other files have its number."""
    opened = open_bundle(bundle.path)
    batches, readme = opened.batches(), opened.open("README.md")
    opened.close()
    files = [bundle.path.open("rb") for _ in range(others)]
    with pytest.raises(ClosedBundleError, match="closed: open it again"):
        next(batches)
    with pytest.raises(DpGraphError, match="closed: open it again"):
        readme.read(10)
    opened.close()
    for file in files:
        assert file.read(8) == b"manifest"
        file.close()


def test_a_member_keeps_its_bundle_open(bundle: Receipt) -> None:
    """Whoever has a member but no longer the bundle can read it to its end."""
    opened = open_bundle(bundle.path)
    readme = opened.open("README.md")
    source = opened._source
    del opened
    gc.collect()
    assert readme.read().startswith(b"# ")
    source.close()
