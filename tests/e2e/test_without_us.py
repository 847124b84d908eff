"""Verifiers that have nothing of ours in them accept a good bundle, and refuse it with any one bit changed."""

import base64
import importlib.util
import json
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pandas as pd
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from securesystemslib import dsse
from securesystemslib.signer import SSlibKey
from tests.tamper.archives import members_of

from dp_bundle.bundle.packing import minisig_path
from dp_bundle.bundle.writing import MANIFEST_NAME
from dp_bundle.trust.signing import Envelope, PublicKey, minisign_public_key, public_key_of
from dp_publish import Policy, publish
from dp_publish.release.publishing import sign_beside

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "examples" / "verify_without_dpgraph.py"
FLIPS = 200


@pytest.fixture(scope="module")
def script() -> ModuleType:
    """Return the example as a module."""
    spec = importlib.util.spec_from_file_location("verify_without_dpgraph", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def signed(tmp_path: Path, table: pd.DataFrame, policy: Policy, key: Ed25519PrivateKey) -> Path:
    """Publish a small table, with the signature for minisign beside it."""
    receipt = publish(table, policy, out=tmp_path / "people.bundle.tar", key=key)
    assert sign_beside(receipt, key)[1] == ""
    return receipt.path


def flipped(content: bytes, seed: int, *, skip: frozenset[int] = frozenset()) -> Iterator[bytes]:
    """Yield the content with one bit changed, at places drawn over all of it."""
    places = [place for place in random.Random(seed).sample(range(8 * len(content)), FLIPS + 50) if place not in skip]
    for place in places[:FLIPS]:
        changed = bytearray(content)
        changed[place // 8] ^= 1 << place % 8
        yield bytes(changed)


def run_alone(*words: object) -> subprocess.CompletedProcess[str]:
    """Run the script where nothing of ours can be imported."""
    return subprocess.run([sys.executable, "-I", SCRIPT, *words], capture_output=True, text=True, check=False)


def test_script_is_a_page_that_knows_nothing_of_ours(tmp_path: Path, signed: Path, key: Ed25519PrivateKey) -> None:
    """It has fewer than 120 lines, imports the standard library and cryptography alone, and refuses in one line.

    It takes the file of the key, too.
    """
    pem = tmp_path / "publisher.pub"
    pem.write_bytes(public_key_of(key).to_pem())
    assert "every byte is as it was signed" in run_alone(signed, pem).stdout
    text = SCRIPT.read_text()
    assert len(text.splitlines()) < 120
    names = {line.split()[1].split(".")[0] for line in text.splitlines() if line.startswith(("import ", "from "))}
    assert names - set(sys.stdlib_module_names) == {"cryptography"}

    stranger = public_key_of(Ed25519PrivateKey.generate()).fingerprint
    for words in ([signed, stranger], [tmp_path / "none.tar", stranger], [signed, "ed25519:12"]):
        done = run_alone(*words)
        assert done.returncode == 1
        assert done.stderr.startswith("refused: ")
        assert len(done.stderr.splitlines()) == 1
        assert done.stdout == ""


def test_script_refuses_every_changed_bit(
    signed: Path, key: Ed25519PrivateKey, script: ModuleType, tmp_path: Path
) -> None:
    """The independent script accepts the bundle, and refuses 200 single-bit changes over all of the file."""
    raw = public_key_of(key).raw
    assert script.verify(signed, raw)["predicate"]["dataset"]["name"] == "people"
    altered = tmp_path / "altered.tar"
    for content in flipped(signed.read_bytes(), 1):
        altered.write_bytes(content)
        with pytest.raises(script.RefusedError):
            script.verify(altered, raw)


@pytest.mark.tools
def test_minisign_refuses_every_changed_bit(signed: Path, key: Ed25519PrivateKey, tmp_path: Path) -> None:
    """The stock minisign accepts the bundle, and refuses 200 single-bit changes over all of the file."""
    pub, altered = tmp_path / "minisign.pub", tmp_path / "altered.tar"
    pub.write_bytes(minisign_public_key(public_key_of(key)))
    verify = ["minisign", "-V", "-q", "-p", pub, "-x", minisig_path(signed), "-m"]
    assert subprocess.run([*verify, signed], capture_output=True, check=False).returncode == 0
    for content in flipped(signed.read_bytes(), 2):
        altered.write_bytes(content)
        assert subprocess.run([*verify, altered], capture_output=True, check=False).returncode != 0


def _accepts(content: bytes, key: PublicKey) -> bool:
    """Return True if securesystemslib accepts an envelope by a key."""
    known = SSlibKey(key.fingerprint, "ed25519", "ed25519", {"public": key.raw.hex()})
    try:
        envelope = dsse.Envelope.from_dict(json.loads(content))
        return bool(envelope.verify([known], 1))
    except Exception:
        return False


def test_securesystemslib_refuses_every_changed_bit(signed: Path, key: Ed25519PrivateKey) -> None:
    """Securesystemslib refuses 200 single-bit changes of the envelope, which is all of the bundle that it sees.

    Bits at the end of a text in base64 that stand for nothing are left out: it ignores them, where our readers do not.
    """
    content, public = members_of(signed)[MANIFEST_NAME], public_key_of(key)
    assert _accepts(content, public)
    envelope = Envelope.from_bytes(content)
    free = frozenset[int]()
    for part in (envelope.payload, envelope.signature):
        text = base64.b64encode(part)
        last = content.index(text) + len(text.rstrip(b"=")) - 1
        free |= {8 * last + bit for bit in range(8)} if text.endswith(b"=") else set()
    assert not any(_accepts(altered, public) for altered in flipped(content, 3, skip=free))
