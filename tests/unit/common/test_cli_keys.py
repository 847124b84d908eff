"""Wrong arguments of the commands about keys: one sentence each, before anything is decided or written."""

from __future__ import annotations

from pathlib import Path

import pytest

from dp_bundle.cli import cli
from dp_bundle.errors import DpGraphError, ParameterError
from dp_bundle.trust import TrustStore, key_names, load_public_key, new_key_pair, quorums, read_revocation
from dp_publish import Receipt


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("keys rotate publisher publisher", "NEW must be another key than OLD"),
        ("keys revoke publisher --since 2999-01-01", "--since must be today or an earlier day"),
        ("keys revoke nobody", "KEY must be the name of a key of yours"),
        ("trust {key} --dataset wine --threshold 0", "--threshold must be from 1 to the number of different keys"),
        ("trust {key} --threshold 1", "--threshold must be given with --dataset"),
        ("trust --until 2999-01-01", "KEY must be given with --name, --until and --remove"),
        ("trust --remove", "KEY must be given with"),
    ],
)
def test_wrong_arguments_decide_nothing(
    words: str, said: str, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is refused by what is wrong with it, and keys, decisions and files stay as they were."""
    monkeypatch.chdir(tmp_path)
    public = new_key_pair("publisher")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(ParameterError, match=said):
        cli.main(words.format(key=public.fingerprint).split(), standalone_mode=False)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    assert (key_names(), list(quorums(TrustStore().folder))) == (["publisher"], [])


def test_a_key_is_not_revoked_where_the_statement_cannot_be_written(home: Path, tmp_path: Path) -> None:
    """A file that is there, and a folder that is not, are found before the key is taken back here."""
    new_key_pair("publisher")
    (tmp_path / "taken").touch()
    for out, said in ((tmp_path / "taken", "is there already"), (tmp_path / "none" / "file", "there is no folder")):
        with pytest.raises(DpGraphError, match=said):
            cli.main(["keys", "revoke", "publisher", "--out", str(out)], standalone_mode=False)
    assert read_revocation(TrustStore().folder, load_public_key("publisher")) is None


def test_the_signer_does_not_cosign(bundle: Receipt) -> None:
    """A second signature by the same key would count for nothing, and none is written."""
    with pytest.raises(ParameterError, match="another key than the one that signed the bundle"):
        cli.main(["cosign", str(bundle.path)], standalone_mode=False)
    assert not bundle.path.with_name(f"{bundle.path.name}.dsse.json").exists()
