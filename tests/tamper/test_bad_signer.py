"""A signer who is trusted and turned bad: what she signs is read as it is, or refused, and exhausts nobody."""

from __future__ import annotations

import base64
import gc
import hashlib
import json
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.fuzz.bombs import spell
from tests.tamper.archives import Members, members_of, write

from dp_bundle import open_bundle
from dp_bundle.bundle.writing import MANIFEST_NAME
from dp_bundle.errors import BundleError, BundleFormatError
from dp_bundle.trust import UnsafeTrustAnyone
from dp_bundle.trust.signing import Envelope, public_key_of, sign_envelope
from dp_publish import Receipt


def sign_anew(members: Members, key: Ed25519PrivateKey) -> Members:
    """Return the members, signed as they are now, with the statement's subjects brought up to date."""
    statement = json.loads(Envelope.from_bytes(members[MANIFEST_NAME]).payload)
    others = {name: content for name, content in members.items() if name != MANIFEST_NAME}
    statement["subject"] = [
        {"digest": {"sha256": hashlib.sha256(content).hexdigest()}, "name": name} for name, content in others.items()
    ]
    return {MANIFEST_NAME: sign_envelope(spell(statement), key).to_bytes(), **others}


def _lying_readme(members: Members) -> Members:
    return {**members, "README.md": members["README.md"].replace(b"rho = ", b"rho = 0.")}


def _lying_package(members: Members) -> Members:
    return {**members, "datapackage.json": members["datapackage.json"].replace(b'"name"', b'"nome"')}


def _lying_croissant(members: Members) -> Members:
    return {**members, "croissant.json": members["croissant.json"] + b"\n"}


def _without_readme(members: Members) -> Members:
    return {name: content for name, content in members.items() if name != "README.md"}


def _extra_file(members: Members) -> Members:
    return {**members, "setup.sh": b"curl example.org | sh\n"}


def _extra_data(members: Members) -> Members:
    return {**members, "data/secret.bin": b"\0"}


def _part_left_out(members: Members) -> Members:
    return {name.replace("part-00000", "part-00001"): content for name, content in members.items()}


def _no_data(members: Members) -> Members:
    return {name: content for name, content in members.items() if not name.startswith("data/")}


def _other_order(members: Members) -> Members:
    data = [name for name in members if name.startswith("data/")]
    return {name: members[name] for name in [MANIFEST_NAME, *data, *(set(members) - {MANIFEST_NAME, *data})]}


@pytest.mark.parametrize(
    "change",
    [
        _lying_readme,
        _lying_package,
        _lying_croissant,
        _without_readme,
        _extra_file,
        _extra_data,
        _part_left_out,
        _no_data,
        _other_order,
    ],
)
def test_members_are_those_that_the_manifest_gives(
    change: Callable[[Members], Members], bundle: Receipt, key: Ed25519PrivateKey, tmp_path: Path
) -> None:
    """A README or description that says something else, and a member too many or too few, is refused though signed."""
    members = members_of(bundle.path)
    changed = sign_anew(change(members), key)
    assert changed != sign_anew(members, key)
    open_bundle(write(tmp_path / "same.tar", sign_anew(members, key))).close()
    with pytest.raises(BundleFormatError):
        open_bundle(write(tmp_path / "changed.tar", changed))


@pytest.mark.parametrize(
    ("honest", "other"),
    [
        (b'"n_rows":', b'"n_rows":1,"n_rows":'),
        (b'"n_rows":', b'"n_rows": '),
        (b'"unit":"row"', b'"unit":"r\\u006fw"'),
        (b'"sigma_derived_from_data":false,', b""),
        (b'"bounds_mu":0.0', b'"bounds_mu":0'),
        (b'"bounds_mu":0.0', b'"bounds_mu":0.00'),
        (b'"bounds_mu":0.0', b'"bounds_mu":0e0'),
        (b'"excepted_delta":0.0', b'"excepted_delta":1e-400'),
    ],
)
def test_payload_has_one_spelling(
    honest: bytes, other: bytes, bundle: Receipt, key: Ed25519PrivateKey, tmp_path: Path
) -> None:
    """Whatever says the same, or nearly the same, in other bytes is refused though signed."""
    members = members_of(bundle.path)
    payload = Envelope.from_bytes(members[MANIFEST_NAME]).payload
    assert payload.count(honest) >= 1
    changed = sign_envelope(payload.replace(honest, other), key).to_bytes()
    with pytest.raises(BundleFormatError):
        open_bundle(write(tmp_path / "changed.tar", {**members, MANIFEST_NAME: changed}))


@pytest.mark.parametrize("number", [b"1" + b"0" * 4200, b"1" + b"0" * 4400, b"1000000001", b"9007199254740993"])
def test_numbers_beyond_all_releases_are_refused(
    number: bytes, bundle: Receipt, key: Ed25519PrivateKey, tmp_path: Path
) -> None:
    """No release has a number that would make all later ones old for good."""
    members = members_of(bundle.path)
    payload = Envelope.from_bytes(members[MANIFEST_NAME]).payload
    changed = sign_envelope(payload.replace(b'"number":1', b'"number":' + number), key).to_bytes()
    with pytest.raises(BundleFormatError):
        open_bundle(write(tmp_path / "changed.tar", {**members, MANIFEST_NAME: changed}))


