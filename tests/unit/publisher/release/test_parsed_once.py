"""Many passes over a text file, which is parsed once."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from dp_publish.data.table import open_table
from dp_publish.release import preparing


@pytest.mark.parametrize(("folder", "n_parses"), [(".", 1), ("none", 3)])
def test_a_text_file_is_parsed_once_for_all_passes(
    folder: str, n_parses: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many numbers are kept in a file that has no name; without room for one, the text is parsed again."""
    (tmp_path / "t.csv").write_text("a,b\n" + "".join(f"{row},{row / 8}\n" for row in range(30)))
    table, parses = open_table(tmp_path / "t.csv"), list[object]()

    def count(names: list[str], rows: int) -> Iterator[pa.RecordBatch]:
        parses.append(names)
        return table.batches(names, rows)

    monkeypatch.setattr(preparing, "_MOST_KEPT", 0)
    once = preparing.ParsedOnce(replace(table, batches=count), 7, tmp_path / folder)
    passes = [pa.Table.from_batches(once.read({"a": "integer", "b": "continuous"})) for _ in range(3)]
    assert [each.column("b").to_pylist() for each in passes] == 3 * [[row / 8 for row in range(30)]]
    assert len(parses) == n_parses
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]
