"""What every test may use: a state folder of its own, a key, small tables, and the commands."""

import gc
import hashlib
import itertools
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import settings
from tests.s3 import FaultyProxy, S3Server

from dp_bundle.cli.console import run
from dp_bundle.cli.main import cli as dp_bundle
from dp_bundle.trust.signing import load_private_key
from dp_bundle.trust.store import new_key_pair, private_key_path
from dp_learn.cli.main import cli as dp_learn
from dp_learn.cli.main import compare, describe, joint
from dp_publish import Policy, Receipt, publish
from dp_publish.cli.main import cli as dp_publish
from dp_publish.ledger.ledger import Ledger
from dp_publish.sampling.keystream import SecureKeystream, insecure_keystream

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))  # for the printed forms
settings.register_profile("busy", deadline=None)  # a machine may have other work
settings.load_profile("busy")

Run = Callable[..., subprocess.CompletedProcess[str]]  # a command, by its name and arguments
COMMANDS = {
    "dp-bundle": dp_bundle,
    "dp-learn": dp_learn,
    "dp-learn compare": compare,
    "dp-learn describe": describe,
    "dp-learn joint": joint,
    "dp-publish": dp_publish,
}
WITHOUT = {
    "dp-learn": ["--no-report"],
    "dp-learn compare": ["--no-report"],
    "dp-learn joint": ["--no-report"],
}  # options of a command that is run in the tests' process; those of a test win


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let a run draw new noise, or write the file of messages again."""
    parser.addoption("--fresh-noise", action="store_true", help="draw new noise, not the same in every run of a test")
    parser.addoption("--update-messages", action="store_true", help="write tests/messages.txt as the commands are")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect no garbage while tests are found, and leave what was made by then out of every later collection."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse marks that make would not find."""
    texts = {path: path.read_text() for path in {item.path for item in items}}
    for item in items:
        for name in {"slow", "data", "long", "tools"} & {mark.name for mark in item.iter_markers()}:
            if f"mark.{name}" not in texts[item.path] and item.path.parent.name != "vocabularies":
                raise pytest.UsageError(f"{item.path} has a test of mark.{name}, which the Makefile finds by that text")


