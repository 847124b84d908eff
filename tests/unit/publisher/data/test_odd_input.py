"""Input that is no file, or holds what no table and no policy has: a sentence for each, and soon."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.conftest import make_policy

from dp_bundle.base.errors import DpGraphError, KeyStoreError, PolicyError, SchemaError
from dp_bundle.trust.signing import load_private_key
from dp_publish import publish
from dp_publish.data import dialect
from dp_publish.data.table import open_table
from dp_publish.ledger.ledger import Ledger
from dp_publish.policy.file import load_policy


def test_a_pipe_is_no_table(tmp_path: Path) -> None:
    """A pipe, which nobody may ever write to, is refused without waiting."""
    for name in ("t.csv", "t.parquet", "t.arrow"):
        os.mkfifo(tmp_path / name)
        with pytest.raises(SchemaError, match="pipe"):
            open_table(tmp_path / name)


@pytest.mark.parametrize("source", ["https:/example.org/t.csv", "a\0b.csv", "", "/", "x" * 300 + ".csv"])
def test_what_is_no_file_is_no_table(source: str) -> None:
    """Addresses, and names that no file can have, are refused."""
    with pytest.raises(SchemaError):
        open_table(source)


@pytest.mark.parametrize("content", [b"x", b"a,b\n1", b"\n\nx"])
def test_a_line_without_an_end_is_not_read_whole(
    content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A first line, or another, of two gigabytes is refused when so many characters of it were read as a table has."""
    monkeypatch.setattr(dialect, "_LONGEST_LINE", 2**20)
    path = tmp_path / "t.csv"
    with path.open("wb") as file:
        file.write(content + b"x" * 2**21)
        file.truncate(2**31)
    with pytest.raises(SchemaError, match="1,048,576"):
        list(open_table(path).read({"a": "continuous"}, 10))


def test_devices_are_no_policies_and_no_keys() -> None:
    """What never ends is not read."""
    with pytest.raises(PolicyError, match="regular"):
        load_policy(Path("/dev/zero"), "t", {})
    with pytest.raises(KeyStoreError):
        load_private_key(Path("/dev/zero"))


@pytest.mark.parametrize("out", ["a\0b.tar", ".", "/", "", "x" * 300 + ".tar"])
def test_names_that_no_file_can_have_cost_nothing(out: str, tmp_path: Path, key: Ed25519PrivateKey) -> None:
    """A bundle that could not get its name is refused before anything is booked."""
    data = tmp_path / "t.csv"
    data.write_text("a,b\n1,2\n3,4\n")
    with pytest.raises(DpGraphError):
        publish(data, make_policy({"a": [0, 5], "b": [0, 5]}, mu=1.0), out=out, key=key)
    assert Ledger().entries() == []


def test_a_name_that_is_no_utf_8_is_no_tables(tmp_path: Path, key: Ed25519PrivateKey) -> None:
    """It is refused in one sentence."""
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.csv"))
    odd.write_text("a,b\n1,2\n3,4\n")
    with pytest.raises(SchemaError, match="UTF-8"):
        publish(odd, make_policy({"a": [0, 5]}, mu=1.0), out=tmp_path / "a.tar", key=key)
