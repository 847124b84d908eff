"""A release whose process was killed is finished by another: booked once, and nothing drawn twice."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.s3 import FaultyProxy

from dp_bundle.bundle import open_bundle
from dp_bundle.data import rows as parts
from dp_bundle.errors import BudgetExceededError, DpGraphError, KeyStoreError, MissingValuesError, ParameterError
from dp_bundle.store import open_store, patience
from dp_publish import Policy, Receipt, publish
from dp_publish.ledger import Ledger, open_ledger
from dp_publish.release import job as jobs
from dp_publish.release import resume, targets
from dp_publish.release import rows as maker
from dp_publish.sampling.keystream import SecureKeystream

N_ROWS = 1000  # 10 parts of 100 rows


class KilledError(BaseException):
    """Ends a process as a kill does: nothing of ours handles it."""


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    """Make parts of 100 rows."""
    monkeypatch.setattr(parts, "batch_rows", lambda _: 100)
    monkeypatch.setattr(parts, "_PART_CELLS", 100)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Return the path of a table whose columns have no bounds, and gaps."""
    rng = np.random.default_rng(3)
    y = rng.normal(size=N_ROWS)
    path = tmp_path / "d.parquet"
    pq.write_table(pa.table({"x": rng.normal(size=N_ROWS), "y": pa.array(y, mask=y > 2)}), path, row_group_size=130)
    return path


def _policy(**privacy: Any) -> Policy:
    columns = {"x": {}, "y": {"missing": "center"}}
    if privacy.get("release") == "covariance":
        columns = {"x": {"bounds": [-4, 4]}, "y": {"bounds": [-4, 4], "missing": "midpoint"}}
    return Policy.model_validate({"dataset": {"name": "d"}, "privacy": {"mu": 4.0, **privacy}, "columns": columns})


@contextlib.contextmanager
def _killed_at(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, *, when: Callable[..., bool]) -> Iterator[None]:
    """End the block after the first call of a function for which `when` is true, as a kill would: no handler runs."""
    original = getattr(owner, name)

    def call(*given: Any, **named: Any) -> Any:
        if when is _before:
            raise KilledError
        result = original(*given, **named)
        if when(*given, **named):
            raise KilledError
        return result

    def nothing(*_: Any) -> None:
        """Do what a killed process does."""

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, call)
        patch.setattr("dp_publish.release.recorded._take_back_or_explain", nothing)
        with pytest.raises(KilledError):
            yield


def _recorded(name: str) -> Callable[..., bool]:
    return lambda _, recorded, __: recorded == name


def _always(*_: Any, **__: Any) -> bool:
    return True


def _before(*_: Any, **__: Any) -> bool:
    return True


STOPS: dict[str, tuple[Any, str, Callable[..., bool]]] = {
    "plan": (jobs.Job, "record", _recorded("plan")),
    "booking": (Ledger, "reserve", _always),
    "bounds": (jobs.Job, "record", _recorded("bounds")),
    "centers": (jobs.Job, "record", _recorded("centers")),
    "part 0": (jobs.Job, "record", _recorded("place-00000")),
    "part 6": (jobs.Job, "record", _recorded("place-00006")),
    "contents": (jobs.Job, "record", _recorded("contents")),
    "seal": (jobs.Job, "record", _recorded("sealed")),
    "sealed": (Ledger, "seal", _always),
    "promotion": (Ledger, "commit", _before),
    "manifest": (Ledger, "commit", _always),
}


def _digests(job: Path) -> dict[str, Any]:
    """Return what was drawn so far: bounds, centers, and the digest of each part."""
    found = {path.stem: json.loads(path.read_bytes()) for path in job.glob("*.json")}
    drawn = {name: content["sha256"] for name, content in found.items() if name.startswith("place-")}
    return drawn | {name: found[name] for name in ("bounds", "centers") if name in found}


