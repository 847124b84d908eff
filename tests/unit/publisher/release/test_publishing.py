"""A release: whole or not at all, paid for or not at all, and with nothing in it but what was promised."""

from __future__ import annotations

import gc
import os
import resource
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dp_bundle.bundle import open_bundle
from dp_bundle.data import rows as parts
from dp_bundle.errors import (
    BudgetExceededError,
    DataError,
    DpGraphError,
    MissingValuesError,
    ParameterError,
    PolicyError,
    PrivacyError,
    SchemaError,
)
from dp_bundle.files import renaming
from dp_bundle.trust import UnsafeTrustAnyone
from dp_publish import Policy, Receipt, publish
from dp_publish.data import table
from dp_publish.ledger.ledger import Ledger
from dp_publish.release import publishing as release
from dp_publish.release import rows as rows_release
from dp_publish.rows.private_bounds import find_bounds
from dp_publish.sampling.keystream import insecure_keystream

Make = Callable[..., Policy]


@pytest.fixture
def one_column() -> Policy:
    """Return a policy for a column x within [0, 1]."""
    return Policy.model_validate(
        {"dataset": {"name": "d"}, "privacy": {"mu": 1.0}, "columns": {"x": {"bounds": [0, 1]}}}
    )


def rows_of(receipt: Receipt) -> pd.DataFrame:
    """Verify a bundle and read all of it."""
    with open_bundle(receipt.path) as opened:
        return pa.Table.from_batches(list(opened.batches())).to_pandas()


def nothing_happened(folder: Path, before: set[Path]) -> bool:
    """Tell whether the folder holds what it held and the ledger nothing."""
    return {path for path in folder.iterdir() if path.name != "home"} == before and Ledger().entries() == []


def test_bundle_holds_the_clipped_table_plus_the_stated_noise(bundle: Receipt, table: pd.DataFrame) -> None:
    """Rows are in order, noise is centred with the stated variance, text is left out, and the file verifies."""
    frame = rows_of(bundle)

    assert list(frame) == ["height", "weight", "visits"]
    assert bundle.left_out == ("name",)
    assert len(frame) == bundle.release.n_rows == len(table)
    for column in bundle.release.columns:
        noise = frame[column.name] - table[column.name].clip(*column.bounds)
        assert abs(noise.mean()) < 5 * np.sqrt(column.noise.variance / len(table))
        assert noise.var() == pytest.approx(column.noise.variance, rel=0.4)
        steps = frame[column.name] / column.noise.granularity
        assert np.array_equal(steps, np.rint(steps))


def test_every_release_draws_its_own_noise(
    tmp_path: Path, table: pd.DataFrame, policy: Policy, key: Ed25519PrivateKey
) -> None:
    """The same table published twice has independent noise, and the total cost of both in the second."""
    first = publish(table, policy, out=tmp_path / "1.tar", key=key)
    second = publish(table, policy, out=tmp_path / "2.tar", key=key)
    noise = [rows_of(receipt)["height"] - table["height"] for receipt in (first, second)]

    assert abs(np.corrcoef(noise)[0, 1]) < 0.25
    assert second.release.lineage.number == 2
    assert second.release.lineage.previous == first.manifest_sha256
    assert second.release.cumulative.releases == 2
    assert second.release.cumulative.rho == pytest.approx(2 * first.release.cumulative.rho, rel=1e-9)
    assert [entry.state for entry in Ledger().entries()] == ["published", "published"]


def test_missing_values_are_treated_as_the_policy_says(tmp_path: Path, key: Ed25519PrivateKey) -> None:
    """Dropped rows and filled cells are counted for the publisher, and only the row count shows outside."""
    frame = pd.DataFrame({"a": [0.5, None, 0.5, 0.5], "b": pd.array([1, 2, None, 4], dtype="Int64")})
    columns = {"a": {"bounds": [0, 1], "missing": "drop"}, "b": {"bounds": [0, 9], "missing": "midpoint"}}
    document = {"dataset": {"name": "d"}, "privacy": {"mu": 1.0}, "columns": columns}
    receipt = publish(frame, Policy.model_validate(document), out=tmp_path / "a.tar", key=key)

    assert receipt.release.n_rows == len(rows_of(receipt)) == 3
    assert (receipt.report.n_dropped, receipt.report.filled) == (1, {"b": 1})
    assert [column.missing for column in receipt.release.columns] == ["drop", "midpoint"]


