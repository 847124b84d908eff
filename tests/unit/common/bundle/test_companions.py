"""The signature beside a bundle: carried with it if it is its own, whatever else somebody puts there."""

import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from dp_bundle.bundle.packing import find_minisig, minisig_path
from dp_bundle.bundle.reading import open_bundle
from dp_bundle.catalog.making import SiteSettings, make_catalog
from dp_bundle.catalog.staging import stage_bundle
from dp_bundle.trust.judging import UnsafeTrustAnyone
from dp_publish import Receipt

OFFERED = SiteSettings(any_signer=True)


@pytest.fixture
def folder(described: Receipt, tmp_path: Path) -> Path:
    """Return a folder with a bundle and its signature for minisign."""
    (tmp_path / "bundles").mkdir()
    path = tmp_path / "bundles" / "heights.tar"
    shutil.copy(described.path, path)
    shutil.copy(minisig_path(described.path), minisig_path(path))
    return path.parent


def sums(path: Path) -> dict[str, str]:
    """Return a list of digests, and check each."""
    found = dict(reversed(line.split("  ")) for line in path.read_text().splitlines())
    for name, digest in found.items():
        assert hashlib.sha256((path.parent / name).read_bytes()).hexdigest() == digest
    return found


def test_catalog_offers_it_with_its_checksum(folder: Path, tmp_path: Path, home: Path) -> None:
    """Page and checksums name it, a rerun touches nothing, and one that is gone goes."""
    site = tmp_path / "site"
    summary = make_catalog(folder, site, OFFERED)
    assert (summary.offered, summary.left_out) == (1, 0)
    page = next(site.glob("datasets/*/release-1.html"))
    name = "heights-1.bundle.tar.minisig"
    content = (page.parent / name).read_bytes()
    assert content == (folder / "heights.tar.minisig").read_bytes()
    assert f'href="{name}"' in page.read_text()
    assert hashlib.sha256(content).hexdigest() in page.read_text()
    assert f"{page.parent.relative_to(site)}/{name}" in sums(site / "SHA256SUMS")
    assert make_catalog(folder, site, OFFERED).written == 0

    (folder / "heights.tar.minisig").unlink()
    summary = make_catalog(folder, site, OFFERED)
    assert (summary.read, summary.removed) == (0, 1)
    assert not list(site.rglob("*.minisig"))
    assert "heights-1.bundle.tar.minisig" not in page.read_text()


BAD: dict[str, Callable[[bytes], bytes]] = {
    "flipped": lambda content: content[:-30] + bytes([content[-30] ^ 1]) + content[-29:],
    "empty": lambda _: b"",
    "page": lambda _: b"<script>alert(1)</script>\n" * 200,
    "longer": lambda content: content + b"\n",
    "comment": lambda content: content.replace(b"comment: signature", b"comment: <b>ignature"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_no_signature_of_the_bundle_is_left_out(case: str, folder: Path, tmp_path: Path, home: Path) -> None:
    """Neither staging nor the site carries it; both say so; the bundle is offered as before."""
    path = folder / "heights.tar.minisig"
    content = path.read_bytes()
    path.write_bytes(BAD[case](content))
    with open_bundle(folder / "heights.tar", UnsafeTrustAnyone()) as bundle:
        written, notes = stage_bundle(bundle, "static", tmp_path / "staged")
    assert [note.split()[0] for note in notes] == [str(folder / "heights.tar.minisig")]
    summary = make_catalog(folder, tmp_path / "site", OFFERED)
    assert (summary.offered, summary.left_out) == (1, 1)
    again = make_catalog(folder, tmp_path / "site", OFFERED)
    assert (again.written, again.left_out) == (0, 1)
    for path in (*written, *(tmp_path / "site").rglob("*")):
        assert not path.name.endswith(".minisig")


def test_signatures_of_another_bundle_are_left_out(folder: Path, moments: Receipt) -> None:
    """A file that is good beside another bundle, by the same publisher even, is no signature of this one."""
    shutil.copy(minisig_path(moments.path), folder / "heights.tar.minisig")
    with open_bundle(folder / "heights.tar", UnsafeTrustAnyone()) as bundle:
        assert find_minisig(bundle)[0] is None


def test_links_pipes_folders_and_hostile_names_do_no_harm(folder: Path, tmp_path: Path, home: Path) -> None:
    """Links in a circle, pipes, folders called like bundles and names that act are survived, and secrets stay."""
    secret = tmp_path / "secret"
    secret.write_text("secret")
    (folder / "heights.tar.minisig").unlink()
    (folder / "heights.tar.minisig").symlink_to(secret)
    (folder / "loop").symlink_to(folder)
    (folder / "self.tar").symlink_to(folder / "self.tar")
    (folder / "secret.tar").symlink_to(secret)
    (folder / "folder.tar").mkdir()
    os.mkfifo(folder / "pipe.tar")
    shutil.copy(folder / "heights.tar", folder / "<img src=x onerror=alert(1)>\n\u202e.tar")
    (folder / os.fsdecode(b"caf\xe9.tar")).write_bytes(b"no bundle")
    summary = make_catalog(folder, tmp_path / "site", OFFERED)
    assert (summary.offered, summary.refused) == (1, 2)
    listed = (tmp_path / "site" / "index.html").read_text()
    assert "<img" not in listed
    assert not any(
        path.read_text(errors="replace") == "secret" for path in (tmp_path / "site").rglob("*") if path.is_file()
    )
