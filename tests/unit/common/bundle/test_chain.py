"""The chain of a dataset's releases in a folder: what is missing, forked, rolled back, foreign or damaged is named."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.conftest import make_policy

from dp_bundle.base.errors import BrokenChainError, MissingValuesError
from dp_bundle.bundle.inspection import Chain, check_chain
from dp_bundle.bundle.reading import open_bundle
from dp_bundle.trust.judging import Revocation, Rotation, UnsafeTrustAnyone, sign_statement
from dp_bundle.trust.signing import PublicKey, public_key_of
from dp_bundle.trust.store import TrustStore, accept_statement
from dp_publish import Policy, publish

OLD, NEW = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
DAYS = "2026-11-01", "2999-12-31"


def policy_for(name: str) -> Policy:
    """Return the policy of a dataset."""
    return make_policy({"height": [120, 220]}, name=name, mu=2.0)


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Publish three releases, a fourth with the successor's key, three by another ledger, and another dataset's."""
    folder = tmp_path_factory.mktemp("published")
    table = pd.DataFrame({"height": np.random.default_rng(3).normal(170, 10, 60)})
    made = [(f"{number}.tar", "heights", "one", OLD) for number in (1, 2, 3)]
    made += [("4.tar", "heights", "one", NEW), ("other.tar", "weights", "one", OLD)]
    made += [(f"fork-{number}.tar", "heights", "two", OLD) for number in (1, 2, 3)]
    with pytest.MonkeyPatch.context() as patch:
        for file, name, ledger, key in made:
            patch.setenv("DPGRAPH_HOME", str(folder / ledger))
            publish(table, policy_for(name), out=folder / file, key=key)
        yield folder


@pytest.fixture
def store(home: Path) -> TrustStore:
    """Return a store that trusts the first key, and followed its rotation."""
    store = TrustStore()
    store.add(public_key_of(OLD), "office")
    old, new = (public_key_of(key).fingerprint for key in (OLD, NEW))
    accept_statement(store, sign_statement(Rotation(old, new, None, *DAYS), OLD, NEW))
    return store


@pytest.fixture
def folder(published: Path, tmp_path: Path) -> Path:
    """Return a folder with the four releases, one of them deeper."""
    (tmp_path / "all" / "deep").mkdir(parents=True)
    for place, name in (("deep", "1.tar"), ("", "2.tar"), ("", "3.tar"), ("", "4.tar")):
        shutil.copy(published / name, tmp_path / "all" / place)
    return tmp_path / "all"


def check(path: Path, folder: Path, store: TrustStore, *, any_signer: bool = False) -> Chain:
    """Verify a bundle, and its chain."""
    with open_bundle(path, UnsafeTrustAnyone() if any_signer else store) as bundle:
        return check_chain(bundle, folder, store, any_signer=any_signer)


def refusal(path: Path, folder: Path, store: TrustStore) -> tuple[str, ...]:
    """Return what breaks a chain."""
    with pytest.raises(BrokenChainError) as caught:
        check(path, folder, store)
    assert (caught.value.exit_code, caught.value.dataset, "\n" in str(caught.value)) == (3, "heights", False)
    return caught.value.problems


def digest(path: Path) -> str:
    """Return the first digits of a bundle's manifest's digest."""
    with open_bundle(path, UnsafeTrustAnyone()) as bundle:
        return bundle.manifest_sha256[:12]


def test_whole_chain_across_a_rotation_is_good(published: Path, folder: Path, store: TrustStore) -> None:
    """All releases count, a copy of one and the bundle itself once; other datasets and other files are left out."""
    shutil.copy(published / "other.tar", folder)
    shutil.copy(published / "2.tar", folder / "copy.tar")
    (folder / "4.tar.minisig").write_text("beside")
    for given in (folder / "4.tar", published / "4.tar"):
        chain = check(given, folder, store)
        assert ([link.number for link in chain.releases], chain.others) == ([1, 2, 3, 4], 1)
        assert [link.signer for link in chain.releases] == [public_key_of(OLD)] * 3 + [public_key_of(NEW)]
    assert (
        check(folder / "4.tar", folder, store, any_signer=True).releases
        == check(folder / "4.tar", folder, store).releases
    )


