"""A bundle that is not byte for byte what a trusted publisher signed is refused, one broken rule per case."""

from __future__ import annotations

import io
import random
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.tamper.archives import members_of, refuse_flipped_bits, write

from dp_bundle import BundleError, open_bundle
from dp_bundle.base.errors import (
    BundleFormatError,
    OlderReleaseError,
    UntrustedKeyError,
)
from dp_bundle.bundle.writing import MANIFEST_NAME, write_bundle
from dp_bundle.cli.console import run
from dp_bundle.cli.main import cli as bundle_cli
from dp_bundle.files.tar import scan_archive
from dp_bundle.manifest.statement import Statement
from dp_bundle.trust.signing import Envelope, public_key_of, sign_envelope
from dp_bundle.trust.store import TrustStore
from dp_learn.cli.main import cli as learn_cli
from dp_publish import Receipt


def _exit_code(command: object, *arguments: object) -> int:
    with pytest.raises(SystemExit) as leaving:
        run(command, [str(argument) for argument in arguments])
    return int(leaving.value.code or 0)


def _all_files(folder: Path) -> set[Path]:
    return set(folder.rglob("*"))


@pytest.mark.slow
def test_500_random_bit_flips_are_all_refused(bundle: Receipt, tmp_path: Path) -> None:
    """One flipped bit anywhere in the file is refused as untrustworthy."""
    refuse_flipped_bits(bundle.path, tmp_path / "altered.tar", flips=500, seed=500)


@pytest.mark.parametrize("command", [bundle_cli, learn_cli], ids=["dp-bundle verify", "dp-learn"])
def test_commands_refuse_with_exit_3_and_leave_nothing(
    command: object,
    bundle: Receipt,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The commands answer a flipped bit with one sentence and exit code 3, and write nothing to disk."""
    monkeypatch.chdir(tmp_path)
    content = bytearray(bundle.path.read_bytes())
    altered = tmp_path / "altered.tar"
    words = ["verify", altered] if command is bundle_cli else [altered]
    rng = random.Random(3)
    for position in rng.sample(range(8 * len(content)), 20):
        content[position // 8] ^= 1 << position % 8
        altered.write_bytes(content)
        before = _all_files(tmp_path)
        assert _exit_code(command, *words) == 3
        assert _all_files(tmp_path) == before
        content[position // 8] ^= 1 << position % 8
    printed = capsys.readouterr()

    assert printed.out == ""
    assert len(printed.err.splitlines()) == 20
    assert all(line.startswith("error: ") for line in printed.err.splitlines())


@pytest.mark.slow
def test_every_bit_of_headers_and_padding_matters(bundle: Receipt, tmp_path: Path) -> None:
    """A flipped bit in any header, padding or the trailer is refused, not only one in the content."""
    content = bytearray(bundle.path.read_bytes())
    members = scan_archive(lambda at, size: bytes(content[at : at + size]), len(content), len(content))
    inside = {at for member in members for at in range(member.offset, member.offset + member.size)}
    outside = [at for at in range(len(content)) if at not in inside]
    altered = tmp_path / "altered.tar"
    for at in random.Random(1).sample(outside, 300):
        content[at] ^= 1 << at % 8
        altered.write_bytes(content)
        with pytest.raises(BundleFormatError):
            open_bundle(altered)
        content[at] ^= 1 << at % 8


def test_unknown_signer_is_refused_with_the_way_to_trust_it(
    bundle: Receipt, capsys: pytest.CaptureFixture[str]
) -> None:
    """An unknown signer is refused with exit 3, and the message gives fingerprint and command."""
    with open_bundle(bundle.path) as opened:
        signer = opened.signer.key
    TrustStore().remove(signer)

    assert _exit_code(learn_cli, bundle.path) == 3
    assert f"dp-bundle trust {signer.fingerprint}" in capsys.readouterr().err

    assert _exit_code(bundle_cli, "trust", signer.fingerprint) == 0
    assert _exit_code(bundle_cli, "verify", bundle.path) == 0


@pytest.mark.parametrize("kept", [0, 1, 511, 512, 3000, 0.5, -1, -512, -10240])
def test_truncated_files_are_refused(kept: float, bundle: Receipt, tmp_path: Path) -> None:
    """A file that ends early is refused wherever it ends."""
    content = bundle.path.read_bytes()
    altered = tmp_path / "altered.tar"
    altered.write_bytes(content[: int(kept * len(content)) if 0 < kept < 1 else int(kept)])

    with pytest.raises(BundleError):
        open_bundle(altered)


def test_older_release_is_refused_once_a_newer_one_was_seen(
    bundle: Receipt, key: Ed25519PrivateKey, tmp_path: Path
) -> None:
    """An old bundle cannot be passed off as the current one, unless the reader asks for it."""
    newer = bundle.release.model_copy(
        update={"lineage": bundle.release.lineage.model_copy(update={"number": 2, "previous": bundle.manifest_sha256})}
    )
    data = io.BytesIO(members_of(bundle.path)["data/part-00000.parquet"])
    with (tmp_path / "newer.tar").open("wb") as file:
        write_bundle(file, newer, [data], key)
    open_bundle(tmp_path / "newer.tar").close()

    with pytest.raises(OlderReleaseError):
        open_bundle(bundle.path)
    open_bundle(bundle.path, allow_older=True).close()


def test_a_stranger_may_not_sign(bundle: Receipt, tmp_path: Path) -> None:
    """A bundle that is sound in every other way is refused if its signer is a stranger."""
    stranger = Ed25519PrivateKey.generate()
    members = members_of(bundle.path)
    statement = Statement.from_bytes(Envelope.from_bytes(members[MANIFEST_NAME]).payload)
    members[MANIFEST_NAME] = sign_envelope(statement.to_bytes(), stranger).to_bytes()
    altered = tmp_path / "altered.tar"
    write(altered, members)

    with pytest.raises(UntrustedKeyError) as refusal:
        open_bundle(altered)
    assert refusal.value.fingerprint == public_key_of(stranger).fingerprint
