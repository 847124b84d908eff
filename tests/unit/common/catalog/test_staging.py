"""Folders for portals: the very bytes that were verified, in the portal's layout, whole or not there at all."""

import hashlib
import json
import shutil
from pathlib import Path

import pytest
from tests.conftest import Run

from dp_bundle import open_bundle
from dp_bundle.base.errors import BundleError, DpGraphError
from dp_bundle.catalog.names import FORMS, PORTALS
from dp_bundle.catalog.staging import stage_bundle
from dp_bundle.trust.judging import UnsafeTrustAnyone
from dp_publish import Receipt


@pytest.mark.parametrize("portal", PORTALS)
@pytest.mark.parametrize("kind", ["described", "moments"])
def test_staged_files_are_those_that_were_verified(
    portal: str, kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """The tar is the same to the byte, and so are the Parquet files beside it; metadata is JSON."""
    receipt: Receipt = request.getfixturevalue(kind)
    with open_bundle(receipt.path, UnsafeTrustAnyone()) as bundle:
        written, _ = stage_bundle(bundle, portal, tmp_path / portal)
        data = {name: bundle.open(name).read() for name in bundle.members if name.startswith("data/")}
    names = {path.relative_to(tmp_path / portal).as_posix() for path in written}
    base = tmp_path / portal if portal in ("static", "huggingface") else tmp_path / portal / "files"
    assert (base / receipt.path.name).read_bytes() == receipt.path.read_bytes()
    assert (base / f"{receipt.path.name}.minisig").read_bytes()
    for name, content in data.items():
        assert (base / (name if portal in ("static", "huggingface") else Path(name).name)).read_bytes() == content
    for name in names:
        if name.endswith((".json", ".jsonld")):
            json.loads((tmp_path / portal / name).read_bytes())
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
    if portal == "static":
        sums = dict(reversed(line.split("  ")) for line in (base / "SHA256SUMS").read_text().splitlines())
        assert sums.keys() == names - {"SHA256SUMS"}
        assert all(hashlib.sha256((base / name).read_bytes()).hexdigest() == sums[name] for name in sums)


def test_nothing_is_replaced_and_nothing_is_left_half(described: Receipt, tmp_path: Path) -> None:
    """An existing folder, even an empty one, is refused; and a file that changes while it is copied leaves nothing."""
    (tmp_path / "taken").mkdir()
    changed = tmp_path / described.path.name
    shutil.copy(described.path, changed)
    with open_bundle(changed, UnsafeTrustAnyone()) as bundle:
        with pytest.raises(DpGraphError, match="already"):
            stage_bundle(bundle, "static", tmp_path / "taken")
        with pytest.raises(DpGraphError, match="no folder"):
            stage_bundle(bundle, "static", tmp_path / "a/b")
        content = bytearray(changed.read_bytes())
        content[content.index(b"PAR1") + 40] ^= 1
        with changed.open("r+b") as file:
            file.write(content)
        with pytest.raises(BundleError):
            stage_bundle(bundle, "static", tmp_path / "new")
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "home") == [changed.name, "taken"]


def test_describe_prints_or_writes_every_form(described: Receipt, tmp_path: Path, command: Run) -> None:
    """Each form is one document, the same on stdout and in a new file."""
    for form in FORMS:
        printed = command("dp-bundle", "describe", described.path, "--as", form, "--any-signer")
        assert printed.returncode == 0
        assert json.loads(printed.stdout)
        out = tmp_path / f"{form}.json"
        written = command("dp-bundle", "describe", described.path, "--as", form, "--any-signer", "--out", out)
        assert (written.returncode, out.read_text(encoding="utf-8")) == (0, printed.stdout)
