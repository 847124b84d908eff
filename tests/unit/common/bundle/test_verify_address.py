"""`dp-bundle verify` of an address reads what lies there, and other commands say when they used copies of it."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Run
from tests.web import WebServer

from dp_bundle import open_bundle
from dp_bundle.trust.judging import UnsafeTrustAnyone

PART = "data/part-00001.parquet"
SAID = "copies of earlier downloads"


def flip(content: bytes, at: int) -> bytes:
    """Return bytes of which one has another last bit."""
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]


@pytest.mark.slow
@pytest.mark.parametrize(("form", "damage"), [("b", "older"), ("b", "deleted"), ("b.tar", "flipped")])
def test_a_good_copy_does_not_vouch_for_an_address(web: WebServer, command: Run, form: str, damage: str) -> None:
    """With copies of all parts in the cache, a part that is changed, gone or older at the address exits with 3."""
    address, name = f"{web.url}/{form}", f"/{form}/{PART}" if form == "b" else f"/{form}"
    with open_bundle(address, UnsafeTrustAnyone()) as bundle:
        place = bundle.members[PART].offset + bundle.members[PART].size // 2
    content = web.contents[name]
    older = web.contents[name.replace("b", "a", 1)]
    web.contents[name] = {"flipped": flip(content, place), "deleted": b"", "older": older}[damage]
    for _ in range(2):  # a failure leaves nothing behind that the next one could take for good
        done = command("dp-bundle", "verify", address, "--any-signer")
        assert (done.returncode, done.stdout) == (3, ""), done
    web.contents[name] = content
    assert command("dp-bundle", "verify", address, "--any-signer").returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize("form", ["a", "a.tar"])
def test_other_commands_say_that_they_used_copies(
    web: WebServer, multipart: Path, command: Run, home: Path, form: str
) -> None:
    """The first reading says nothing, and every later one that the data are copies, and what reads them anew."""
    shutil.copytree(multipart / "home", home, dirs_exist_ok=True)
    address = f"{web.url}/{form}"
    calls: list[tuple[Any, ...]] = [
        ("dp-bundle", "inspect", address),
        ("dp-bundle", "inspect", address, "--json"),
        ("dp-bundle", "export", address, "--out", "x.csv", "--allow-older"),
        ("dp-bundle", "pack" if form == "a" else "unpack", address, "--out", "y"),
        ("dp-learn", address, "--allow-older", "--alpha", "0.1", "--out", "z"),
    ]
    first, *later = [command(*words) for words in (calls[0], *calls)]
    assert (first.returncode, SAID in first.stderr + first.stdout) == (0, False)
    for done in later:
        assert done.returncode == 0, done
        assert done.stderr.count(SAID) == 1, done
        assert f"dp-bundle verify {address}" in done.stderr
    assert "every byte is as it was signed" in first.stdout
    assert "every byte is as it was signed" not in later[0].stdout
    assert json.loads(later[1].stdout)["copies"] == [f"data/part-{index:05d}.parquet" for index in range(3)]

    done = command("dp-bundle", "verify", address, "--allow-older", "--json")
    assert (done.returncode, SAID in done.stderr, json.loads(done.stdout)["copies"]) == (0, False, [])


def test_a_cache_that_others_may_write_is_refused(web: WebServer, command: Run, tmp_path: Path) -> None:
    """In a folder that others may change, they could put links to the reader's own files."""
    folder = tmp_path / "cache" / "dpgraph"
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    done = command("dp-bundle", "inspect", f"{web.url}/a")
    assert (done.returncode, f"chmod go-w {folder}" in done.stderr) == (1, True)
    folder.chmod(0o700)
    folder.parent.chmod(0o777)
    assert command("dp-bundle", "inspect", f"{web.url}/a").returncode == 1
    folder.parent.chmod(0o1777)
    assert command("dp-bundle", "inspect", f"{web.url}/a").returncode == 0
