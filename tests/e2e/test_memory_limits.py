"""Memory does not grow with the rows, and what needs more than there is is refused before it begins, in a sentence."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.conftest import policy_with

from dp_bundle.base.machine import format_size
from dp_learn.pipeline.driver import describe_work, learning_memory
from dp_publish import Policy, publish
from dp_publish.ledger.ledger import Ledger
from dp_publish.policy import memory

MOST_TIMES, MOST_MB = 8.0, 300.0
_MEASURE = """
import resource, subprocess, sys
subprocess.run([sys.executable, "-c", "import pandas, pyarrow.parquet"], check=True)
peer = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
code = subprocess.run(sys.argv[1:]).returncode
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(code, used.ru_maxrss, (used.ru_utime - peer) / peer)
"""


class Run(NamedTuple):
    """How a command ended: its code, what it said, its peak of resident memory, and its time.

    The time is that of the processors, in times of what importing pandas and pyarrow takes: machines differ.
    """

    code: int
    said: str
    peak_mb: float
    times: float


def run(folder: Path, name: str, *words: str, **variables: str) -> Run:
    """Run a command in a folder; a small process starts it, as a child's peak is never below its parent's."""
    program = str(Path(sys.executable).with_name(name))
    done = subprocess.run(
        [sys.executable, "-c", _MEASURE, program, *words],
        cwd=folder,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    code, kilobytes, times = done.stdout.splitlines()[-1].split()
    return Run(int(code), done.stderr, int(kilobytes) / 1024, float(times))


def policy_of(n_columns: int, release: str) -> str:
    """Return a policy with bounds for all columns."""
    bounds = "".join(f"[columns.c{index}]\nbounds = [0, 1]\n" for index in range(n_columns))
    kind = 'release = "covariance"\nmechanism = "gaussian"\n' if release == "covariance" else ""
    return f'[dataset]\nname = "wide"\n[privacy]\nunit = "row"\nmu = 1.0\n{kind}{bounds}'


def table_of(n_columns: int, n_rows: int = 50) -> pa.Table:
    """Return a table of numbers between 0 and 1."""
    rng = np.random.default_rng(1)
    return pa.table({f"c{index}": rng.random(n_rows) for index in range(n_columns)})


@pytest.mark.slow
@pytest.mark.parametrize("n_columns", [pytest.param(8_000, marks=pytest.mark.long), 20_000])
def test_a_bundle_of_a_trusted_signer_cannot_exhaust_the_memory(
    n_columns: int, tmp_path: Path, key: Ed25519PrivateKey
) -> None:
    """A genuine bundle of thousands of columns gets a sentence with what it would need."""
    document = {"dataset": {"name": "w"}, "privacy": {"mu": 1.0, "unit": "row"}}
    columns = {f"c{index}": {"bounds": [0, 1]} for index in range(n_columns)}
    policy = Policy.model_validate({**document, "columns": columns})
    publish(table_of(n_columns), policy, out=tmp_path / "w.bundle.tar", key=key)

    for estimator in ("graphical-lasso", "ridge"):
        refused = run(tmp_path, "dp-learn", "w.bundle.tar", "--estimator", estimator, "--max-memory", "4GB")
        needed = format_size(learning_memory(n_columns, estimator=estimator))
        assert refused.code == 1
        assert refused.said.splitlines() == [
            f"error: learning from {n_columns:,} columns may need {needed} of memory, and the limit is 4.0GB: nothing "
            f"was begun; use fewer columns, or allow it with --max-memory {needed} where there is as much"
        ]
        assert refused.times < MOST_TIMES
        assert refused.peak_mb < MOST_MB
    assert {path.name for path in tmp_path.iterdir()} <= {"w.bundle.tar", "home"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["wide.parquet", "--policy", "rows.toml"], "publishing rows of 20,000 columns"),
        (["wide.parquet", "--policy", "covariance.toml"], "publishing second moments of 20,000 columns"),
        (["plan", "wide.parquet", "--policy", "rows.toml"], "a forecast for 20,000 columns"),
        (["policy", "wide.parquet"], "a policy for 20,000 columns"),
    ],
)
def test_the_publishers_commands_say_what_they_need(
    words: list[str], what: str, tmp_path: Path, key: Ed25519PrivateKey
) -> None:
    """A table of 20,000 columns is refused beyond --max-memory before anything is booked or written."""
    pq.write_table(table_of(20_000), tmp_path / "wide.parquet")
    for release in ("rows", "covariance"):
        (tmp_path / f"{release}.toml").write_text(policy_of(20_000, release))
    before = {path.name for path in tmp_path.iterdir()}
    refused = run(tmp_path, "dp-publish", *words, "--max-memory", "150MB")
    assert refused.code == 1
    assert refused.said.startswith(f"error: {what} may need ")
    assert refused.said.count("\n") == 1
    assert refused.times < MOST_TIMES
    assert refused.peak_mb < MOST_MB
    assert Ledger().entries() == []
    assert {path.name for path in tmp_path.iterdir()} == before


@pytest.mark.slow
@pytest.mark.parametrize("release", ["rows", "covariance"])
@pytest.mark.parametrize(("n_columns", "n_rows", "piece_rows"), [(1_000, 9_000, 9_000), (100, 80_000, 4_000)])
def test_no_more_is_taken_than_was_said(
    n_columns: int, n_rows: int, piece_rows: int, release: Any, tmp_path: Path, key: Ed25519PrivateKey
) -> None:
    """Each command's peak is below what it says that it may need, and not below a sixth of it."""
    pq.write_table(table_of(n_columns, n_rows), tmp_path / "wide.parquet", row_group_size=piece_rows)
    (tmp_path / "wide.policy.toml").write_text(policy_of(n_columns, release))
    publishing = memory.publishing_memory(n_columns, release, piece_rows, n_rows=n_rows)
    said = [(["wide.parquet", "--anyway"], publishing)]
    if release == "rows":  # what the others take is that of any release
        said += [(["policy", "wide.parquet", "--out", "new.toml"], memory.template_memory(n_columns))]
        said += [(["plan", "wide.parquet"], memory.plan_memory(n_columns))]
    for words, needed in said:
        done = run(tmp_path, "dp-publish", *words)
        assert done.code == 0, done.said
        assert needed / 6e6 < done.peak_mb < needed / 1e6, (words, done.peak_mb)


