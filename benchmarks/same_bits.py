"""Make releases of every kind, learn them and show them, with the same random bits, clock and keys in every run.

    python benchmarks/same_bits.py BEFORE        in one copy of the source
    python benchmarks/same_bits.py AFTER         in another one, and then: diff -r BEFORE AFTER

What differs is what a change of the code changed. Run it twice and keep the second folder: the first run may compile
kernels, and names of files that numba keeps are chance, too. A portal's own state has the digest of the code. Pictures
are left out: look at them. Nothing made here is private.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import importlib
import io
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

ROOT = Path.cwd()
N_RELEASES, SEED = 60, 12
START = datetime.datetime(2026, 1, 31, 12, tzinfo=datetime.UTC)


class _Clock(datetime.datetime):
    """One second later, each time that somebody looks."""

    _looks = 0

    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> datetime.datetime:
        """Return the time; in UTC, whatever is asked for."""
        del tz
        cls._looks += 1
        return START + datetime.timedelta(seconds=cls._looks)


def urandom() -> Callable[[int], bytes]:
    """Return what stands for `os.urandom`."""
    state = hashlib.sha256(b"the same bits")

    def draw(size: int) -> bytes:
        state.update(b"next")
        return hashlib.shake_256(state.digest()).digest(size)

    return draw


def module(*names: str) -> Any:
    """Return the first of these modules that there is."""
    for name in names:
        with contextlib.suppress(ModuleNotFoundError):
            return importlib.import_module(name)
    raise ModuleNotFoundError(names)


@contextlib.contextmanager
def fixed() -> Iterator[None]:
    """Fix everything that differs from run to run: bits, the clock, the digest of the code; and use one core."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    draw, code = urandom(), module("dp_publish.release.preparing", "dp_bundle.startup.code")
    with contextlib.ExitStack() as stack:
        for owner, name, fake in (
            (os, "urandom", draw),
            (random, "_urandom", draw),
            (datetime, "datetime", _Clock),
            (code, "code_digest", mock.Mock(return_value="0" * 64)),
        ):
            stack.enter_context(mock.patch.object(owner, name, fake))
        for each in [*sys.modules.values()]:  # which took it by name
            if getattr(each, "code_digest", None) is not None and each is not code:
                stack.enter_context(mock.patch.object(each, "code_digest", return_value="0" * 64))
        yield


def run(package: str, *words: str) -> None:
    """Run a command here, and keep what it says."""
    cli = module(f"{package}.cli.main", f"{package}.cli").cli
    said, code = io.StringIO(), 0
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            code = cli.main([*words], standalone_mode=False) or 0
        except SystemExit as end:
            code = int(end.code or 0)
        except Exception as error:  # as the command's own answer, whatever it is
            said.write(f"{type(error).__name__}: {error}\n")
            code = 1
    with Path("said.txt").open("a", encoding="utf-8") as file:
        file.write(f"$ {package} {' '.join(words)}\n{said.getvalue()}exit {code}\n")


def large() -> Iterator[tuple[dict[str, Any], Any]]:
    """Yield policies and tables from which a graph can be learned."""
    import numpy as np
    import pandas as pd

    rng = np.random.default_rng(SEED)
    low = rng.normal(size=(2000, 3)) @ rng.normal(size=(3, 8)) + rng.normal(size=(2000, 8))
    frame = pd.DataFrame(low.round(3), columns=[f"x{place}" for place in range(8)])
    frame["n"] = (2 * frame["x0"] + rng.normal(size=2000)).round().clip(-9, 9).astype("int64")
    frame["c"] = pd.Series(np.where(frame["x1"] > 1, "up", np.where(frame["x1"] < -1, "down", "level")), dtype="string")
    frame["w"] = np.arange(2000) // 2
    numbers = {f"x{place}": {"bounds": [-9, 9]} for place in range(8)} | {"n": {"bounds": [-9, 9]}}
    mixed = numbers | {"c": {"kind": "category", "categories": ["up", "level", "down"]}}
    entity = {"unit": {"entity": "w", "max_rows": 2}}
    for name, columns, privacy in (
        ("numbers", numbers, {"unit": "row", "mu": 20.0}),
        ("cells", mixed, {"unit": "cell", "mu": 4.0}),
        ("levels", mixed, {"unit": "row", "epsilon": 30.0, "delta": 1e-6}),
        ("rounds", numbers, {"unit": "row", "mu": 1.0, "release": "covariance"}),
        ("moments", mixed, {"unit": "row", "mu": 1.0, "release": "covariance", "mechanism": "gaussian"}),
        ("people", numbers, {**entity, "mu": 2.0, "release": "covariance"}),
    ):
        sections = {"dataset": {"name": name}, "privacy": privacy, "columns": columns}
        yield sections, frame[[*columns, *(["w"] if name == "people" else [])]]


def main() -> None:
    """Write everything into a new folder."""
    if os.environ.get("PYTHONHASHSEED") != "0":  # the order of sets is chance, too
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | {"PYTHONHASHSEED": "0"})  # noqa: S606
    target, out = Path(sys.argv[1]).resolve(), Path(tempfile.gettempdir(), "dpgraph-same-bits")  # which ledgers hold
    out.mkdir()
    os.chdir(out)
    os.environ["DPGRAPH_HOME"] = str(out / "home")
    sys.path.insert(0, str(ROOT))
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from tests.statistical.random_policies import Policies

    from dp_publish import Policy, publish

    for name in ("matplotlib.pyplot", "networkx", "pandas", "pyarrow.parquet", "scipy.stats", "sklearn.covariance"):
        importlib.import_module(name)
    for name in ("dp_publish.release.publishing", "dp_bundle.bundle.writing", "dp_publish.ledger.ledger"):
        importlib.import_module(name)
    key, policies = Ed25519PrivateKey.from_private_bytes(bytes(32)), Policies(SEED)
    Path("same.pub").write_bytes(
        key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    with fixed():
        run("dp_bundle", "trust", "same.pub", "--name", "Same")
        planned = [*large(), *(policies()[:2] for _ in range(N_RELEASES))]
        for number, (sections, table) in enumerate(planned):
            try:
                policy = Policy.model_validate(sections)
                receipt = publish(table, policy, out=out / f"{number:02}.tar", key=key)
            except Exception as error:  # a policy that is refused, in the same words
                (out / f"{number:02}.refused").write_text(f"{type(error).__name__}: {error}\n")
                continue
            words = module("dp_publish.cli.messages.release", "dp_publish.messages.release")
            (out / f"{number:02}.txt").write_text(words.describe_receipt(receipt, policy).replace(str(out), ""))
            run("dp_bundle", "inspect", f"{number:02}.tar")
            run("dp_learn", f"{number:02}.tar", "--out", f"{number:02}", "--report")
        run("dp_publish", "ledger")
        run("dp_bundle", "catalog", ".", "--out", "site", "--title", "Same bits")
    for left_out in [*out.rglob("*.png"), *out.rglob("*.svg"), *out.rglob(".dpgraph-result.json")]:
        left_out.unlink()
    shutil.rmtree(out / "home")
    shutil.move(out, target)


if __name__ == "__main__":
    main()