@pytest.fixture(autouse=True)
def repeatable_noise(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give a test the same noise and the same chance in every run, so that a failure can be repeated.

    Commands in processes of their own draw new noise always, and every test does with --fresh-noise.
    """
    if request.config.getoption("fresh_noise"):
        return
    numbers = itertools.count()

    def key_and_counter(_: SecureKeystream) -> tuple[bytes, bytes]:
        return hashlib.sha256(f"{request.node.nodeid} {next(numbers)}".encode()).digest(), bytes(16)

    def seeded(seed: Any = None) -> np.random.Generator:
        if seed is None:
            seed = int.from_bytes(hashlib.sha256(f"{request.node.nodeid} {next(numbers)}".encode()).digest())
        return default_rng(seed)

    default_rng = np.random.default_rng
    monkeypatch.setattr(SecureKeystream, "_key_and_counter", key_and_counter)
    monkeypatch.setattr(np.random, "default_rng", seeded)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give every test a state folder of its own."""
    folder = tmp_path / "home"
    monkeypatch.setenv("DPGRAPH_HOME", str(folder))
    return folder


@pytest.fixture
def key(home: Path) -> Ed25519PrivateKey:
    """Make this test's publisher key, trusted in its state folder."""
    new_key_pair()
    return load_private_key(private_key_path())


@pytest.fixture
def data_folder() -> Path:
    """Return the folder of the public tables; tests that need it are marked `data`."""
    folder = os.environ.get("DPGRAPH_DATA")
    if not folder:
        pytest.fail("set DPGRAPH_DATA to the folder that holds the public tables")
    return Path(folder)


@pytest.fixture
def table() -> pd.DataFrame:
    """Return a small mixed table: two continuous columns, one of counts, one of text."""
    rng = np.random.default_rng(7)
    height = rng.normal(170, 10, 400)
    return pd.DataFrame(
        {
            "height": height,
            "weight": 0.9 * height - 90 + rng.normal(0, 6, 400),
            "visits": rng.poisson(4, 400),
            "name": pd.array([f"person {index}" for index in range(400)], dtype="string"),
        }
    )


@pytest.fixture
def policy() -> Policy:
    """Return a policy for that table: row level, mu = 20."""
    return make_policy({"height": [120, 220], "weight": [20, 140], "visits": [0, 30]}, mu=20.0, unit="row")


def make_policy(bounds: dict[str, list[float]], columns: dict[str, Any] | None = None, **privacy: Any) -> Policy:
    """Return a policy with these bounds, these further sections on columns, and the rest as in `policy_with`."""
    return policy_with({column: {"bounds": limits} for column, limits in bounds.items()} | (columns or {}), **privacy)


def policy_with(columns: Mapping[str, Any], *, name: str = "people", **privacy: Any) -> Policy:
    """Return a policy with these columns and this section on privacy."""
    return Policy.model_validate({"dataset": {"name": name}, "privacy": privacy, "columns": columns})


@pytest.fixture
def bundle(tmp_path: Path, table: pd.DataFrame, policy: Policy, key: Ed25519PrivateKey) -> Receipt:
    """Publish that table under that policy and return the receipt."""
    return publish(table, policy, out=tmp_path / "people.bundle.tar", key=key)


def publish_alone(table: pd.DataFrame, policy: Policy, path: Path, seed: int) -> Path:
    """Publish by a key and on a ledger of its own, with the noise of a seed; return the path."""
    ledger, keystream = Ledger(path.with_suffix(".sqlite")), insecure_keystream(seed)
    publish(table, policy, out=path, key=Ed25519PrivateKey.generate(), ledger=ledger, keystream=keystream)
    return path


def untar(tar: Path, folder: Path) -> None:
    """Unpack a tar as Python does; its first versions of 3.11 have no argument for a filter."""
    with tarfile.open(tar) as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(folder)  # noqa: S202  of ours


@pytest.fixture
def program(tmp_path: Path) -> Run:
    """Return a function that runs one of the commands as a user does: a process of its own, in the test's folder."""

    def start(name: str, *arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
        words = [str(Path(sys.executable).with_name(name)), *map(str, arguments)]
        settings = {"cwd": tmp_path, "env": os.environ.copy(), "capture_output": True, "text": True, "timeout": 300}
        return subprocess.run(words, check=False, **{**settings, **options})  # type: ignore[call-overload,no-any-return]

    return start


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Return a function that runs one of the commands in this process, in the test's folder, to save its start.

    A test that looks at the result's page asks for it by --report: a page takes longer than all else in a small result.
    """
    monkeypatch.chdir(tmp_path)

    def start(name: str, *arguments: object) -> subprocess.CompletedProcess[str]:
        capsys.readouterr()
        if " ".join(map(str, (name, *arguments[:1]))) in COMMANDS:
            name, arguments = f"{name} {arguments[0]}", arguments[1:]
        with pytest.raises(SystemExit) as leaving:
            run(COMMANDS[name], [*WITHOUT.get(name, ()), *map(str, arguments)])
        printed = capsys.readouterr()
        return subprocess.CompletedProcess([name, *arguments], int(leaving.value.code or 0), printed.out, printed.err)

    return start


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """Start an S3 server on this machine, once for all tests that ask for it."""
    server = S3Server()
    yield server
    server.close()


@pytest.fixture
def s3(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultyProxy]:
    """Return a proxy to that server, with no faults yet, by which the environment reaches it; `bucket` is a new one."""
    proxy = FaultyProxy(s3_server.port)
    proxy.bucket = s3_server.new_bucket()
    monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "nobody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "nothing-secret")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    yield proxy
    proxy.close()
