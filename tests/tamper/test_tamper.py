"""A bundle that is not byte for byte what a trusted publisher signed is refused, one broken rule per case."""

from __future__ import annotations

import io
import json
import os
import random
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.tamper.archives import Members, members_of, refuse_flipped_bits, signed_statement, write

from dp_bundle import BundleError, open_bundle
from dp_bundle.bundle import write_bundle
from dp_bundle.bundle.writing import MANIFEST_NAME
from dp_bundle.cli import cli as bundle_cli
from dp_bundle.console import run
from dp_bundle.errors import (
    BadSignatureError,
    BundleFormatError,
    DigestMismatchError,
    OlderReleaseError,
    UnsupportedVersionError,
    UntrustedKeyError,
)
from dp_bundle.files.tar import scan_archive
from dp_bundle.manifest.statement import Statement
from dp_bundle.trust.signing import Envelope, public_key_of, sign_envelope
from dp_bundle.trust.store import TrustStore
from dp_learn.cli import cli as learn_cli
from dp_publish import Receipt


def _exit_code(command: object, *arguments: object) -> int:
    with pytest.raises(SystemExit) as leaving:
        run(command, [str(argument) for argument in arguments])
    return int(leaving.value.code or 0)


def _all_files(folder: Path) -> set[Path]:
    return set(folder.rglob("*"))


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
    descriptor = os.open(bundle.path, os.O_RDONLY)
    inside = {at for member in scan_archive(descriptor) for at in range(member.offset, member.offset + member.size)}
    os.close(descriptor)
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


def _added(members: Members) -> Members:
    return {**members, "data/part-00001.parquet": members["data/part-00000.parquet"]}


def _removed(members: Members) -> Members:
    return {name: content for name, content in members.items() if name != "croissant.json"}


def _renamed(members: Members) -> Members:
    return {name.replace("part-00000", "part-00007"): content for name, content in members.items()}


def _reordered(members: Members) -> Members:
    names = list(members)
    names[1], names[2] = names[2], names[1]
    return {name: members[name] for name in names}


def _manifest_last(members: Members) -> Members:
    return dict(reversed(members.items()))


@pytest.mark.parametrize("change", [_added, _removed, _renamed, _reordered, _manifest_last])
def test_members_other_than_the_signed_ones_are_refused(
    change: Callable[[Members], Members], bundle: Receipt, tmp_path: Path
) -> None:
    """A member too many, too few, renamed or out of order is refused."""
    altered = tmp_path / "altered.tar"
    write(altered, change(members_of(bundle.path)))

    with pytest.raises(BundleFormatError):
        open_bundle(altered)


def test_swapped_content_is_named(bundle: Receipt, tmp_path: Path) -> None:
    """A member whose content is not the signed one is refused by name."""
    members = members_of(bundle.path)
    members["README.md"] += b"Trust me.\n"
    altered = tmp_path / "altered.tar"
    write(altered, members)

    with pytest.raises(DigestMismatchError, match=r"README\.md"):
        open_bundle(altered)


@pytest.mark.parametrize("kept", [0, 1, 511, 512, 3000, 0.5, -1, -512, -10240])
def test_truncated_files_are_refused(kept: float, bundle: Receipt, tmp_path: Path) -> None:
    """A file that ends early is refused wherever it ends."""
    content = bundle.path.read_bytes()
    altered = tmp_path / "altered.tar"
    altered.write_bytes(content[: int(kept * len(content)) if 0 < kept < 1 else int(kept)])

    with pytest.raises(BundleError):
        open_bundle(altered)


def test_appended_bytes_are_refused(bundle: Receipt, tmp_path: Path) -> None:
    """A file with anything behind its end is refused, even zeros."""
    altered = tmp_path / "altered.tar"
    altered.write_bytes(bundle.path.read_bytes() + bytes(10240))

    with pytest.raises(BundleFormatError):
        open_bundle(altered)


