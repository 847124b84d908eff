"""Statements about keys: who may make them, whom they bind, and which hostile ones are refused."""

import dataclasses
import json
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.unit.common.trust.test_store import sighting

from dp_bundle.base.errors import BundleError, RevokedKeyError, UntrustedKeyError
from dp_bundle.trust.judging import (
    STATEMENT_TYPE,
    Revocation,
    Rotation,
    TrustedKey,
    UnsafeTrustAnyone,
    sign_statement,
)
from dp_bundle.trust.signing import PublicKey, encode_pre_authentication, join_signatures, public_key_of
from dp_bundle.trust.store import Sighting, TrustStore, accept_statement

PRIVATE = [Ed25519PrivateKey.from_private_bytes(bytes([number] * 32)) for number in range(1, 5)]
KEYS = [public_key_of(key) for key in PRIVATE]
FAR, PAST = "2999-01-01", "2020-01-01"


def rotation(
    old: int = 0, new: int = 1, datasets: list[str] | None = None, expires: str = FAR, signers: tuple[int, ...] = ()
) -> bytes:
    """Return a rotation signed by both keys, unless others are given."""
    statement = Rotation(KEYS[old].fingerprint, KEYS[new].fingerprint, datasets, "2026-11-23", expires)
    return sign_statement(statement, *(PRIVATE[each] for each in signers or (old, new)))


def revocation(key: int = 0, by: int = 0, releases: dict[str, int] | None = None) -> bytes:
    """Return a revocation."""
    statement = Revocation(KEYS[key].fingerprint, "2026-11-01", "2026-11-23", releases or {})
    return sign_statement(statement, PRIVATE[by])


def verdict(subject: PublicKey | bytes, *release: Sighting, **choices: bool) -> str:
    """Return what the store of this test says of a key's release, or of a statement: notes, or the refusal."""
    try:
        if isinstance(subject, bytes):
            return accept_statement(TrustStore(), subject)
        return "; ".join(TrustStore().admit(subject, *release, **choices))
    except BundleError as error:
        return f"{type(error).__name__}: {error}" if isinstance(subject, bytes) else type(error).__name__


@pytest.fixture
def store(home: Path) -> TrustStore:
    """Return a store that trusts the first key."""
    store = TrustStore()
    store.add(KEYS[0], "office")
    return store


def test_successor_is_trusted_and_continues_the_chain(store: TrustStore) -> None:
    """After a rotation the new key signs, and rollbacks and forks across the two keys are noticed."""
    store.admit(KEYS[0], sighting(3))
    assert "successor" in accept_statement(store, rotation())
    assert store.require(KEYS[1]) == TrustedKey(KEYS[1], "office", predecessors=(KEYS[0],))
    assert store.admit(KEYS[1], sighting(4)) == ()
    assert verdict(KEYS[1], sighting(2)) == "OlderReleaseError"
    assert verdict(KEYS[1], sighting(3, digest="f" * 64)) == "EquivocationError"
    assert verdict(KEYS[0], sighting(4, digest="f" * 64)) == "EquivocationError"


@pytest.mark.parametrize("signers", [(0,), (1,), (0, 2), (0, 1, 2)])
def test_rotation_needs_both_keys_and_no_others(store: TrustStore, signers: tuple[int, ...]) -> None:
    """Nobody names another's key as his successor, or himself as another's."""
    assert verdict(rotation(signers=signers)).startswith("KeyStatementError")


def test_rotation_by_untrusted_or_revoked_key_is_refused(store: TrustStore) -> None:
    """Only a key that is trusted and was not revoked has successors, until the last day that the statement names."""
    assert "expired on 2020-01-01: ask the publisher" in verdict(rotation(expires=PAST))
    with pytest.raises(UntrustedKeyError):
        store.require(KEYS[1])
    assert verdict(rotation(2, 3)).startswith("UntrustedKeyError")
    accept_statement(store, revocation())
    assert "was revoked, with effect since 2026-11-01" in verdict(rotation())


