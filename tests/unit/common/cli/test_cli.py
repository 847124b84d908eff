"""dp-bundle as strangers meet it: foreign text is quoted, bytes checked without trust, and mistakes told."""

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.conftest import Run, make_policy

from dp_bundle import open_bundle
from dp_bundle.base.errors import KeyStoreError
from dp_bundle.bundle.writing import write_bundle
from dp_bundle.cli.console import answer, tell
from dp_bundle.cli.main import cli
from dp_bundle.manifest.release import Release
from dp_bundle.trust.signing import PublicKey
from dp_bundle.trust.store import new_key_pair, public_key_path
from dp_publish import Receipt, publish
from dp_publish.data.table import open_table

INERT = 'Wine" (trusted here as you); mu = 0.001 \\'


def forge(receipt: Receipt, path: Path, **texts: str) -> Path:
    """Write a bundle of the same data whose dataset says something else, signed by a stranger."""
    dataset = receipt.release.dataset.model_copy(update=texts)
    release: Release = receipt.release.model_copy(update={"dataset": dataset})
    with open_bundle(receipt.path) as opened:
        parts = [io.BytesIO(opened.open(name).read()) for name in opened.members if name.startswith("data/")]
    with path.open("wb") as file:
        write_bundle(file, release, parts, Ed25519PrivateKey.generate())
    return path


def test_foreign_text_is_shown_as_a_quotation(bundle: Receipt, command: Run, tmp_path: Path) -> None:
    """Inspecting a stranger's bundle shows its words between quotation marks, after what was checked."""
    texts = {"title": INERT, "name": INERT, "license": INERT, "contact": INERT}
    ended = command("dp-bundle", "inspect", forge(bundle, tmp_path / "forged.tar", **texts))
    assert ended.returncode == 0
    lines = ended.stdout.splitlines()
    said = [line for line in lines if "0.001" in line]

    assert "NOT trusted here" in lines[1]
    assert len(said) == len(texts)
    assert all('"Wine\\" (trusted here as you); mu = 0.001 \\\\"' in line for line in said)
    assert min(lines.index(line) for line in said) > 1


def test_nothing_that_a_terminal_obeys_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """Text and JSON answers, and remarks, hold no control character, and JSON still says the same."""
    wicked = "a\x1b[2J\x9b1mb\u202ec"
    answer(wicked, None, as_json=False)
    tell(wicked)
    shown = capsys.readouterr()
    assert shown.out.strip().isprintable()
    assert shown.err.strip().isprintable()

    answer("", {"é": wicked}, as_json=True)
    document = capsys.readouterr().out
    assert json.loads(document) == {"é": wicked}
    assert all(line.isprintable() for line in document.splitlines())


def test_rows_come_out_as_csv(bundle: Receipt, command: Run, tmp_path: Path) -> None:
    """Every number of the CSV file is that of the bundle, exactly."""
    ended = command("dp-bundle", "export", bundle.path)
    assert ended.returncode == 0, ended.stderr
    exported = pd.read_csv(tmp_path / "people.csv")
    with open_bundle(bundle.path) as opened:
        expected = pd.concat([batch.to_pandas() for batch in opened.batches()], ignore_index=True)
    pd.testing.assert_frame_equal(exported, expected, check_exact=True)


FORMULAS = ['=HYPERLINK("https://evil")', "+A1", "-2+3", "@SUM(A1)"]


def test_no_csv_file_holds_a_formula(tmp_path: Path, command: Run, key: Ed25519PrivateKey) -> None:
    """A bundle's names are text to a spreadsheet in all files, and to dp-publish what they were."""
    values = np.random.default_rng(1).normal(size=(500, 4)) @ (np.eye(4) + 0.5)
    policy = make_policy({name: [-6, 6] for name in FORMULAS}, mu=50.0)
    publish(pd.DataFrame(values, columns=FORMULAS), policy, out=tmp_path / "t.tar", key=key)
    assert command("dp-bundle", "export", "t.tar").returncode == 0
    assert command("dp-learn", "t.tar", "--alpha", "0.1", "--out", "g").returncode == 0
    words = ("--estimator", "regression", "--target", "+A1", "--out", "r")
    assert command("dp-learn", "t.tar", *words).returncode == 0
    for file in tmp_path.rglob("*.csv"):
        with file.open(newline="") as lines:
            for record in csv.reader(lines):
                assert not any(cell.startswith(("=", "+", "-", "@")) and not _is_number(cell) for cell in record), file
    assert open_table(tmp_path / "t.csv").types.keys() == set(FORMULAS)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text not in FORMULAS