def test_snr_release_says_what_it_is(tmp_path: Path, table: pd.DataFrame, key: Ed25519PrivateKey) -> None:
    """Noise from the data's own spread is flagged, states no guarantee, and spoils the dataset's total for good."""
    quick = Policy.model_validate({"dataset": {"name": "d"}, "privacy": {"snr_db": 20.0}})
    sound = Policy.model_validate(
        {
            "dataset": {"name": "d"},
            "privacy": {"mu": 1.0},
            "columns": {name: {"bounds": [0, 300]} for name in ("height", "weight", "visits")},
        }
    )
    first = publish(table, quick, out=tmp_path / "1.tar", key=key).release
    second = publish(table, sound, out=tmp_path / "2.tar", key=key).release

    assert (first.guarantee, first.sigma_derived_from_data, first.conditional_mu) == (None, True, None)
    assert first.columns[0].noise.sigma == pytest.approx(0.1 * table["height"].std(ddof=0), rel=1e-9)
    assert second.guarantee is not None
    assert (second.cumulative.releases, second.cumulative.mu, second.cumulative.rho) == (2, None, None)


@pytest.fixture
def sources(tmp_path: Path) -> dict[str, Any]:
    """Return the same rows in sources of very different layout, beside secrets of very different length."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"x": rng.uniform(size=3000), "secret": ["s" * (index // 10) for index in range(3000)]})
    (tmp_path / "folder").mkdir()
    for index, cut in enumerate(np.array_split(np.arange(3000), [17, 1000, 1001])):
        frame.iloc[cut].to_parquet(tmp_path / "folder" / f"{index}.parquet", index=False)
    frame.to_csv(tmp_path / "long.csv", index=False)
    frame.assign(secret="").to_csv(tmp_path / "short.csv", index=False)
    frame.to_parquet(tmp_path / "groups.parquet", row_group_size=333)
    marked = pa.Table.from_pandas(frame).replace_schema_metadata({"secret": "s3cr3t"})
    chunks = pa.concat_tables([marked.slice(0, 5), marked.slice(5, 2000), marked.slice(2005)])
    return {
        "frame": frame,
        "chunks": chunks,
        "folder": tmp_path / "folder",
        "long": tmp_path / "long.csv",
        "short": tmp_path / "short.csv",
        "groups": tmp_path / "groups.parquet",
    }


def test_layout_of_the_source_does_not_show(
    sources: dict[str, Any],
    one_column: Policy,
    tmp_path: Path,
    key: Ed25519PrivateKey,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Row groups, schema and metadata are the same whatever the source's chunks, files, text lengths and metadata."""
    monkeypatch.setattr(parts, "batch_rows", lambda _: 700)
    monkeypatch.setattr(release, "batch_rows", lambda _: 700)
    monkeypatch.setattr(table, "_CSV_BLOCK", 4096)
    secret = one_column.columns["x"].model_copy(update={"bounds": None, "drop": True})
    policy = one_column.model_copy(update={"columns": {**one_column.columns, "secret": secret}})
    layouts = set()
    for name, source in sources.items():
        receipt = publish(source, policy, out=tmp_path / f"{name}.tar", key=key, ledger=Ledger(tmp_path / name / "l"))
        with open_bundle(receipt.path, UnsafeTrustAnyone()) as opened:
            file = pq.ParquetFile(opened.open("data/part-00000.parquet"))
            groups = tuple(file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups))
            layouts.add((groups, file.schema_arrow.to_string(), file.metadata.metadata is None))
            assert receipt.release.cumulative.releases == 1
    assert layouts == {((700, 700, 700, 700, 200), "x: double not null", True)}


def test_manifest_does_not_depend_on_private_values(one_column: Policy, tmp_path: Path, key: Ed25519PrivateKey) -> None:
    """Two tables with the same columns and row count, otherwise as different as can be, get equal manifests."""
    low, high = pd.DataFrame({"x": np.zeros(500)}), pd.DataFrame({"x": np.full(500, np.inf)})
    found = []
    for index, frame in enumerate((low, high)):
        ledger = Ledger(tmp_path / f"{index}.sqlite")
        receipt = publish(frame, one_column, out=tmp_path / f"{index}.tar", key=key, ledger=ledger)
        document = receipt.release.model_dump(exclude={"lineage": {"created", "ledger_head"}})
        found.append(document)
        assert receipt.report.clipped == ({} if index == 0 else {"x": 500})
    assert found[0] == found[1]