def test_circles_and_branches_of_keys_are_refused(store: TrustStore) -> None:
    """A key does not return, has one successor, and succeeds one key; the same rotation again changes nothing."""
    accept_statement(store, rotation(0, 1))
    accept_statement(store, rotation(0, 1))
    accept_statement(store, rotation(1, 2))
    assert "came before" in verdict(rotation(2, 0))
    assert "another successor before" in verdict(rotation(0, 3))
    assert "old key and by the new one" in verdict(rotation(0, 0, signers=(0,)))


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_one_line_has_one_root_in_whatever_order_its_rotations_come(store: TrustStore, order: tuple[int, ...]) -> None:
    """Four keys are one publisher's, also where a later rotation is accepted first; a narrower scope stays narrow.

    Each sentence names the old key as it is trusted here.
    """
    for key in KEYS[1:]:
        store.add(key, "heir")
    for old in order:
        said = accept_statement(store, rotation(old, old + 1, ["wine"] if old == 1 else None))
        assert f"the successor of {KEYS[old].fingerprint} ({'heir' if old else 'office'})" in said
    assert {store.require(key).root for key in KEYS} == {KEYS[0]}
    assert [store.require(key).datasets for key in KEYS] == [None, None, ("wine",), ("wine",)]
    store.remove(KEYS[2])
    assert UnsafeTrustAnyone(store.entries()).require(KEYS[2]).root == KEYS[0]


def test_rotation_for_one_dataset_does_not_reach_others(store: TrustStore) -> None:
    """A successor for one dataset signs no other, and a scope that the reader does not trust gives nothing."""
    accept_statement(store, rotation(datasets=["wine"]))
    store.admit(KEYS[1], sighting(1))
    with pytest.raises(UntrustedKeyError, match="for other datasets"):
        store.admit(KEYS[1], sighting(1, dataset="beer"))
    store.keep(TrustedKey(KEYS[2], "cellar", datasets=("beer",)))
    assert "not trusted here" in verdict(rotation(2, 3, datasets=["wine"]))


def test_revoked_key_keeps_only_what_was_verified_before(store: TrustStore) -> None:
    """Of a revoked key, releases seen before the named one stay good; unseen, altered and later ones are refused."""
    for number in (2, 3, 5):
        store.admit(KEYS[0], sighting(number))
    assert "2 releases" in accept_statement(store, revocation(releases={"wine": 5}))
    store.admit(KEYS[0], sighting(3))
    for refused in (sighting(1), sighting(5), sighting(6), sighting(3, digest="f" * 64), sighting(2, dataset="beer")):
        with pytest.raises(RevokedKeyError, match="since 2026-11-01") as caught:
            store.admit(KEYS[0], refused, allow_older=True)
        assert caught.value.exit_code == 3
    assert "releases 2, 3" in str(_refusal(store, sighting(6)))


def _refusal(store: TrustStore, release: Sighting) -> RevokedKeyError:
    with pytest.raises(RevokedKeyError) as caught:
        store.admit(KEYS[0], release)
    return caught.value


def test_revocation_outlives_trust_and_can_only_grow(store: TrustStore) -> None:
    """Trusting a revoked key anew does not heal it, nor does a second, milder revocation."""
    store.admit(KEYS[0], sighting(3))
    accept_statement(store, revocation(releases={"wine": 2}))
    accept_statement(store, revocation(releases={"wine": 9}))
    store.remove(KEYS[0])
    store.add(KEYS[0], "again")
    _refusal(store, sighting(3))


def test_successors_revoke_and_strangers_do_not(store: TrustStore) -> None:
    """A stranger, or a successor for one dataset only, cannot take a key back; a successor for all can."""
    assert "not its successor" in verdict(revocation(by=1))
    accept_statement(store, rotation(datasets=["wine"]))
    assert "not its successor" in verdict(revocation(by=1))
    accept_statement(store, rotation())
    assert "stays trusted" in accept_statement(store, revocation(by=1))
    _refusal(store, sighting(1))
    assert store.admit(KEYS[1], sighting(1)) == ()


def _sealed(document: object, kind: str = STATEMENT_TYPE) -> bytes:
    payload = json.dumps(document, sort_keys=True, separators=(",", ":")).encode()
    signed = encode_pre_authentication(payload, kind)
    return join_signatures(payload, kind, [(KEYS[each], PRIVATE[each].sign(signed)) for each in (0, 1)])


def test_hostile_statements_are_refused(store: TrustStore) -> None:
    """Another payload type, an unknown statement, a bad date, a further field or too many bytes change nothing."""
    good = dataclasses.asdict(Rotation(KEYS[0].fingerprint, KEYS[1].fingerprint, None, "2026-11-23", FAR))
    bad = [
        _sealed(good, "application/vnd.in-toto+json"),
        _sealed({**good, "type": "promotion"}),
        _sealed({**good, "expires": "2999-02-30"}),
        _sealed({**good, "more": 1}),
        _sealed({**good, "datasets": []}),
        _sealed({**good, "datasets": ["x" * 30_000]}),
        _sealed([]),
        b"{" * 20_000,
    ]
    for content in bad:
        assert verdict(content).startswith("KeyStatementError")
    assert store.keys() == [TrustedKey(KEYS[0], "office")]