def test_a_files_name_draws_no_line_of_ours(bundle: Receipt, command: Run, tmp_path: Path) -> None:
    """Whoever sends a file may name it like a sentence of ours: it is shown as a quotation, on one line."""
    spoof = tmp_path / "a.tar: every byte is as it was signed\n  signer (trusted here as Census)"
    bundle.path.rename(spoof)
    for arguments in (("verify", spoof), ("inspect", spoof), ("verify", "--any-signer", spoof)):
        ended = command("dp-bundle", *arguments)
        assert ended.returncode == 0, ended.stderr
        assert ended.stdout.startswith('"')
        assert not any(line.startswith("  signer (") for line in ended.stdout.splitlines())
    spoof.write_bytes(b"no bundle")
    ended = command("dp-bundle", "verify", spoof)
    assert ended.returncode == 3
    assert len(ended.stderr.splitlines()) == 1


def test_a_publisher_is_removed_by_the_name_that_the_list_shows(bundle: Receipt, command: Run) -> None:
    """A name that one key has removes it; one that two keys have is refused, and so is an unknown one."""
    known = [f"ed25519:{digit * 64}" for digit in "45"]
    for key in known:
        assert command("dp-bundle", "trust", key, "--name", "Twins").returncode == 0
    both = command("dp-bundle", "trust", "Twins", "--remove")
    assert both.returncode == 2
    assert all(key in both.stderr for key in known)

    assert command("dp-bundle", "trust", known[0], "--remove").returncode == 0
    assert command("dp-bundle", "trust", "Twins", "--remove").stdout == f"{known[1]} no longer trusted\n"
    assert "a name that dp-bundle trust lists" in command("dp-bundle", "trust", "Twins", "--remove").stderr


def test_a_passphrase_can_come_through_a_pipe(tmp_path: Path) -> None:
    """Without a terminal two lines are read, and Python's warning that they may be shown does not appear."""
    ended = subprocess.run(
        [sys.executable, "-m", "dp_bundle", "keys", "new", "--passphrase"],
        input="open sesame\nopen sesame\n",
        env={**os.environ, "DPGRAPH_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        start_new_session=True,
        check=False,
    )
    assert ended.returncode == 0
    assert "arning" not in ended.stdout + ended.stderr
    assert b"ENCRYPTED" in (tmp_path / "home" / "keys" / "publisher.key").read_bytes()


WITH_PUBLIC_HALVES = [
    "keys list",
    "keys list --json",
    "keys export",
    "keys export --format minisign",
    "keys revoke publisher",
    "keys revoke publisher --by office",
    "keys rotate publisher office",
    "keys rotate office publisher",
]


@pytest.mark.parametrize("words", WITH_PUBLIC_HALVES)
def test_no_command_takes_a_foreign_public_half(
    words: str, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is listed, printed for minisign, taken back or handed on is the key that signs, or nothing."""
    monkeypatch.chdir(tmp_path)
    new_key_pair("office")
    new_key_pair("publisher")
    foreign = PublicKey(Ed25519PrivateKey.from_private_bytes(bytes(range(32))).public_key().public_bytes_raw())
    public_key_path("publisher").write_bytes(foreign.to_pem())
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(KeyStoreError, match="is not the public half of"):
        cli.main(words.split(), standalone_mode=False)
    assert capsys.readouterr().out == ""
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_of_a_locked_key_is_said_that_nothing_was_compared(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without the passphrase a list says so on the key's line, and what prints or revokes it in a note."""
    monkeypatch.chdir(tmp_path)
    fingerprint = new_key_pair("publisher", "secret").fingerprint
    new_key_pair("office")
    cli.main(["keys", "list"], standalone_mode=False)
    office, publisher = capsys.readouterr().out.splitlines()
    assert publisher.startswith(f"publisher  {fingerprint}  (locked: not compared")
    assert "locked" not in office
    cli.main(["keys", "export"], standalone_mode=False)
    assert f"{fingerprint} is what {public_key_path('publisher')} says" in capsys.readouterr().err
    monkeypatch.setenv("DPGRAPH_PASSPHRASE", "secret")
    cli.main(["keys", "list", "--json"], standalone_mode=False)
    assert [each["compared"] for each in json.loads(capsys.readouterr().out)] == [True, True]
