"""A bundle that no trusted publisher signed byte for byte is refused, and a costly file costs little."""

import io
import json
import math
import random
import resource
import subprocess
import sys
import time
import timeit
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.fuzz.bombs import BOMBS, spell
from tests.fuzz.hostile import PARTS
from tests.tamper.archives import members_of, refuse_flipped_bits, write

from dp_bundle import open_bundle
from dp_bundle.base.errors import BundleFormatError, UntrustedKeyError
from dp_bundle.bundle.writing import MANIFEST_NAME, write_bundle
from dp_bundle.cli.console import run
from dp_bundle.cli.main import cli as bundle_cli
from dp_bundle.manifest.columns import Noise
from dp_bundle.manifest.release import Statement
from dp_bundle.trust.judging import UnsafeTrustAnyone
from dp_bundle.trust.signing import Envelope, sign_envelope
from dp_learn.cli.main import cli as learn_cli
from dp_publish import Policy, Receipt, publish
from dp_publish.accounting.conversions import epsilon_for_delta
from dp_publish.policy.model import Privacy

ROOT = Path(__file__).parents[2]
MEASURE = """
import json, re, sys, time
from pathlib import Path
from dp_bundle import open_bundle
from dp_bundle.trust.judging import UnsafeTrustAnyone
from dp_bundle.base.errors import BundleError
used = time.process_time()
try:
    with open_bundle(sys.argv[1], UnsafeTrustAnyone()) as opened:
        rows = sum(batch.num_rows for batch in opened.batches()) if opened.release.kind == "rows" else 0
        if opened.release.kind != "rows":
            opened.second_moments()
except BundleError as error:
    print(error, file=sys.stderr)
used = time.process_time() - used
peak = re.search(r"VmHWM:\\s*(\\d+) kB", Path("/proc/self/status").read_text())
content = json.dumps(dict.fromkeys(map(str, range(690_000)), 0))
pace = time.process_time()
json.loads(content)
pace = time.process_time() - pace
print(used / pace, int(peak.group(1)) / 1024)
"""


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


@pytest.fixture
def covariance(tmp_path: Path, table: pd.DataFrame, policy: Policy, key: Ed25519PrivateKey) -> Receipt:
    """Publish the small table's second moments."""
    privacy = Privacy(release="covariance", mechanism="gaussian", mu=1.0)
    own = policy.model_copy(update={"privacy": privacy})
    return publish(table, own, out=tmp_path / "covariance.tar", key=key)


def test_covariance_bits_matter_too(covariance: Receipt, tmp_path: Path) -> None:
    """One flipped bit anywhere in a covariance bundle is refused."""
    refuse_flipped_bits(covariance.path, tmp_path / "altered.tar", flips=100, seed=7)


def test_rows_passed_off_as_a_matrix_are_refused(
    covariance: Receipt, bundle: Receipt, key: Ed25519PrivateKey, tmp_path: Path
) -> None:
    """The data of one kind under the manifest of the other are refused, whichever way they are asked for."""
    rows = members_of(bundle.path)["data/part-00000.parquet"]
    with (tmp_path / "a.tar").open("wb") as file:
        write_bundle(file, covariance.release, [io.BytesIO(rows)], key)
    with open_bundle(tmp_path / "a.tar") as opened:
        with pytest.raises(BundleFormatError, match="columns that its manifest describes"):
            opened.second_moments()
        with pytest.raises(BundleFormatError, match="no rows"):
            opened.batches()


@pytest.fixture
def measured() -> Callable[[Path], tuple[float, float]]:
    """Return what it takes another process to read or refuse a file.

    In megabytes, and in the time that Python's own reader of JSON takes for the longest manifest: a slow machine is no
    failure.
    """

    def measure(path: Path) -> tuple[float, float]:
        done = subprocess.run([sys.executable, "-c", MEASURE, path], capture_output=True, text=True, check=True)
        readings, megabytes = map(float, done.stdout.split())
        return readings, megabytes

    return measure


def least(call: Callable[[], object]) -> float:
    """Return the least processor time of three calls."""
    return min(timeit.repeat(call, timer=time.thread_time, repeat=3, number=1))


@pytest.fixture(scope="module")
def reading() -> float:
    """Return the time that Python's own reader of JSON takes for a tenth of the longest manifest."""
    content = json.dumps(dict.fromkeys(map(str, range(69_000)), 0))
    return least(lambda: json.loads(content))


