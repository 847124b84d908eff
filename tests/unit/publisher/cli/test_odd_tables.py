"""What stands in a release's way is named by `plan --look` as by publishing, all at once, and burns no number."""

import itertools
from pathlib import Path

import pytest
from tests.unit.publisher.conftest import Call

from dp_publish.ledger.ledger import Ledger

N_ROWS = 400
GOOD = "good", lambda row: f"{row % 97 / 10}", "bounds = [0, 10]"
BAD = {  # of a column: its name, its cells by row, and its section, which does not fit them
    "words": ("words", lambda _: "blue", 'kind = "continuous"\nbounds = [0, 1]'),
    "late word": ("late", lambda row: "blue" if row == 399 else "1", 'kind = "continuous"\nbounds = [0, 1]'),
    "number with a comma": ("comma", lambda _: '"12,5"', "bounds = [0, 9]"),
    "gap": ("gap", lambda row: "" if row % 7 == 0 else f"{row % 9}", "bounds = [0, 9]"),
    "late gap": ("lategap", lambda row: "NA" if row == 398 else f"{row % 9}", "bounds = [0, 9]"),
    "date": ("day", lambda _: "05.10.2024", 'kind = "date"\nbounds = [2024-01-01, 2025-01-01]'),
    "level": ("level", lambda row: "abc"[row % 3], 'kind = "category"\ncategories = ["a", "b"]'),
    "code": ("code", lambda row: "-999" if row % 50 == 0 else f"{row % 60}", "bounds = [0, 60]"),
    "outside": ("outside", lambda row: f"{1000 + row % 7}", "bounds = [0, 10]"),
}
READ = {"words", "late word", "number with a comma", "date", "level"}  # what cannot be read is told before what can
TABLES = [
    names
    for number in (1, 2, 3)
    for names in itertools.combinations(BAD, number)
    if len({name in READ for name in names}) == 1 and (number < 3 or not READ & {*names} or "late word" not in names)
]


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(names, marks=[(), pytest.mark.slow, pytest.mark.long][len(names) - 1], id=" and ".join(names))
        for names in TABLES
    ],
)
def test_all_that_is_refused_is_named_at_once(names: tuple[str, ...], call: Call, tmp_path: Path) -> None:
    """Every bad column of a table is in the answer of either command, and the ledger stays empty."""
    columns = [GOOD, *(BAD[name] for name in names)]
    lines = [",".join(cells(row) for _, cells, _ in columns) for row in range(N_ROWS)]
    (tmp_path / "t.csv").write_text("\n".join([",".join(name for name, *_ in columns), *lines]) + "\n")
    sections = "".join(f"[columns.{name}]\n{section}\n" for name, _, section in columns)
    (tmp_path / "t.policy.toml").write_text(f'[privacy]\nrelease = "covariance"\nmu = 3\n{sections}')

    looked = call("plan", "t.csv", "--look")
    refused = call("t.csv")
    assert looked.code == 0
    assert refused.code in (1, 2)
    for name, *_ in columns[1:]:
        assert f"'{name}'" in looked.err, (name, looked.err)
        assert f"'{name}'" in refused.err, (name, refused.err)
    assert refused.err.count("error:") == 1
    assert Ledger().entries() == []
