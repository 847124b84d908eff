"""A job whose table, key, plan or records are not what they were publishes nothing under terms that were not booked."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.unit.publisher.release.stopped_jobs import N_ROWS, Stopping, check

from dp_bundle.base.errors import DpGraphError, KeyStoreError, ParameterError
from dp_publish.ledger.ledger import Ledger
from dp_publish.release import job as jobs
from dp_publish.release.resuming import resume
from dp_publish.sampling.keystream import SecureKeystream


def test_a_changed_table_is_refused(stopping: Stopping, with_gaps: Path, tmp_path: Path) -> None:
    """A table of another size, time or content is not the one that was paid for; once put back, the release goes on."""
    aside = tmp_path / "aside"
    stopping.begin("part 0")
    shutil.copy2(with_gaps, aside)
    for change in (
        lambda: with_gaps.write_bytes(with_gaps.read_bytes() + b"x"),
        lambda: os.utime(with_gaps, ns=(0, 0)),
        lambda: (with_gaps.write_bytes(b"X" + aside.read_bytes()[1:]), shutil.copystat(aside, with_gaps)),
        with_gaps.unlink,
    ):
        change()
        with pytest.raises(DpGraphError) as caught:
            stopping.resume()
        assert "\n" not in str(caught.value)
        shutil.copy2(aside, with_gaps)
    assert stopping.resume().report.n_rows == N_ROWS


def test_what_a_job_refuses(
    stopping: Stopping, with_gaps: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another key or version, a changed part, a job that is held, and what is no job end in one sentence."""
    job, key = stopping.job, stopping.key
    stopping.begin("part 0")
    with pytest.raises(KeyStoreError, match="--key"):
        resume(job, key=Ed25519PrivateKey.generate())
    with pytest.raises(DpGraphError, match="another process"), jobs.open_job(job):
        resume(job, key=key)
    with pytest.raises(DpGraphError, match="job"):
        resume(tmp_path, key=key)
    with pytest.raises(DpGraphError, match="something"):
        stopping.publish(out=tmp_path / "e.tar")
    stopping.data = pq.read_table(with_gaps)
    with pytest.raises(ParameterError, match="folder"):
        stopping.publish(out=tmp_path / "e.tar", job=tmp_path / "e.job")
    with monkeypatch.context() as patch:
        patch.setattr("dp_publish.release.resuming.software", lambda: "dpgraph 99")
        with pytest.raises(DpGraphError, match="version"):
            resume(job, key=key)
    part = next(path for path in job.iterdir() if path.name.startswith("part-"))
    part.write_bytes(part.read_bytes()[:-1] + b"?")
    with pytest.raises(DpGraphError, match="part-"):
        resume(job, key=key)
    assert not (tmp_path / "d.tar").exists()
    assert [entry.state for entry in Ledger().entries()] == ["reserved"]


@pytest.mark.parametrize(("stop", "lost"), [("sealed", ["contents"]), ("promotion", ["*"])])
def test_nothing_is_drawn_again_after_the_seal(
    stop: str, lost: list[str], stopping: Stopping, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job that has lost records of a bundle that may have left is refused, even if that bundle was moved away."""
    job, out = stopping.job, Path(stopping.out)
    stopping.begin(stop)
    for path in [path for pattern in lost for path in job.glob(f"{pattern}.json") if path.stem != "plan"]:
        path.unlink()
    if out.exists():
        out.rename(tmp_path / "left.tar")
    monkeypatch.setattr(SecureKeystream, "__init__", lambda *_: pytest.fail("bits were drawn"))
    with pytest.raises(DpGraphError, match="publish anew"):
        stopping.resume()
    assert not out.exists()
    assert [entry.state for entry in Ledger().entries()] == ["sealed"]


def test_what_was_sealed_is_what_is_published(stopping: Stopping) -> None:
    """Without the job's record of the seal the ledger's decides: other contents are refused, the same go on."""
    stopping.begin("sealed")
    (stopping.job / "sealed.json").unlink()
    contents = stopping.job / "contents.json"
    whole = contents.read_bytes()
    edited = json.loads(whole)
    for change in ({"n_rows": 999}, {"unknown": 1.0}, {"report": {"rows": 1000}}, None):
        contents.write_bytes(whole[:-9] if change is None else json.dumps(edited | change).encode())
        with pytest.raises(DpGraphError):
            stopping.resume()
    contents.write_bytes(whole)
    check(stopping.resume(), {})


def test_a_copied_job_does_not_publish_again(stopping: Stopping, tmp_path: Path) -> None:
    """A copy of the folder from before the seal, gone on with after the release was sealed by the other, is refused."""
    copied, out = tmp_path / "copied.job", Path(stopping.out)
    stopping.begin("part 0")
    shutil.copytree(stopping.job, copied)
    with stopping.at("promotion"):
        stopping.resume()
    out.rename(tmp_path / "left.tar")
    with pytest.raises(DpGraphError, match="publish anew"):
        resume(copied, key=stopping.key)
    assert not out.exists()


@pytest.mark.parametrize("stop", ["booking", "part 6", "sealed"])
def test_an_edited_plan_is_refused(stop: str, stopping: Stopping) -> None:
    """What was paid for is what is published: a plan with another strength is not that of the booked release."""
    stopping.begin(stop)
    plan = stopping.job / "plan.json"
    edited = json.loads(plan.read_bytes())
    edited["policy"]["privacy"]["mu"] = 40.0
    plan.write_text(json.dumps(edited))
    if stop == "booking":  # nothing was drawn, and the job does not know that it was booked: it is paid for anew
        cost = stopping.resume().release.cumulative
        assert [entry.state for entry in Ledger().entries()] == ["reserved", "published"]
        assert cost.releases == 2
        assert cost.mu > 40.0
        return
    with pytest.raises(DpGraphError, match="booked"):
        stopping.resume()
    assert not Path(stopping.out).exists()
    assert len(Ledger().entries()) == 1