def _check(receipt: Receipt, drawn: dict[str, Any], ledger: Ledger | None = None) -> None:
    """Check that a release verifies, was booked once, and has what was drawn before."""
    (entry,) = (ledger or Ledger()).entries()
    assert (entry.state, entry.manifest_sha256) == ("published", receipt.manifest_sha256)
    with open_bundle(receipt.path, allow_older=True) as opened:
        assert opened.manifest_sha256 == receipt.manifest_sha256
        assert opened.release == receipt.release
        assert sum(batch.num_rows for batch in opened.batches()) == receipt.report.n_rows == N_ROWS
        for place in range(10):
            assert drawn.get(f"place-{place:05d}") in (None, opened.sha256(f"data/part-{place:05d}.parquet"))
        if "bounds" in drawn:
            assert [list(column.bounds or ()) for column in opened.release.columns] == list(drawn["bounds"].values())
        if "centers" in drawn:
            assert {column.name: column.fill for column in opened.release.columns} == drawn["centers"]


@pytest.mark.parametrize("stop", STOPS)
def test_a_release_goes_on_where_it_stopped(
    stop: str, table: Path, tmp_path: Path, key: Ed25519PrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever a process ends, another finishes the release: one entry, one draw of everything, no job left."""
    owner, name, when = STOPS[stop]
    out, job = tmp_path / "d.tar", tmp_path / "d.job"
    with _killed_at(monkeypatch, owner, name, when=when):
        publish(table, _policy(), out=out, key=key, job=job)
    drawn = _digests(job)
    assert job.stat().st_mode & 0o777 == 0o700
    assert len(Ledger().entries()) == (stop != "plan")
    assert out.exists() == (stop in ("promotion", "manifest"))
    receipt, policy = resume(job, key=key)
    _check(receipt, drawn)
    assert policy.dataset.name == "d"
    assert receipt.report.n_centered > 0
    assert sorted(path.name for path in tmp_path.iterdir() if not path.is_dir()) == ["d.parquet", "d.tar"]
    assert not job.exists()


def test_killed_again_and_again(
    table: Path, tmp_path: Path, key: Ed25519PrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A release that is stopped at each step in turn is finished in the end, with what was drawn first."""
    out, job, drawn = tmp_path / "d.tar", tmp_path / "d.job", {}
    first = True
    for owner, name, when in (STOPS[stop] for stop in STOPS if stop != "booking"):
        with _killed_at(monkeypatch, owner, name, when=when):
            if first:
                publish(table, _policy(), out=out, key=key, job=job)
            resume(job, key=key)
        first = False
        now = _digests(job)
        assert drawn.items() <= now.items()
        drawn = now
    _check(resume(job, key=key)[0], drawn)


@pytest.mark.parametrize("stop", ["plan", "booking", "contents", "seal", "sealed", "promotion", "manifest"])
def test_second_moments_go_on_too(
    stop: str, table: Path, tmp_path: Path, key: Ed25519PrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A covariance release is drawn once: what was recorded of it is what is published."""
    owner, name, when = STOPS[stop]
    job = tmp_path / "d.job"
    with _killed_at(monkeypatch, owner, name, when=when):
        publish(table, _policy(release="covariance"), out=tmp_path / "d.tar", key=key, job=job)
    found = jobs.Job(job, None).read("contents")  # type: ignore[arg-type]
    receipt, _ = resume(job, key=key)
    with open_bundle(receipt.path) as opened:
        digests = [opened.sha256(name) for name in receipt.release.matrix_names]
        assert opened.second_moments().shape == (3, 3)
    assert found is None or found["digests"] == digests
    assert receipt.remark
    assert [entry.state for entry in Ledger().entries()] == ["published"]


def test_a_job_publishes_what_a_release_without_one_does(table: Path, tmp_path: Path, key: Ed25519PrivateKey) -> None:
    """With and without a job, receipts and manifests say the same, but for the draws and the total."""
    plain = publish(table, _policy(), out=tmp_path / "a.tar", key=key)
    recorded = publish(table, _policy(), out=tmp_path / "b.tar", key=key, job=tmp_path / "b.job")
    assert recorded.report.n_rows == plain.report.n_rows
    assert recorded.release.guarantee == plain.release.guarantee
    assert recorded.release.lineage.previous == plain.manifest_sha256
    assert recorded.release.cumulative.releases == 2
    assert not (tmp_path / "b.job").exists()


def test_a_changed_table_is_refused(
    table: Path, tmp_path: Path, key: Ed25519PrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table of another size, time or content is not the one that was paid for; once put back, the release goes on."""
    job, aside = tmp_path / "d.job", tmp_path / "aside"
    with _killed_at(monkeypatch, jobs.Job, "record", when=_recorded("place-00002")):
        publish(table, _policy(), out=tmp_path / "d.tar", key=key, job=job)
    shutil.copy2(table, aside)
    for change in (
        lambda: table.write_bytes(table.read_bytes() + b"x"),
        lambda: os.utime(table, ns=(0, 0)),
        lambda: (table.write_bytes(b"X" + aside.read_bytes()[1:]), shutil.copystat(aside, table)),
        table.unlink,
    ):
        change()
        with pytest.raises(DpGraphError, match=r"was changed since|cannot be read") as caught:
            resume(job, key=key)
        assert "\n" not in str(caught.value)
        shutil.copy2(aside, table)
    assert resume(job, key=key)[0].report.n_rows == N_ROWS


def test_what_a_job_refuses(
    table: Path, tmp_path: Path, key: Ed25519PrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another key or version, a changed part, a job that is held, and what is no job end in one sentence."""
    job = tmp_path / "d.job"
    with _killed_at(monkeypatch, jobs.Job, "record", when=_recorded("place-00002")):
        publish(table, _policy(), out=tmp_path / "d.tar", key=key, job=job)
    with pytest.raises(KeyStoreError, match="give that one with --key"):
        resume(job, key=Ed25519PrivateKey.generate())
    with pytest.raises(DpGraphError, match="another process is at the job"), jobs.open_job(job):
        resume(job, key=key)
    with pytest.raises(DpGraphError, match="is no job"):
        resume(tmp_path, key=key)
    with pytest.raises(DpGraphError, match="there is something at"):
        publish(table, _policy(), out=tmp_path / "e.tar", key=key, job=job)
    with pytest.raises(ParameterError, match="a file or folder"):
        publish(pq.read_table(table), _policy(), out=tmp_path / "e.tar", key=key, job=tmp_path / "e.job")
    with monkeypatch.context() as patch:
        patch.setattr("dp_publish.release.resuming.software", lambda: "dpgraph 99")
        with pytest.raises(DpGraphError, match="resume it with that version"):
            resume(job, key=key)
    part = next(path for path in job.iterdir() if path.name.startswith("part-"))
    part.write_bytes(part.read_bytes()[:-1] + b"?")
    with pytest.raises(DpGraphError, match="is not what it was"):
        resume(job, key=key)
    assert not (tmp_path / "d.tar").exists()
    assert [entry.state for entry in Ledger().entries()] == ["reserved"]


def test_a_refused_release_leaves_no_job(table: Path, tmp_path: Path, key: Ed25519PrivateKey) -> None:
    """If the budget does not allow it, or the table before anything is drawn, nothing is booked and nothing is left."""
    job = tmp_path / "d.job"
    with pytest.raises(BudgetExceededError):
        publish(table, _policy(budget_mu=1.0), out=tmp_path / "d.tar", key=key, job=job)
    assert not job.exists()
    columns = {"x": {"bounds": [-4, 4]}, "y": {"bounds": [-4, 4]}}
    refusing = Policy.model_validate({"dataset": {"name": "d"}, "privacy": {"mu": 4.0}, "columns": columns})
    with pytest.raises(MissingValuesError) as caught:
        publish(table, refusing, out=tmp_path / "d.tar", key=key, job=job)
    notes = " ".join(caught.value.__notes__)
    assert ("nothing is booked" in notes) == (not job.exists())
    assert job.exists() == ("goes on with it" in notes)


def test_an_interrupt_keeps_the_job(
    table: Path, tmp_path: Path, key: Ed25519PrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After an interrupt the message names the command that goes on, and the reservation stays."""
    job = tmp_path / "d.job"

    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        publish(table, _policy(), out=tmp_path / "d.tar", key=key, job=job, progress=interrupt)
    assert f"`dp-publish resume {job}` goes on with it" in caught.value.__notes__[0]
    _check(resume(job, key=key)[0], {})


def test_bits_are_drawn_for_what_has_no_record_alone(
    table: Path, tmp_path: Path, key: Ed25519PrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a stop at the seal, not one random bit is drawn, and the table is not read."""
    job = tmp_path / "d.job"
    with _killed_at(monkeypatch, jobs.Job, "record", when=_recorded("sealed")):
        publish(table, _policy(), out=tmp_path / "d.tar", key=key, job=job)
    table.unlink()
    monkeypatch.setattr(SecureKeystream, "__init__", lambda *_: pytest.fail("bits were drawn"))
    monkeypatch.setattr(maker, "find_bounds", lambda *_: pytest.fail("bounds were drawn"))
    _check(resume(job, key=key)[0], {})


@pytest.mark.slow
def test_a_table_in_a_bucket_goes_on_too(
    table: Path, tmp_path: Path, key: Ed25519PrivateKey, s3: FaultyProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table elsewhere is known again by its size and both ends."""
    store, job = open_store(f"s3://{s3.bucket}/raw"), tmp_path / "d.job"
    store.create("d.parquet", table.read_bytes())
    with _killed_at(monkeypatch, jobs.Job, "record", when=_recorded("place-00003")):
        publish(f"s3://{s3.bucket}/raw/d.parquet", _policy(), out=tmp_path / "d.tar", key=key, job=job)
    drawn = _digests(job)
    store.delete("d.parquet")
    store.create("d.parquet", table.read_bytes()[:-1] + b"?")
    with pytest.raises(DpGraphError, match="was changed since"):
        resume(job, key=key)
    store.delete("d.parquet")
    store.create("d.parquet", table.read_bytes())
    _check(resume(job, key=key)[0], drawn)


ELSEWHERE: dict[str, tuple[Any, str, Callable[..., bool]]] = {
    "part": (jobs.Job, "record", _recorded("place-00003")),
    "before the members": (targets, "unpack_bundle", _before),
    "after the members": (targets, "unpack_bundle", _always),
}


def _finish_elsewhere(stop: str, out: str, ledger: Ledger, table: Path, key: Any, patch: pytest.MonkeyPatch) -> None:
    """Stop a release to another place, finish it, and check that it is there and its tar is not."""
    patch.chdir(table.parent)
    job, (owner, name, when) = Path("d.job"), ELSEWHERE[stop]
    with _killed_at(patch, owner, name, when=when):
        publish(table, _policy(), out=out, key=key, ledger=ledger, job=job)
    drawn = _digests(job)
    assert bool(list(Path().glob("*.tar"))) == (stop != "part")
    _check(resume(job, key=key)[0], drawn, ledger)
    assert not list(Path().glob("*.tar"))
    assert not job.exists()


@pytest.mark.parametrize("stop", ELSEWHERE)
def test_a_folder_goes_on_too(
    stop: str, table: Path, tmp_path: Path, key: Ed25519PrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bundle in a folder, with a ledger in another one, is finished by its manifest."""
    ledger = open_ledger(f"{tmp_path}/books/")
    _finish_elsewhere(stop, f"{tmp_path}/published/", ledger, table, key, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("stop", ELSEWHERE)
def test_a_failing_bucket_goes_on_too(
    stop: str, table: Path, key: Ed25519PrivateKey, s3: FaultyProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So is one in a bucket, with the ledger there, where requests fail and the answer of each creation is lost."""
    monkeypatch.setattr(patience, "_FIRST_PAUSE", 0.0005)
    s3.break_everything()
    ledger = open_ledger(f"s3://{s3.bucket}/books")
    _finish_elsewhere(stop, f"s3://{s3.bucket}/published", ledger, table, key, monkeypatch)
    assert s3.faults["lost"] >= 10