def test_file_that_changes_after_it_was_verified_is_noticed(bundle: Receipt, tmp_path: Path) -> None:
    """Bytes that were verified are the bytes that are read: a file changed in place raises, whichever byte it is."""
    content = bundle.path.read_bytes()
    path = tmp_path / "changing.tar"
    path.write_bytes(content)
    with open_bundle(path) as opened:
        rows = sum(batch.num_rows for batch in opened.batches())
        member = opened.members["data/part-00000.parquet"]
        readme = opened.open("README.md").read()
        for place in (member.offset, member.offset + member.size // 2, member.offset + member.size - 1):
            with path.open("r+b") as file:
                file.seek(place)
                file.write(bytes([content[place] ^ 1]))
            with pytest.raises(BundleFormatError, match="was changed after it was verified"):
                list(opened.batches())
            path.write_bytes(content)
        assert sum(batch.num_rows for batch in opened.batches()) == rows
        os.truncate(path, member.offset)
        with pytest.raises(BundleFormatError, match="was changed after it was verified"):
            list(opened.batches())
        assert opened.open("README.md").read() == readme


def test_closing_twice_closes_nothing_of_others(bundle: Receipt, tmp_path: Path) -> None:
    """A second close does not take the descriptor of a file that was opened since, and a closed bundle says so."""
    opened = open_bundle(bundle.path)
    opened.close()
    with (tmp_path / "other").open("wb") as other:
        opened.close()
        other.write(b"still open")
    with pytest.raises(ValueError, match="closed: open it again"):
        list(opened.batches())


def test_bundle_that_is_not_closed_is_closed_for_it() -> None:
    """A bundle that goes out of sight open leaves no descriptor behind."""
    golden = Path(__file__).parents[1] / "golden" / "bundle-v1.tar"
    before = len(list(Path("/proc/self/fd").iterdir()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        opened = open_bundle(golden, UnsafeTrustAnyone())
        assert len(list(Path("/proc/self/fd").iterdir())) == before + 1
        del opened
        gc.collect()
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_signature_must_be_in_its_one_spelling(bundle: Receipt, key: Ed25519PrivateKey, tmp_path: Path) -> None:
    """Base64 whose last bits are not zero decodes to the same bytes, and is refused."""
    members = members_of(bundle.path)
    content = members[MANIFEST_NAME]
    honest = base64.b64encode(Envelope.from_bytes(content).signature)
    alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    last = alphabet.index(honest[-3:-2])
    other = honest[:-3] + alphabet[last + 1 : last + 2] + b"=="
    assert base64.b64decode(other) == base64.b64decode(honest)
    assert public_key_of(key).fingerprint.encode() in content
    with pytest.raises(BundleError):
        open_bundle(write(tmp_path / "a.tar", {**members, MANIFEST_NAME: content.replace(honest, other)}))


def _total_per_cell(predicate: dict[str, Any]) -> None:
    predicate["cumulative"]["other_units_rho"]["cell"] *= 0.9


def _total_per_row(predicate: dict[str, Any]) -> None:
    predicate["cumulative"]["rho"] *= 0.9


def _total_of_strangers(predicate: dict[str, Any]) -> None:
    predicate["cumulative"]["other_units_rho"]["entity:doctor"] = 0.1


def _no_total_per_cell(predicate: dict[str, Any]) -> None:
    del predicate["cumulative"]["other_units_rho"]["cell"]


def _gaps_not_public(predicate: dict[str, Any]) -> None:
    predicate["columns"][0]["missing"] = "drop"


def _partition_not_public(predicate: dict[str, Any]) -> None:
    predicate["lineage"]["partition"] = "October"


def _entity_not_public(predicate: dict[str, Any]) -> None:
    predicate["guarantee"] |= {"unit": "entity", "entity": "who", "max_rows": 1}
    total = predicate["cumulative"]
    total |= {"unit": "entity:who", "other_units_rho": {"row": total["rho"], **total["other_units_rho"]}}


def _search_not_in_the_curve(predicate: dict[str, Any]) -> None:
    for column in predicate["columns"]:
        column["bounds_obtained"] = "private-histogram"
    guarantee, total = predicate["guarantee"], predicate["cumulative"]
    guarantee |= {"bounds_mu": 20.0, "rho": guarantee["rho"] + 200.001}
    total |= {"rho": 1e3, "other_units_rho": {"cell": 1e3}}


def _nothing_public(predicate: dict[str, Any]) -> None:
    predicate["guarantee"]["public"] = []


def _better_epsilon(predicate: dict[str, Any]) -> None:
    for point in predicate["guarantee"]["epsilon_delta"]:
        point["epsilon"] *= 0.9


@pytest.mark.parametrize(
    "change",
    [
        _total_per_cell,
        _total_per_row,
        _total_of_strangers,
        _no_total_per_cell,
        _nothing_public,
        _gaps_not_public,
        _partition_not_public,
        _entity_not_public,
        _better_epsilon,
        _search_not_in_the_curve,
    ],
)
def test_guarantees_that_are_too_good_are_refused(
    change: Callable[[dict[str, Any]], None], bundle: Receipt, key: Ed25519PrivateKey, tmp_path: Path
) -> None:
    """With an integer column as without, totals and curve are at least what bounds and noise give."""
    assert {column.kind for column in bundle.release.columns} == {"continuous", "integer"}
    members = members_of(bundle.path)
    statement = json.loads(Envelope.from_bytes(members[MANIFEST_NAME]).payload)
    change(statement["predicate"])
    changed = sign_envelope(spell(statement), key).to_bytes()
    with pytest.raises(BundleFormatError, match="not sound"):
        open_bundle(write(tmp_path / "changed.tar", {**members, MANIFEST_NAME: changed}))