def test_missing_release_is_named_with_the_digest_that_its_follower_states(folder: Path, store: TrustStore) -> None:
    """Without the second of four, and without the first ones, the chain is broken where they were."""
    gone = digest(folder / "2.tar")
    (folder / "2.tar").unlink()
    third = digest(folder / "3.tar")
    (said,) = refusal(folder / "4.tar", folder, store)
    assert said == (
        f"release 2 is missing: release 3 ({third}...) follows one with the manifest {gone}..., which is not here"
    )
    (folder / "deep" / "1.tar").unlink()
    assert refusal(folder / "4.tar", folder, store)[0].startswith("releases 1 to 2 are missing: release 3 ")


def test_two_releases_of_one_number_are_a_fork(published: Path, folder: Path, store: TrustStore) -> None:
    """Both are named by digest and file, and the release that does not follow the one before it, too."""
    shutil.copy(published / "fork-2.tar", folder)
    said = refusal(folder / "4.tar", folder, store)
    one, other = digest(folder / "2.tar"), digest(folder / "fork-2.tar")
    assert sum("a fork: there are two releases 2" in each for each in said) == 1
    assert all(f"{each}... in " in said[0] for each in (one, other))


def test_release_that_was_seen_and_is_gone_is_a_rollback(published: Path, folder: Path, store: TrustStore) -> None:
    """A folder that ends before what was verified here, or holds another release than that, is refused."""
    for number in (1, 2, 3, 4):
        open_bundle(published / f"{number}.tar", store).close()
    newest = digest(folder / "4.tar")
    (folder / "4.tar").unlink()
    (said,) = refusal(folder / "3.tar", folder, store)
    assert said.startswith(f"rolled back: release 4 ({newest}...), which was verified here before, is missing")


def test_what_does_not_verify_or_is_by_another_is_said(published: Path, folder: Path, store: TrustStore) -> None:
    """A damaged file, a file that is no bundle, and a release by a key outside the line break the chain."""
    content = bytearray((published / "3.tar").read_bytes())
    content[len(content) // 2] ^= 1
    (folder / "damaged.tar").write_bytes(content)
    (folder / "none.tar").write_bytes(b"no bundle")
    said = refusal(folder / "4.tar", folder, store)
    assert len(said) == 2
    assert all(name in each for name, each in zip(("damaged.tar", "none.tar"), said, strict=True))

    stranger = TrustStore(store.folder.parent / "without-rotation")
    stranger.add(public_key_of(OLD), "office")
    for name in ("damaged.tar", "none.tar"):
        (folder / name).unlink()
    (said_of_new,) = [each for each in refusal(folder / "3.tar", folder, stranger) if "4.tar" in each]
    assert f"signed by {public_key_of(NEW).fingerprint}, which is not the key" in said_of_new


def test_releases_of_a_revoked_key_break_a_chain_unless_verified_before(
    published: Path, folder: Path, store: TrustStore
) -> None:
    """After a revocation, what was verified before it stays in the chain, and the rest is refused."""
    for number in (1, 2):
        open_bundle(published / f"{number}.tar", store).close()
    old: PublicKey = public_key_of(OLD)
    accept_statement(store, sign_statement(Revocation(old.fingerprint, DAYS[0], DAYS[0], {}), NEW))
    said = refusal(folder / "4.tar", folder, store)
    assert ["was revoked" in each for each in said] == [True, *[False] * (len(said) - 1)]
    assert "3.tar" in said[0]


def test_cancelled_number_is_no_gap(tmp_path: Path, home: Path) -> None:
    """A number whose release was cancelled, as its table had gaps, leaves no hole in the chain."""
    table = pd.DataFrame({"height": np.linspace(150, 190, 50)})
    store = TrustStore()
    store.add(public_key_of(OLD), "office")
    publish(table, policy_for("heights"), out=tmp_path / "first.tar", key=OLD)
    with pytest.raises(MissingValuesError):
        publish(table.assign(height=np.nan), policy_for("heights"), out=tmp_path / "none.tar", key=OLD)
    publish(table, policy_for("heights"), out=tmp_path / "last.tar", key=OLD)
    assert [link.number for link in check(tmp_path / "last.tar", tmp_path, store).releases] == [1, 3]
