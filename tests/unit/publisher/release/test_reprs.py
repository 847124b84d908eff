"""A notebook saves the last line of a cell, and an error with its causes: neither shows what is private."""

import pickle
import re
import traceback
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.unit.publisher.release.conftest import Publish, private

from dp_bundle.base.errors import DpGraphError
from dp_publish import Policy, Receipt
from dp_publish.covariance.exact_moments import ExactMoments
from dp_publish.data.table import open_table
from dp_publish.forecast.outlook import Sight
from dp_publish.forecast.plan import make_plan
from dp_publish.policy.column_survey import glance
from dp_publish.policy.columns import choose_columns, resolve
from dp_publish.policy.file import load_policy
from dp_publish.rows.missing import RowReport

N_ROWS, N_OUTSIDE, N_EMPTY, N_PEOPLE = 91_717, 20_303, 18_787, 41_111  # of digits that no other number has


@pytest.fixture
def receipt(publish_here: Publish) -> Receipt:
    """Return a receipt whose counts are like no other number of it."""
    x = np.full(N_ROWS, 0.5)
    x[:N_OUTSIDE], x[-N_EMPTY:] = 9.0, np.nan
    frame = pd.DataFrame(
        {"x": x, "who": np.arange(N_ROWS) % N_PEOPLE, "secretcolumn": pd.array(["a"] * N_ROWS, "string")}
    )
    columns = {"x": {"bounds": [0, 1], "missing": "midpoint"}}
    return publish_here(frame, private(columns, unit={"entity": "who", "max_rows": 2}, mu=1.0), out="a.bundle.tar")


def shown(value: object) -> str:
    """Return all that a notebook, a log or a debugger shows of an object, without digits that change with the run."""
    html = getattr(value, "_repr_html_", lambda: "")()
    return re.sub(r"\b0x[0-9a-f]+|/pytest-\d+/", "", f"{value!r} {value!s} {value} {[value]} {html}")


def test_a_receipt_shows_what_is_public(receipt: Receipt) -> None:
    """Neither the counts of the report nor columns that the bundle does not name."""
    report = receipt.report
    counts = [report.clipped["x"], report.filled["x"], report.n_over_cap, report.n_entities]
    assert report.n_entities == N_PEOPLE
    bare, lineage = shown(receipt), receipt.release.lineage
    for random in (receipt.path, receipt.manifest_sha256, receipt.blake2b, lineage.created, lineage.ledger_head):
        bare = bare.replace(str(random), "")
    assert not {str(count) for count in counts} & {*re.findall(r"(?<![\d.])\d+(?![\d.])", bare)}
    assert "secretcolumn" not in shown(receipt)
    assert receipt.manifest_sha256 in repr(receipt)
    assert [*receipt.left_out] == ["who", "secretcolumn"]
    copied = pickle.loads(pickle.dumps(receipt))  # noqa: S301
    for each in (report, copied.report, RowReport(clipped={"secret": 7})):
        assert not re.search(r"\d|secret", shown(each))


def test_what_reads_a_table_shows_no_value(one_column: Policy, tmp_path: Path) -> None:
    """Neither first rows nor exact sums, nor how many rows are planned for."""
    pd.DataFrame({"x": np.full(N_ROWS, 0.731), "who": "a"}).to_parquet(tmp_path / "t.parquet")
    (tmp_path / "t.policy.toml").write_text("[columns.x]\nbounds = [0, 1]\n")
    table, resolved = resolve(open_table(tmp_path / "t.parquet"), one_column)
    kinds, _ = choose_columns(table, resolved)
    plan = make_plan(tmp_path / "t.parquet", load_policy(tmp_path / "t.policy.toml", "t", {}))
    assert plan.n_rows == N_ROWS
    assert not any(field.name in shown(each) for field in fields(Sight) for each in (plan, plan.own))
    for each in (plan, glance(table, kinds), table, table.stored):
        assert not re.search(f"731|{N_ROWS}", shown(each))
    assert [field.name for field in fields(ExactMoments) if field.repr] == ["scaling"]


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize(
    "said",
    [{"kind": "continuous", "bounds": [0, 9]}, {"kind": "date"}, {"kind": "ordered", "levels": ["a", "2026-01-31"]}],
    ids=lambda said: said["kind"],
)
def test_an_error_quotes_no_value_with_its_causes(
    suffix: str, said: dict[str, Any], tmp_path: Path, publish_here: Publish
) -> None:
    """A traceback, which a notebook saves as well, shows what an error came from."""
    frame = pd.DataFrame({"x": pd.Series(["2026-01-31", "unseenword"], dtype=object), "n": [0.5, 0.5]})
    (frame.to_csv if suffix == "csv" else frame.to_parquet)(tmp_path / f"t.{suffix}", index=False)
    with pytest.raises(DpGraphError) as refused:
        publish_here(tmp_path / f"t.{suffix}", private({"x": said, "n": {"bounds": [0, 1]}}, unit="cell", mu=1.0))
    assert "unseenword" not in "".join(traceback.format_exception(refused.value))
