"""A signer who is trusted and turned bad: what she signs is read as it is, or refused, and exhausts nobody."""

from __future__ import annotations

import base64
import gc
import hashlib
import io
import json
import math
import os
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.fuzz.bombs import BOMBS, spell
from tests.fuzz.hostile import COLUMN, N_ROWS, PARTS, honest
from tests.tamper.archives import Members, members_of, write

from dp_bundle import open_bundle
from dp_bundle.bundle.writing import MANIFEST_NAME
from dp_bundle.data.rows import read_parts
from dp_bundle.errors import BundleError, BundleFormatError, UntrustedKeyError
from dp_bundle.manifest.columns import Noise
from dp_bundle.manifest.statement import Statement
from dp_bundle.trust import UnsafeTrustAnyone
from dp_bundle.trust.signing import Envelope, public_key_of, sign_envelope
from dp_publish import Receipt
from dp_publish.accounting.conversions import epsilon_for_delta

ROOT = Path(__file__).parents[2]


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


MEASURE = """
import re, sys, time
from pathlib import Path
from dp_bundle import open_bundle
from dp_bundle.trust import UnsafeTrustAnyone
from dp_bundle.errors import BundleError
used = time.process_time()
try:
    with open_bundle(sys.argv[1], UnsafeTrustAnyone()) as opened:
        rows = sum(batch.num_rows for batch in opened.batches()) if opened.release.kind == "rows" else 0
        if opened.release.kind != "rows":
            opened.second_moments()
except BundleError as error:
    print(error, file=sys.stderr)
peak = re.search(r"VmHWM:\\s*(\\d+) kB", Path("/proc/self/status").read_text())
print(time.process_time() - used, int(peak.group(1)) / 1024)
"""


@pytest.fixture
def measured() -> Callable[[Path], tuple[float, float]]:
    """Return the processor seconds and the megabytes that it takes another process to read a file, or refuse it."""

    def measure(path: Path) -> tuple[float, float]:
        done = subprocess.run([sys.executable, "-c", MEASURE, path], capture_output=True, text=True, check=True)
        seconds, megabytes = map(float, done.stdout.split())
        return seconds, megabytes

    return measure


@pytest.mark.parametrize("bomb", BOMBS)
def test_manifest_of_a_stranger_costs_next_to_nothing(bomb: str, tmp_path: Path) -> None:
    """Before the signer is known nothing but the envelope's ends is looked at, whatever is in between."""
    stranger = Ed25519PrivateKey.generate()
    content = sign_envelope(BOMBS[bomb], stranger).to_bytes()
    path = write(tmp_path / "bomb.tar", {MANIFEST_NAME: content})
    before, used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    with pytest.raises(UntrustedKeyError):
        open_bundle(path)
    assert time.process_time() - used < 0.05
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1024


@pytest.mark.slow
@pytest.mark.parametrize("bomb", BOMBS)
def test_manifest_of_a_bad_signer_costs_little(bomb: str, tmp_path: Path, measured: Callable[..., Any]) -> None:
    """A manifest of the largest size that is no release is refused within a second and 256 megabytes."""
    content = sign_envelope(BOMBS[bomb], Ed25519PrivateKey.generate()).to_bytes()
    seconds, megabytes = measured(write(tmp_path / "bomb.tar", {MANIFEST_NAME: content}))
    assert seconds < 1.0
    assert megabytes < 256


def test_archive_of_many_members_is_not_scanned_before_it_is_signed(tmp_path: Path) -> None:
    """65,536 headers are looked at only where a trusted signer has signed as many."""
    content = sign_envelope(b"{}", Ed25519PrivateKey.generate()).to_bytes()
    members = {MANIFEST_NAME: content} | {f"data/part-{index:05d}.parquet": b"" for index in range(65_000)}
    path = write(tmp_path / "many.tar", members)
    used = time.process_time()
    with pytest.raises(UntrustedKeyError):
        open_bundle(path)
    with pytest.raises(BundleFormatError):
        open_bundle(path, UnsafeTrustAnyone())
    assert time.process_time() - used < 0.1


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


