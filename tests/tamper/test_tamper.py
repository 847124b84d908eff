"""A bundle that is not byte for byte what a trusted publisher signed is refused, one broken rule per case."""

import io
import random
from pathlib import Path

import pandas as pd
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.tamper.archives import members_of, refuse_flipped_bits

from dp_bundle import open_bundle
from dp_bundle.base.errors import BundleFormatError
from dp_bundle.bundle.writing import write_bundle
from dp_bundle.cli.console import run
from dp_bundle.cli.main import cli as bundle_cli
from dp_learn.cli.main import cli as learn_cli
from dp_publish import Policy, Receipt, publish
from dp_publish.policy.model import Privacy


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