def test_repacked_by_a_tar_tool_is_refused(bundle: Receipt, tmp_path: Path) -> None:
    """The same members with other headers are not what was signed."""
    altered = tmp_path / "altered.tar"
    with tarfile.open(altered, "w") as archive:
        for name, content in members_of(bundle.path).items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime = len(content), 1
            archive.addfile(entry, io.BytesIO(content))

    with pytest.raises(BundleFormatError):
        open_bundle(altered)


def _too_good(statement: dict[str, object]) -> None:
    statement["predicate"]["guarantee"]["mu"] = None
    statement["predicate"]["guarantee"]["rho"] *= 0.5


def _wrong_variance(statement: dict[str, object]) -> None:
    statement["predicate"]["columns"][0]["noise"]["variance"] *= 1.01


def _unknown_field(statement: dict[str, object]) -> None:
    statement["predicate"]["remark"] = "hello"


def _code_for_data(statement: dict[str, object]) -> None:
    statement["predicate"]["columns"][0]["kind"] = "os.system"


@pytest.mark.parametrize("change", [_too_good, _wrong_variance, _unknown_field, _code_for_data])
def test_manifests_that_contradict_themselves_are_refused(
    change: Callable[[dict[str, object]], None], bundle: Receipt, key: Ed25519PrivateKey, tmp_path: Path
) -> None:
    """Even a trusted signer's manifest is refused if it states more than its own numbers give."""
    members = members_of(bundle.path)
    members[MANIFEST_NAME] = signed_statement(bundle, key, change)
    altered = tmp_path / "altered.tar"
    write(altered, members)

    with pytest.raises(BundleFormatError, match="not sound"):
        open_bundle(altered)


_LATER = {"format_version": "99"}


def test_unknown_format_version_is_named(bundle: Receipt, key: Ed25519PrivateKey, tmp_path: Path) -> None:
    """A release of a later format is refused with its version, not as damage."""
    members = members_of(bundle.path)
    members[MANIFEST_NAME] = signed_statement(bundle, key, lambda statement: statement["predicate"].update(_LATER))
    altered = tmp_path / "altered.tar"
    write(altered, members)

    with pytest.raises(UnsupportedVersionError, match="99"):
        open_bundle(altered)


def test_signature_by_another_key_under_a_trusted_name_is_refused(bundle: Receipt, tmp_path: Path) -> None:
    """Naming a trusted signer does not help whoever lacks her key."""
    members = members_of(bundle.path)
    honest = Envelope.from_bytes(members[MANIFEST_NAME])
    forged = sign_envelope(honest.payload, Ed25519PrivateKey.generate())
    members[MANIFEST_NAME] = Envelope(honest.payload, honest.signer, forged.signature).to_bytes()
    altered = tmp_path / "altered.tar"
    write(altered, members)

    with pytest.raises(BadSignatureError):
        open_bundle(altered)


def test_another_spelling_of_the_same_envelope_is_refused(bundle: Receipt, tmp_path: Path) -> None:
    """The envelope's JSON with other white space is refused, though it says the same."""
    members = members_of(bundle.path)
    members[MANIFEST_NAME] = json.dumps(json.loads(members[MANIFEST_NAME])).encode()
    altered = tmp_path / "altered.tar"
    write(altered, members)

    with pytest.raises(BundleFormatError):
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


def test_data_that_are_not_what_the_manifest_says_are_refused(
    bundle: Receipt, key: Ed25519PrivateKey, tmp_path: Path
) -> None:
    """A signed bundle whose rows are fewer than promised is refused when they are read."""
    claimed = bundle.release.model_copy(update={"n_rows": bundle.release.n_rows + 1})
    data = io.BytesIO(members_of(bundle.path)["data/part-00000.parquet"])
    with (tmp_path / "claimed.tar").open("wb") as file:
        write_bundle(file, claimed, [data], key)

    with open_bundle(tmp_path / "claimed.tar") as opened, pytest.raises(BundleFormatError, match="promises"):
        list(opened.batches())


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
