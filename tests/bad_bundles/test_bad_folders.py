"""Folders that are not the bundle that was signed are refused before any of their data is parsed."""

import re
from pathlib import Path

import pytest
from tests.bad_bundles.making import KEY, good
from tests.bad_bundles.of_folders import CASES, CASES_BEHIND_AN_ADDRESS, PART, FolderCase, flipped
from tests.web import WebServer

from dp_bundle import BundleError, open_bundle
from dp_bundle.bundle.packing import pack_bundle, unpack_bundle
from dp_bundle.trust.judging import UnsafeTrustAnyone
from dp_bundle.trust.signing import public_key_of
from dp_bundle.trust.store import TrustStore

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


@pytest.mark.parametrize("case", CASES_BEHIND_AN_ADDRESS, ids=lambda case: f"{case.rule} {case.name}")
def test_a_bad_folder_behind_an_address_is_refused(
    case: FolderCase, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is missing or changed there is refused; what else is there is no part of the bundle."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache of the good one"))
    server = WebServer()
    try:
        server.contents["/a/notes.txt"] = b"x"
        server.serve_folder(folder, "/a")
        with open_bundle(f"{server.url}/a") as bundle:
            n_rows = sum(batch.num_rows for batch in bundle.batches())
            assert n_rows == bundle.release.n_rows

        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        case.change(folder)
        server.contents.clear()
        server.serve_folder(folder, "/b")
        with pytest.raises(BundleError, match=case.says):
            open_bundle(f"{server.url}/b")
    finally:
        server.close()


def test_every_rule_of_folders_has_a_case() -> None:
    """Each rule of the page about folders is broken by a case."""
    rules = set(re.findall(r"^\*\*(FO\d)\.\*\* ", PAGE, re.MULTILINE))
    assert {case.rule for case in (*CASES, *CASES_BEHIND_AN_ADDRESS)} >= rules == {"FO1", "FO2", "FO3"}


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