def test_outputs_of_neighbours_differ_by_the_sensitivity_at_most(
    one_column: Policy, tmp_path: Path, key: Ed25519PrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the same random bits, replacing one row changes one output value, by at most the declared width."""
    monkeypatch.setattr(release, "SecureKeystream", lambda: insecure_keystream(5))
    frames = [pd.DataFrame({"x": [0.3, 0.4, value, 0.6]}) for value in (0.5, 1e300)]
    first, second = (
        rows_of(publish(frame, one_column, out=tmp_path / f"{index}.tar", key=key))["x"]
        for index, frame in enumerate(frames)
    )
    assert (first != second).tolist() == [False, False, True, False]
    assert abs(first - second).max() <= 1


@pytest.fixture
def full_disk() -> Iterator[Callable[[int], None]]:
    """Return a function that lets no file of this process grow beyond a size, as a full disk would not."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.parametrize("missing", [6_000, 30_000])
def test_full_disk_leaves_nothing_and_costs_nothing(
    missing: int,
    full_disk: Callable[[int], None],
    one_column: Policy,
    tmp_path: Path,
    key: Ed25519PrivateKey,
) -> None:
    """When the archive (6 kB short) or the data before it (30 kB short) does not fit, there is no file and no cost."""
    frame = pd.DataFrame({"x": np.random.default_rng(1).uniform(size=100_000)})
    sample = publish(frame, one_column, out=tmp_path / "sample.tar", key=key, ledger=Ledger(tmp_path / "l")).path
    before = {path for path in tmp_path.iterdir() if path.name != "home"}
    full_disk(sample.stat().st_size - missing)
    with pytest.raises(DpGraphError, match="cannot be written") as caught:
        publish(frame, one_column, out=tmp_path / "a.tar", key=key)
    assert "\n" not in str(caught.value)
    assert nothing_happened(tmp_path, before)


def test_late_missing_value_leaves_nothing_and_costs_nothing(
    one_column: Policy, tmp_path: Path, key: Ed25519PrivateKey
) -> None:
    """A gap in the last row, after noise was drawn for the others, ends as if nothing had been begun."""
    values = np.full(300_000, 0.5)
    values[-1] = np.nan
    done: list[int] = []
    with pytest.raises(MissingValuesError, match="'x'"):
        publish(pd.DataFrame({"x": values}), one_column, out=tmp_path / "a.tar", key=key, progress=done.append)
    assert done
    assert nothing_happened(tmp_path, set())


def test_damaged_source_leaves_nothing_and_costs_nothing(
    one_column: Policy, tmp_path: Path, key: Ed25519PrivateKey
) -> None:
    """A file that turns out to be damaged halfway through is an error of the data, and nothing is spent."""
    path = tmp_path / "data.parquet"
    pq.write_table(pa.table({"x": np.random.default_rng(1).uniform(size=600_000)}), path, row_group_size=300_000)
    content = bytearray(path.read_bytes())
    start = pq.read_metadata(path).row_group(1).column(0).dictionary_page_offset
    content[start : start + 2000] = bytes(2000)
    path.write_bytes(bytes(content))
    done: list[int] = []
    with pytest.raises(SchemaError, match="damaged"):
        publish(path, one_column, out=tmp_path / "a.tar", key=key, progress=done.append)
    assert done
    assert nothing_happened(tmp_path, {path})


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, RuntimeError])
def test_interruption_leaves_nothing_and_costs_nothing(
    error: type[BaseException], one_column: Policy, tmp_path: Path, key: Ed25519PrivateKey
) -> None:
    """Whatever stops the work, even the user, there is no file and no cost."""

    def stop(_rows: int) -> None:
        raise error

    with pytest.raises(error):
        publish(pd.DataFrame({"x": [0.5]}), one_column, out=tmp_path / "a.tar", key=key, progress=stop)
    assert nothing_happened(tmp_path, set())