READ_ALL = """
import io, json, re, sys, time
from pathlib import Path
from dp_bundle.errors import BundleFormatError
from dp_bundle.data.rows import read_parts
from tests.fuzz.hostile import COLUMN, N_ROWS, PARTS
status, found = Path("/proc/self/status"), {}
contents = {name: make() for name, make in PARTS.items()}
for name, content in contents.items():
    print(name, file=sys.stderr)
    Path("/proc/self/clear_refs").write_text("5")
    before, used = int(re.search(r"VmHWM:\\s*(\\d+)", status.read_text())[1]), time.process_time()
    try:
        rows = sum(batch.num_rows for batch in read_parts([("part", io.BytesIO(content))], (COLUMN,), 2 * N_ROWS))
        outcome = f"{rows} rows"
    except BundleFormatError as error:
        outcome = "promises" if "promises" in str(error) else "refused"
    except Exception as error:
        outcome = repr(error)
    used, peak = time.process_time() - used, int(re.search(r"VmHWM:\\s*(\\d+)", status.read_text())[1])
    found[name] = [outcome, used, (peak - before) / 1024]
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def outcomes() -> dict[str, tuple[str, float, float]]:
    """Return what another process makes of every hostile part: its outcome, processor seconds and megabytes."""
    done = subprocess.run([sys.executable, "-c", READ_ALL], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, f"ended by {done.returncode} at {done.stderr[-200:]}"
    outcomes: dict[str, tuple[str, float, float]] = json.loads(done.stdout)
    return outcomes


@pytest.mark.parametrize("name", PARTS)
def test_hostile_parts_are_refused_by_their_headers(name: str, outcomes: dict[str, tuple[str, float, float]]) -> None:
    """A footer or page header that no release has is refused in no time, by our own exception, and ends no process."""
    outcome, seconds, megabytes = outcomes[name]
    assert outcome == "refused"
    assert seconds < 0.2
    assert megabytes < 16


def test_parts_are_compared_with_what_the_manifest_promises() -> None:
    """However many rows a manifest promises, an honest part is read, and then found to be too small."""
    content = honest()
    assert sum(batch.num_rows for batch in read_parts([("part", io.BytesIO(content))], (COLUMN,), N_ROWS)) == N_ROWS
    for n_rows in (N_ROWS + 1, 2**31, 2**49, 2**53):
        with pytest.raises(BundleFormatError, match="promises"):
            list(read_parts([("part", io.BytesIO(content))], (COLUMN,), n_rows))


def _integer_columns(widths: list[int], sigmas: list[float]) -> list[dict[str, Any]]:
    """Return columns of a manifest that all differ."""
    column = {"kind": "integer", "bounds_obtained": "declared", "missing": "refuse", "unit": "", "description": ""}
    return [
        column
        | {"name": f"c{index}", "bounds": [0.0, float(width)], "ball": None, "fill": None}
        | {"noise": Noise.discrete_gaussian(sigma).model_dump()}
        for index, (width, sigma) in enumerate(zip(widths, sigmas, strict=True))
    ]


@pytest.mark.parametrize("unit", ["cell", "row"])
@pytest.mark.parametrize("sigma", [5.0, 100.0, 1e6])
def test_wide_integer_tables_are_checked_at_once(unit: str, sigma: float, bundle: Receipt) -> None:
    """Thousands of columns that all differ are checked in a moment, and an epsilon a tenth too good is refused."""
    sigmas = [sigma * (1 + index / 3000) for index in range(3000)]
    widths = [max(1, round(each / 20)) for each in sigmas]
    mus = [width / each for width, each in zip(widths, sigmas, strict=True)]
    cell, row = max(mus), math.hypot(*mus)
    statement = json.loads(Envelope.from_bytes(members_of(bundle.path)[MANIFEST_NAME]).payload)
    predicate = statement["predicate"]
    predicate["columns"] = _integer_columns(widths, sigmas)
    mu, other = (cell, row) if unit == "cell" else (row, cell)
    predicate["guarantee"] |= {"unit": unit, "rho": 0.50001 * mu**2}
    total = {"unit": unit, "rho": 0.50001 * mu**2}
    others = {"row" if unit == "cell" else "cell": 0.50001 * other**2}
    predicate["cumulative"] |= {**total, "other_units_rho": others}

    def read(factor: float) -> float:
        points = [(delta, factor * epsilon_for_delta(mu, delta)) for delta in (1e-4, 1e-6, 1e-10)]
        predicate["guarantee"]["epsilon_delta"] = [{"delta": delta, "epsilon": epsilon} for delta, epsilon in points]
        content = spell(statement)
        used = time.process_time()
        Statement.from_bytes(content)
        return time.process_time() - used

    assert read(1.05) < 1.0
    with pytest.raises(BundleFormatError, match="epsilon is smaller"):
        read(0.9)
