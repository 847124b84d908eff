"""Folders that are not the bundle that was signed are refused before any of their data is parsed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.bad_bundles.making import KEY, good
from tests.bad_bundles.of_folders import CASES, PART, FolderCase, flipped

from dp_bundle import BundleError, open_bundle
from dp_bundle.bundle import pack_bundle, unpack_bundle
from dp_bundle.trust import TrustStore, UnsafeTrustAnyone
from dp_bundle.trust.signing import public_key_of

PAGE = (Path(__file__).parents[2] / "docs" / "bundle-format.md").read_text()


@pytest.fixture
def folder(tmp_path: Path, home: Path) -> Path:
    """Unpack the good bundle, whose signer is trusted."""
    TrustStore().add(public_key_of(KEY), "corpus")
    (tmp_path / "good.tar").write_bytes(good())
    with open_bundle(tmp_path / "good.tar") as bundle:
        unpack_bundle(bundle, tmp_path / "good")
    return tmp_path / "good"


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.rule} {case.name}")
def test_a_bad_folder_is_refused(case: FolderCase, folder: Path) -> None:
    """It is refused when it is opened, which parses no data, with a sentence that says why."""
    case.change(folder)
    with pytest.raises(BundleError, match=case.says):
        open_bundle(folder)


def test_every_rule_of_folders_has_a_case() -> None:
    """Each rule of the page about folders is broken by a case."""
    assert {case.rule for case in CASES} >= set(re.findall(r"^\*\*(FO\d)\.\*\* ", PAGE, re.MULTILINE)) == {"FO1", "FO2"}


def test_a_part_exchanged_after_it_was_verified_is_refused(folder: Path) -> None:
    """A file that takes a part's place between its digest and its use is not parsed."""
    with open_bundle(folder) as bundle:
        fresh = folder.with_name("fresh")
        fresh.write_bytes((folder / PART).read_bytes())
        fresh.replace(folder / PART)  # a new file with the same bytes
        assert sum(batch.num_rows for batch in bundle.batches()) == bundle.release.n_rows
        flipped(PART)(folder)
        with pytest.raises(BundleError, match="changed after it was verified"):
            list(bundle.batches())
        with pytest.raises(BundleError, match="changed after it was verified"):
            pack_bundle(bundle, folder.with_name("packed.tar"))
        (folder / PART).unlink()
        with pytest.raises(BundleError, match="is missing"):
            list(bundle.batches())
    assert not folder.with_name("packed.tar").exists()


def test_a_folder_exchanged_after_it_was_verified_is_not_looked_at(folder: Path) -> None:
    """Whoever renames the folder, or the one within it, and puts another in its place changes nothing that is read."""
    with open_bundle(folder, UnsafeTrustAnyone()) as bundle:
        (folder / "data").rename(folder / "gone")
        (folder / "data").mkdir()
        folder.rename(folder.with_name("away"))
        folder.mkdir()
        assert sum(batch.num_rows for batch in bundle.batches()) == bundle.release.n_rows
