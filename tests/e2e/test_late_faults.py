"""What is wrong at the end of a long table is refused before anything is booked, and burns no number."""

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.conftest import Run

from dp_publish.ledger.ledger import Ledger

N_ROWS = 150_000
BOUNDS = '[columns."*"]\nbounds = [0, 20]\nmissing = "midpoint"\n'


def text(end: bytes) -> bytes:
    """Return a text file with this last line."""
    return b"a,b,c\n" + b"".join(b"%d,%d.5,%d\n" % (i % 7, i % 11, i % 13) for i in range(N_ROWS)) + end


def damaged_parquet() -> bytes:
    """Return a Parquet file of which one page in the last row group is overwritten."""
    sink, rng = pa.BufferOutputStream(), np.random.default_rng(0)
    pq.write_table(pa.table({name: rng.random(N_ROWS) for name in "abc"}), sink, row_group_size=20_000)
    whole = bytearray(sink.getvalue().to_pybytes())
    metadata = pq.ParquetFile(pa.BufferReader(bytes(whole))).metadata
    start = metadata.row_group(metadata.num_row_groups - 1).column(1).data_page_offset
    whole[start : start + 40] = b"\xff" * 40
    return bytes(whole)


FILES: dict[str, Callable[[], bytes]] = {
    "fields.csv": lambda: text(b"1,2.5,3,4\n"),
    "quotation.csv": lambda: text(b'1,"2.5,3\n'),
    "cut.csv.gz": lambda: gzip.compress(text(b""), 1)[:-20_000],
    "page.parquet": damaged_parquet,
}
WAYS: dict[str, tuple[str, ...]] = {
    "nothing said": (),
    "declared": ("--mu", "20"),
}


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", FILES)
def test_a_fault_at_the_end_burns_no_number(
    name: str, way: str, tmp_path: Path, command: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one sentence, without a line in the books or a file, whatever is released."""
    monkeypatch.chdir(tmp_path)
    Path(name).write_bytes(FILES[name]())
    if way == "declared":
        Path(f"{name.partition('.')[0]}.policy.toml").write_text(BOUNDS)
    before = sorted(tmp_path.iterdir())
    refused = command("dp-publish", name, *WAYS[way])
    assert refused.returncode != 0
    assert refused.stderr.count("error:") == 1
    assert "will not be used again" not in refused.stderr
    assert Ledger().books().entries == {}
    assert [path for path in sorted(tmp_path.iterdir()) if path not in before and path.name != "home"] == []
