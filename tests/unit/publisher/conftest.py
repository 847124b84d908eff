"""dp-publish in the test's own process, and a table of people with a policy beside it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import pyarrow as pa
import pytest

from dp_bundle.cli.console import run
from dp_publish.cli.main import cli
from dp_publish.data.kinds import ColumnType
from dp_publish.data.table import Table

POLICY = """
[dataset]
name = "people"
[privacy]
mu = 20
[columns.height]
bounds = [120, 220]
[columns.weight]
bounds = [20, 140]
[columns.visits]
bounds = [0, 30]
"""


def sealed(**types: str) -> Table:
    """Return a table whose values nobody may look at."""

    def read(_kinds: dict[str, str], _rows: int) -> Iterator[pa.RecordBatch]:
        raise AssertionError("a value was read")

    return Table({name: ColumnType(kind) for name, kind in types.items()}, read)


class Ended(NamedTuple):
    """How a command ended."""

    code: object
    out: str
    err: str


Call = Callable[..., Ended]


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Return a function that runs dp-publish in the test's folder."""
    monkeypatch.chdir(tmp_path)

    def call_cli(*words: object) -> Ended:
        with pytest.raises(SystemExit) as leaving:
            run(cli, [str(word) for word in words])
        captured = capsys.readouterr()
        return Ended(leaving.value.code, captured.out, captured.err)

    return call_cli


@pytest.fixture
def people(tmp_path: Path, table: pd.DataFrame) -> Path:
    """Put the small table and its policy into the test's folder."""
    table.to_parquet(tmp_path / "people.parquet")
    (tmp_path / "people.policy.toml").write_text(POLICY)
    return tmp_path / "people.parquet"