def refuse(path: Path, error: type[Exception], *trust: Any) -> None:
    """Refuse a bundle."""
    with pytest.raises(error):
        open_bundle(path, *trust)


@pytest.mark.parametrize("bomb", BOMBS)
def test_manifest_of_a_stranger_costs_next_to_nothing(bomb: str, tmp_path: Path, reading: float) -> None:
    """Before the signer is known nothing but the envelope's ends is looked at, whatever is in between."""
    stranger = Ed25519PrivateKey.generate()
    content = sign_envelope(BOMBS[bomb], stranger).to_bytes()
    path = write(tmp_path / "bomb.tar", {MANIFEST_NAME: content})
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert least(lambda: refuse(path, UntrustedKeyError)) < reading
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1024


@pytest.mark.slow
@pytest.mark.parametrize("bomb", BOMBS)
def test_manifest_of_a_bad_signer_costs_little(bomb: str, tmp_path: Path, measured: Callable[..., Any]) -> None:
    """A manifest of the largest size that is no release is refused in a few readings and 256 megabytes."""
    content = sign_envelope(BOMBS[bomb], Ed25519PrivateKey.generate()).to_bytes()
    readings, megabytes = measured(write(tmp_path / "bomb.tar", {MANIFEST_NAME: content}))
    assert readings < 3
    assert megabytes < 256


def test_archive_of_many_members_is_not_scanned_before_it_is_signed(tmp_path: Path, reading: float) -> None:
    """65,536 headers are looked at only where a trusted signer has signed as many."""
    content = sign_envelope(b"{}", Ed25519PrivateKey.generate()).to_bytes()
    members = {MANIFEST_NAME: content} | {f"data/part-{index:05d}.parquet": b"" for index in range(65_000)}
    path = write(tmp_path / "many.tar", members)
    assert least(lambda: refuse(path, UntrustedKeyError)) < reading
    assert least(lambda: refuse(path, BundleFormatError, UnsafeTrustAnyone())) < reading


READ_ALL = """
import io, json, re, sys, time
from pathlib import Path
from dp_bundle.base.errors import BundleFormatError
from dp_bundle.data.rows import find_groups
from tests.fuzz.hostile import COLUMN, N_ROWS, PARTS
status, found = Path("/proc/self/status"), {}
contents = {name: make() for name, make in PARTS.items()}
for name, content in contents.items():
    print(name, file=sys.stderr)
    Path("/proc/self/clear_refs").write_text("5")
    before, used = int(re.search(r"VmHWM:\\s*(\\d+)", status.read_text())[1]), time.process_time()
    try:
        groups = find_groups([("part", lambda: io.BytesIO(content))], (COLUMN,), 2 * N_ROWS)
        rows = sum(group.read().num_rows for group in groups)
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
    is_seen = name != "bloom_filter" or hasattr(pq.ColumnChunkMetaData, "bloom_filter_offset")  # not by pyarrow 24
    assert outcome == ("refused" if is_seen else "promises")
    assert seconds < 0.2
    assert megabytes < 16


def _integer_columns(widths: list[int], sigmas: list[float]) -> list[dict[str, Any]]:
    """Return columns of a manifest that all differ."""
    column = {"kind": "integer", "bounds_obtained": "declared", "missing": "refuse", "unit": "", "description": ""}
    return [
        column
        | {"name": f"c{index}", "bounds": [0.0, float(width)]}
        | {"standards": [], "standard_obtained": None, "max_change": None, "block": None, "transform": None}
        | {"noise": Noise.discrete_gaussian(sigma).model_dump()}
        for index, (width, sigma) in enumerate(zip(widths, sigmas, strict=True))
    ]


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["cell", "row"])
@pytest.mark.parametrize("sigma", [5.0, 100.0, 1e6])
def test_wide_integer_tables_are_checked_at_once(unit: str, sigma: float, bundle: Receipt, reading: float) -> None:
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

    def spelled(factor: float) -> bytes:
        points = [(delta, factor * epsilon_for_delta(mu, delta)) for delta in (1e-4, 1e-6, 1e-10)]
        predicate["guarantee"]["epsilon_delta"] = [{"delta": delta, "epsilon": epsilon} for delta, epsilon in points]
        return spell(statement)

    sound = spelled(1.05)
    assert least(lambda: Statement.from_bytes(sound)) < 100 * reading
    with pytest.raises(BundleFormatError, match="epsilon is smaller"):
        Statement.from_bytes(spelled(0.9))