def test_many_columns_are_told_before() -> None:
    """2,000 columns need less than 16 GB, and what they need, and how long a sparse graph takes, is said."""
    needed = learning_memory(2_000, estimator="graphical-lasso")
    assert needed < 16e9
    assert describe_work(needed, 2_000, "graphical-lasso") == [
        "note: this may need 2.6GB of memory",
        "note: a sparse graph of 2,000 columns takes about 2 minutes of one core, a dense one more",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ["graphical-lasso", pytest.param("neighborhood", marks=pytest.mark.long)])
def test_learning_takes_no_more_than_was_said(estimator: str, tmp_path: Path, key: Ed25519PrivateKey) -> None:
    """For 400 columns, the peak is below what is said, and not below a sixth of it; what compiles asks for more."""
    n_columns = 400
    columns = {f"c{index}": {"bounds": [0, 1]} for index in range(n_columns)}
    policy = policy_with(columns, mu=60.0)
    publish(table_of(n_columns, 1_600), policy, out=tmp_path / "w.bundle.tar", key=key)
    needed = learning_memory(n_columns, estimator=estimator)
    for compiling in (500, 0):
        done = run(tmp_path, "dp-learn", "w.bundle.tar", "--estimator", estimator)
        assert done.code == 0, done.said
        assert needed / 6e6 < done.peak_mb < needed / 1e6 + compiling


@pytest.mark.slow
def test_five_million_rows_in_500_mb(tmp_path: Path, key: Ed25519PrivateKey) -> None:
    """A table of 5 million rows and 10 columns is published and learned from, on two cores, in 500 MB each."""
    rng = np.random.default_rng(5)
    common = rng.normal(size=250_000)
    part = pa.table({f"x{index}": common + rng.normal(size=250_000) for index in range(10)})
    with pq.ParquetWriter(tmp_path / "big.parquet", part.schema) as writer:
        for _ in range(20):
            writer.write_table(part)
    (tmp_path / "big.policy.toml").write_text('[privacy]\nmu = 1.0\n[columns."*"]\nbounds = [-6, 6]\n')
    done = run(tmp_path, "dp-publish", "big.parquet", "--anyway"), run(tmp_path, "dp-learn", "big.bundle.tar")

    print(f"peak memory: publish {done[0].peak_mb:.0f} MB, learn {done[1].peak_mb:.0f} MB")  # noqa: T201  the result
    assert [each.code for each in done] == [0, 0]
    assert max(each.peak_mb for each in done) < 500