def test_interruption_after_the_file_has_its_name_stays_paid_for(
    one_column: Policy, tmp_path: Path, key: Ed25519PrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once a bundle is in place its cost is never taken back, not even if the process is stopped right then."""
    whole_file = release.whole_file

    class Stopped:
        def __init__(self, path: Path) -> None:
            self.inner = whole_file(path)

        def __enter__(self) -> BinaryIO:
            return self.inner.__enter__()

        def __exit__(self, *error: Any) -> None:
            self.inner.__exit__(*error)
            raise KeyboardInterrupt

    monkeypatch.setattr(release, "whole_file", Stopped)
    with pytest.raises(KeyboardInterrupt):
        publish(pd.DataFrame({"x": [0.5]}), one_column, out=tmp_path / "a.tar", key=key)
    assert (tmp_path / "a.tar").exists()
    assert [entry.state for entry in Ledger().entries()] == ["sealed"]


def test_bundle_that_was_taken_away_stays_paid_for(
    one_column: Policy, tmp_path: Path, key: Ed25519PrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signed file that somebody moves as soon as it has its name is spent, though the user then stops the command."""
    link = os.link

    def link_and_lose(source: str, target: Path, **options: Any) -> None:
        link(source, target, **options)
        if Path(target).name == "a.tar":
            Path(target).rename(tmp_path / "taken.tar")
            raise KeyboardInterrupt

    monkeypatch.setattr(os, "link", link_and_lose)
    with pytest.raises(KeyboardInterrupt) as caught:
        publish(pd.DataFrame({"x": [0.5]}), one_column, out=tmp_path / "a.tar", key=key)
    assert not (tmp_path / "a.tar").exists()
    with open_bundle(tmp_path / "taken.tar") as opened:
        assert [(entry.number, entry.state, entry.manifest_sha256) for entry in Ledger().entries()] == [
            (1, "sealed", opened.manifest_sha256)
        ]
    (note,) = caught.value.__notes__
    assert note.startswith("release 1 of 'd' is signed and may be at")


@pytest.mark.parametrize("system", ["unnamed", "hidden"])
@pytest.mark.parametrize("error", [FileExistsError, TimeoutError])
def test_link_whose_answer_was_lost_is_a_release(
    system: str,
    error: type[OSError],
    one_column: Policy,
    tmp_path: Path,
    key: Ed25519PrivateKey,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where the file has its name though the system says otherwise, the release is complete, on the books and said so.

    On a network a repeated request for a link finds the first one's.
    """
    if system == "hidden":
        monkeypatch.delattr(os, "O_TMPFILE")
        monkeypatch.setattr(tempfile, "_O_TMPFILE_WORKS", False)  # which remembers what the system could do
    link = os.link

    def link_and_deny(source: str, target: Path, **options: Any) -> None:
        link(source, target, **options)
        if Path(target).name == "a.tar":
            raise error(5, "lost")

    monkeypatch.setattr(os, "link", link_and_deny)
    receipt = publish(pd.DataFrame({"x": [0.5]}), one_column, out=tmp_path / "a.tar", key=key)
    with open_bundle(tmp_path / "a.tar") as opened:
        assert opened.manifest_sha256 == receipt.manifest_sha256
    assert [entry.state for entry in Ledger().entries()] == ["published"]


def test_same_bundle_in_another_file_is_a_release(
    one_column: Policy, tmp_path: Path, key: Ed25519PrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a file system gives every name a number of its own, the bundle is known by its digest."""
    link = os.link

    def copy_and_deny(source: str, target: Path, **options: Any) -> None:
        link(source, tmp_path / "first", **options)
        Path(target).write_bytes((tmp_path / "first").read_bytes())
        raise FileExistsError(17, "exists")

    monkeypatch.setattr(os, "link", copy_and_deny)
    publish(pd.DataFrame({"x": [0.5]}), one_column, out=tmp_path / "a.tar", key=key)
    assert [entry.state for entry in Ledger().entries()] == ["published"]


def test_file_that_comes_at_the_last_moment_stays_and_the_release_is_spent(
    one_column: Policy, tmp_path: Path, key: Ed25519PrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stranger's file is never taken for ours, and where the link was tried nothing proves that it was not made."""

    def lose_the_race(_source: str, target: Path, **_options: Any) -> None:
        Path(target).write_bytes(b"theirs")
        raise FileExistsError(17, "exists")

    monkeypatch.setattr(os, "link", lose_the_race)
    with pytest.raises(DpGraphError, match="already") as caught:
        publish(pd.DataFrame({"x": [0.5]}), one_column, out=tmp_path / "a.tar", key=key)
    assert (tmp_path / "a.tar").read_bytes() == b"theirs"
    assert "stays on the books" in caught.value.__notes__[0]
    assert [entry.state for entry in Ledger().entries()] == ["sealed"]


def test_folder_without_links_is_found_out_before_anything_is_spent(
    one_column: Policy, tmp_path: Path, key: Ed25519PrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a file can be given no name in one step there is no file, and nothing was ever on the books."""
    _take_links_away(monkeypatch)
    monkeypatch.setattr(renaming, "_system_call", lambda: None)
    with pytest.raises(DpGraphError, match=r"cannot be written.*use another folder"):
        publish(pd.DataFrame({"x": [0.5]}), one_column, out=tmp_path / "a.tar", key=key)
    assert nothing_happened(tmp_path, set())
    assert Ledger().books().lines == []


def test_folder_without_links_can_be_published_to(
    one_column: Policy, tmp_path: Path, key: Ed25519PrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A memory stick has no links, and renames onto nothing: the release appears there whole, and replaces nothing."""
    _take_links_away(monkeypatch)
    (tmp_path / "stick").mkdir()
    receipt = publish(pd.DataFrame({"x": [0.5]}), one_column, out=tmp_path / "stick" / "a.tar", key=key)
    with open_bundle(receipt.path) as opened:
        assert opened.manifest_sha256 == receipt.manifest_sha256
    assert [path.name for path in (tmp_path / "stick").iterdir()] == ["a.tar"]
    with pytest.raises(DpGraphError, match="never replaced"):
        publish(pd.DataFrame({"x": [0.5]}), one_column, out=tmp_path / "stick" / "a.tar", key=key)


def _take_links_away(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_words: object, **_options: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.delattr(os, "O_TMPFILE")
    monkeypatch.setattr(tempfile, "_O_TMPFILE_WORKS", False)  # which remembers what the system could do
    monkeypatch.setattr(os, "link", refuse)


def test_ledger_says_published_only_when_the_file_is_on_the_disk(
    one_column: Policy, tmp_path: Path, key: Ed25519PrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder is synced with the file's name in it before the commit, so that a loss of power cannot undo it."""
    states: list[tuple[bool, str]] = []
    sync = os.fsync

    def note(descriptor: int) -> None:
        if os.path.samestat(os.fstat(descriptor), tmp_path.stat()):
            states.append(((tmp_path / "a.tar").exists(), Ledger().entries()[0].state))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    publish(pd.DataFrame({"x": [0.5]}), one_column, out=tmp_path / "a.tar", key=key)
    assert states == [(True, "sealed")]
    assert Ledger().entries()[0].state == "published"


def test_existing_files_are_never_replaced(one_column: Policy, tmp_path: Path, key: Ed25519PrivateKey) -> None:
    """A file that is there before, or that appears in the meantime, stays as it is, and nothing is spent."""
    out = tmp_path / "a.tar"
    frame = pd.DataFrame({"x": [0.5]})
    with pytest.raises(DpGraphError, match="already"):
        publish(frame, one_column, out=out, key=key, progress=lambda _: out.write_bytes(b"theirs") and None)
    with pytest.raises(DpGraphError, match="already"):
        publish(frame, one_column, out=out, key=key)
    assert out.read_bytes() == b"theirs"
    assert nothing_happened(tmp_path, {out})


def test_links_and_folders_at_the_path_are_left_alone(
    one_column: Policy, tmp_path: Path, key: Ed25519PrivateKey
) -> None:
    """Neither a folder nor a dangling link is written to or through."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "target")
    for name in ("folder", "link"):
        with pytest.raises(DpGraphError, match="already"):
            publish(pd.DataFrame({"x": [0.5]}), one_column, out=tmp_path / name, key=key)
    assert nothing_happened(tmp_path, {tmp_path / "folder", tmp_path / "link"})


def test_impossible_releases_cost_nothing(one_column: Policy, tmp_path: Path, key: Ed25519PrivateKey) -> None:
    """A missing folder, a table without rows, and a column without bounds are refused before anything is spent."""
    cases: list[tuple[pd.DataFrame, Path, type[DpGraphError]]] = [
        (pd.DataFrame({"x": [0.5]}), tmp_path / "no" / "a.tar", ParameterError),
        (pd.DataFrame({"x": np.array([], dtype=float)}), tmp_path / "a.tar", DataError),
        (pd.DataFrame({"y": [0.5]}), tmp_path / "a.tar", PolicyError),
        (pd.DataFrame({"x": ["0.5"]}), tmp_path / "a.tar", PolicyError),
    ]
    for frame, out, error in cases:
        with pytest.raises(error):
            publish(frame, one_column, out=out, key=key)
    assert nothing_happened(tmp_path, set())


def test_all_rows_dropped_is_no_release(tmp_path: Path, key: Ed25519PrivateKey) -> None:
    """A table of which nothing is left is refused like an empty one."""
    columns = {"x": {"bounds": [0, 1], "missing": "drop"}}
    document = {"dataset": {"name": "d"}, "privacy": {"mu": 1.0}, "columns": columns}
    with pytest.raises(DataError, match="no rows"):
        publish(pd.DataFrame({"x": [np.nan, np.nan]}), Policy.model_validate(document), out=tmp_path / "a.tar", key=key)
    assert nothing_happened(tmp_path, set())


def test_no_raw_value_is_in_the_file(tmp_path: Path, key: Ed25519PrivateKey) -> None:
    """Neither the bytes of a raw number nor those of a text column are in the bundle."""
    raw = 0.123456789123
    frame = pd.DataFrame({"x": np.full(50, raw), "secret_name": ["s3cr3t-text"] * 50})
    columns = {"x": {"bounds": [0, 1]}}
    document = {"dataset": {"name": "d"}, "privacy": {"mu": 1.0}, "columns": columns}
    content = publish(frame, Policy.model_validate(document), out=tmp_path / "a.tar", key=key).path.read_bytes()
    for secret in (np.float64(raw).tobytes(), str(raw).encode(), b"s3cr3t-text", b"secret_name"):
        assert secret not in content


def test_failed_releases_fall_silent(
    one_column: Policy, tmp_path: Path, key: Ed25519PrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A half-written part that is let go of prints nothing on stderr when it is collected."""
    complaints: list[object] = []
    monkeypatch.setattr("sys.unraisablehook", lambda unraisable: complaints.append(unraisable.exc_value))
    monkeypatch.setattr(parts, "batch_rows", lambda _: 10)
    values = np.full(1000, 0.5)
    values[-1] = np.nan
    monkeypatch.setattr(release, "batch_rows", lambda _: 10)
    with pytest.raises(MissingValuesError):
        publish(pd.DataFrame({"x": values}), one_column, out=tmp_path / "a.tar", key=key)
    gc.collect()
    assert complaints == []


def private(columns: dict[str, Any] | None = None, **privacy: Any) -> Policy:
    """Return a policy that leaves bounds out."""
    return Policy.model_validate({"dataset": {"name": "d"}, "privacy": privacy, "columns": columns or {}})


def test_bounds_are_found_and_paid_for(tmp_path: Path, key: Ed25519PrivateKey, monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns without bounds get powers of two around their values, and search and rows together cost the strength."""
    monkeypatch.setattr(release, "SecureKeystream", lambda: insecure_keystream(5))
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(
        {"x": rng.uniform(3, 900, 50_000), "n": rng.integers(-30, 5, 50_000), "y": rng.uniform(size=50_000)}
    )
    policy = private({"y": {"bounds": [0, 1]}}, mu=2.0)
    receipt = publish(frame, policy, out=tmp_path / "a.tar", key=key)
    made = receipt.release

    assert made.guarantee is not None
    assert [column.bounds_obtained for column in made.columns] == ["private-histogram"] * 2 + ["declared"]
    for column, (low, high) in zip(made.columns, [(2.0, 1024.0), (-32.0, 8.0), (0.0, 1.0)], strict=True):
        assert column.bounds is not None  # at least those, and now and then a bin or two more
        assert (8 * low if low < 0 else 0.25) <= column.bounds[0] <= low or low == 0
        assert high <= column.bounds[1] <= 8 * high
    assert made.guarantee.bounds_mu == pytest.approx(2 * np.sqrt(0.1), rel=1e-9)
    assert made.guarantee.rho == pytest.approx(2.0, rel=1e-9)
    assert Ledger().entries()[0].cost.mu["row"] == pytest.approx(2.0, rel=1e-9)
    assert receipt.report.clipped == {}
    with open_bundle(receipt.path) as opened:
        assert opened.release == made


def test_refusal_that_tells_of_the_search_stays_paid_for(tmp_path: Path, key: Ed25519PrivateKey) -> None:
    """When the strength does not go with the bounds that were found, the error shows noisy bounds, so they count."""
    frame = pd.DataFrame({"x": np.full(10_000, 2**51)})
    with pytest.raises(PrivacyError, match="does not go with"):
        publish(frame, private(mu=1.0), out=tmp_path / "a.tar", key=key)
    assert [entry.state for entry in Ledger().entries()] == ["reserved"]
    assert [path.name for path in tmp_path.iterdir()] == ["home"]


@pytest.mark.parametrize(
    "place", [(rows_release, "guarantee_of_rows"), (rows_release, "set_noise"), (release, "write_bundle")]
)
def test_fault_after_the_search_stays_paid_for(
    place: tuple[ModuleType, str], tmp_path: Path, key: Ed25519PrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever goes wrong once bounds were found may show them, up to the guarantee and beyond, so that it counts."""

    def fail(*_words: object, **_options: object) -> None:
        raise OverflowError("bounds of 1024")

    monkeypatch.setattr(*place, fail)
    with pytest.raises(OverflowError):
        publish(pd.DataFrame({"x": [900.0] * 1000}), private(mu=1.0), out=tmp_path / "a.tar", key=key)
    assert [entry.state for entry in Ledger().entries()] == ["reserved"]


def test_failure_after_the_search_that_tells_nothing_is_free(tmp_path: Path, key: Ed25519PrivateKey) -> None:
    """A missing value, which the search does not look at, ends the release without cost."""
    frame = pd.DataFrame({"x": [1.0] * 1000 + [np.nan]})
    with pytest.raises(MissingValuesError):
        publish(frame, private(mu=1.0), out=tmp_path / "a.tar", key=key)
    assert nothing_happened(tmp_path, set())


@pytest.mark.parametrize("missing", ["midpoint", "drop"])
def test_missing_values_go_with_found_bounds(missing: str, tmp_path: Path, key: Ed25519PrivateKey) -> None:
    """Gaps are filled with the middle of the found bounds, or their rows dropped, as with declared ones."""
    frame = pd.DataFrame({"x": [3.0] * 30_000 + [np.nan] * 30_000})
    receipt = publish(frame, private({"x": {"missing": missing}}, mu=5.0), out=tmp_path / "a.tar", key=key)
    column, values = receipt.release.columns[0], rows_of(receipt)["x"]
    assert column.bounds is not None
    assert column.bounds[0] <= 2 < 4 <= column.bounds[1]
    assert len(values) == receipt.release.n_rows == (60_000 if missing == "midpoint" else 30_000)
    middle = 3.0 if missing == "drop" else sum(column.bounds) / 2
    assert abs(values[-20_000:].mean() - middle) < 5 * np.sqrt(column.noise.variance / 20_000)


def test_every_batch_gets_noise_of_its_own(one_column: Policy, tmp_path: Path, key: Ed25519PrivateKey) -> None:
    """A constant column in four batches comes out with the stated noise in each, and no two batches alike."""
    batches = [pa.table({"x": np.full(500, 0.5)}) for _ in range(4)]
    receipt = publish(pa.concat_tables(batches), one_column, out=tmp_path / "a.tar", key=key)
    noise = rows_of(receipt)["x"].to_numpy().reshape(4, 500) - 0.5
    sigma = receipt.release.columns[0].cell_noise.sigma
    assert (abs(noise.std(axis=1) / sigma - 1) < 5 / np.sqrt(2 * 500)).all()
    assert (abs(np.corrcoef(noise)[np.triu_indices(4, 1)]) < 5 / np.sqrt(500)).all()


def test_bounds_are_found_in_what_the_cap_leaves(
    tmp_path: Path, key: Ed25519PrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of an entity's rows the search counts no more than are published, so that what it has beyond them cannot show."""
    counted = []

    def find(counts: np.ndarray, *rest: Any) -> Any:
        counted.append(counts.sum(axis=1).tolist())
        return find_bounds(counts, *rest)

    monkeypatch.setattr(rows_release, "find_bounds", find)
    owners = [f"person {index}" for index in range(300)] + ["crowd"] * 1000
    frame = pd.DataFrame({"x": [1.5] * 300 + [1e9] * 1000, "y": [0.5] * 1300, "who": owners})
    privacy = {"unit": {"entity": "who", "max_rows": 2}, "mu": 1.0}
    policy = Policy.model_validate({"dataset": {"name": "d"}, "privacy": privacy})
    receipt = publish(frame, policy, out=tmp_path / "a.tar", key=key)
    assert counted == [[302, 302]]
    assert receipt.release.n_rows == 302


def test_entities_are_capped_in_a_release(tmp_path: Path, key: Ed25519PrivateKey) -> None:
    """Only so many rows of an entity are published, its column is not, and every account is charged for."""
    frame = pd.DataFrame({"who": ["a"] * 50 + ["b"] * 2 + ["c"] * 9, "x": np.arange(61) / 61})
    policy = private({"x": {"bounds": [0, 1]}}, mu=1.0, unit={"entity": "who", "max_rows": 4}, budget_mu=1.4)
    receipt = publish(frame, policy, out=tmp_path / "a.tar", key=key)
    guarantee = receipt.release.guarantee

    assert receipt.release.n_rows == len(rows_of(receipt)) == 10
    assert (receipt.report.n_over_cap, receipt.left_out) == (51, ("who",))
    assert guarantee is not None
    assert (guarantee.entity, guarantee.max_rows) == ("who", 4)
    assert receipt.release.columns[0].noise.sigma == pytest.approx(2.0)
    (entry,) = Ledger().entries()
    assert entry.cost.mu == {name: pytest.approx(mu) for name, mu in (("cell", 0.5), ("row", 0.5), ("entity:who", 1.0))}
    assert b"who" not in b"".join(receipt.path.read_bytes().split(b"manifest")[:1])
    with pytest.raises(BudgetExceededError):
        publish(frame, policy, out=tmp_path / "b.tar", key=key, partition="later")


def test_rows_in_a_ball_are_released(tmp_path: Path, key: Ed25519PrivateKey) -> None:
    """Rows in a ball verify, state the ball, and those outside are counted for the publisher."""
    frame = pd.DataFrame({"x": [0.0, 3.0, np.inf, 0.1], "y": [0, 4, 0, 10**18]})
    receipt = publish(frame, private(mu=1.0, l2_radius=5.1), out=tmp_path / "a.tar", key=key)
    assert receipt.report.n_clipped_rows == 2
    with open_bundle(receipt.path) as opened:
        ball = opened.release.columns[1].ball
        assert ball is not None
        assert ball.radius == 5.1
        assert opened.release.columns[1].noise.sigma == pytest.approx(10.2)


def test_release_past_the_budget_leaves_nothing(one_column: Policy, tmp_path: Path, key: Ed25519PrivateKey) -> None:
    """A release that the budget does not allow is refused before any noise, without a file or a cost."""
    policy = one_column.model_copy(update={"privacy": one_column.privacy.model_copy(update={"budget_mu": 0.99})})
    with pytest.raises(BudgetExceededError):
        publish(pd.DataFrame({"x": [0.5]}), policy, out=tmp_path / "a.tar", key=key)
    assert nothing_happened(tmp_path, set())


def test_column_of_entities_is_never_published(tmp_path: Path, key: Ed25519PrivateKey) -> None:
    """After a release per entity, the column that names the entities is left out of releases in other units, too."""
    frame = pd.DataFrame({"who": np.arange(60) // 3, "x": np.arange(60) / 60})
    bounds = {"bounds": [0, 1]}
    whole = private({"x": bounds}, mu=1.0, unit={"entity": "who", "max_rows": 3}, budget_mu=1.5)
    publish(frame, whole, out=tmp_path / "a.tar", key=key)
    rows = private({"x": bounds}, mu=0.1)
    with pytest.raises(BudgetExceededError, match="budget per entity:who"):
        publish(frame, rows, out=tmp_path / "b.tar", key=key)

    other = Ledger(tmp_path / "other.sqlite")
    free = whole.model_copy(update={"privacy": whole.privacy.model_copy(update={"budget_mu": None})})
    publish(frame, free, out=tmp_path / "c.tar", key=key, ledger=other)
    receipt = publish(frame, rows, out=tmp_path / "d.tar", key=key, ledger=other)
    assert [column.name for column in receipt.release.columns] == ["x"]
    assert (receipt.left_out, receipt.withheld) == (("who",), ("who",))
    named = private({"x": bounds, "who": {"bounds": [0, 20]}}, mu=0.1)
    with pytest.raises(PolicyError, match="not published: 'who'"):
        publish(frame, named, out=tmp_path / "e.tar", key=key, ledger=other)
