"""A job whose table, key, plan or records are not what they were publishes nothing under terms that were not booked."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.unit.publisher.release.stopped_jobs import (
    N_ROWS,
    STOPS,
    always,
    before,
    check,
    killed_at,
    policy_of,
    recorded,
)

from dp_bundle.base.errors import DpGraphError, KeyStoreError, ParameterError
from dp_publish import publish
from dp_publish.ledger.ledger import Ledger
from dp_publish.release import job as jobs
from dp_publish.release.resuming import resume
from dp_publish.sampling.keystream import SecureKeystream

pytestmark = pytest.mark.usefixtures("small_parts")


def test_a_changed_table_is_refused(
    with_gaps: Path, tmp_path: Path, key: Ed25519PrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table of another size, time or content is not the one that was paid for; once put back, the release goes on."""
    job, aside = tmp_path / "d.job", tmp_path / "aside"
    with killed_at(monkeypatch, jobs.Job, "record", when=recorded("place-00002")):
        publish(with_gaps, policy_of(), out=tmp_path / "d.tar", key=key, job=job)
    shutil.copy2(with_gaps, aside)
    for change in (
        lambda: with_gaps.write_bytes(with_gaps.read_bytes() + b"x"),
        lambda: os.utime(with_gaps, ns=(0, 0)),
        lambda: (with_gaps.write_bytes(b"X" + aside.read_bytes()[1:]), shutil.copystat(aside, with_gaps)),
        with_gaps.unlink,
    ):
        change()
        with pytest.raises(DpGraphError, match=r"was changed since|cannot be read") as caught:
            resume(job, key=key)
        assert "\n" not in str(caught.value)
        shutil.copy2(aside, with_gaps)
    assert resume(job, key=key)[0].report.n_rows == N_ROWS


def test_what_a_job_refuses(
    with_gaps: Path, tmp_path: Path, key: Ed25519PrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another key or version, a changed part, a job that is held, and what is no job end in one sentence."""
    job = tmp_path / "d.job"
    with killed_at(monkeypatch, jobs.Job, "record", when=recorded("place-00002")):
        publish(with_gaps, policy_of(), out=tmp_path / "d.tar", key=key, job=job)
    with pytest.raises(KeyStoreError, match="give that one with --key"):
        resume(job, key=Ed25519PrivateKey.generate())
    with pytest.raises(DpGraphError, match="another process is at the job"), jobs.open_job(job):
        resume(job, key=key)
    with pytest.raises(DpGraphError, match="is no job"):
        resume(tmp_path, key=key)
    with pytest.raises(DpGraphError, match="there is something at"):
        publish(with_gaps, policy_of(), out=tmp_path / "e.tar", key=key, job=job)
    with pytest.raises(ParameterError, match="a file or folder"):
        publish(pq.read_table(with_gaps), policy_of(), out=tmp_path / "e.tar", key=key, job=tmp_path / "e.job")
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


@pytest.mark.parametrize(("stop", "lost"), [("sealed", ["contents"]), ("promotion", ["*"])])
def test_nothing_is_drawn_again_after_the_seal(
    stop: str,
    lost: list[str],
    with_gaps: Path,
    tmp_path: Path,
    key: Ed25519PrivateKey,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A job that has lost records of a bundle that may have left is refused, even if that bundle was moved away."""
    owner, name, when = STOPS[stop]
    job, out = tmp_path / "d.job", tmp_path / "d.tar"
    with killed_at(monkeypatch, owner, name, when=when):
        publish(with_gaps, policy_of(), out=out, key=key, job=job)
    for path in [path for pattern in lost for path in job.glob(f"{pattern}.json") if path.stem != "plan"]:
        path.unlink()
    if out.exists():
        out.rename(tmp_path / "left.tar")
    monkeypatch.setattr(SecureKeystream, "__init__", lambda *_: pytest.fail("bits were drawn"))
    with pytest.raises(DpGraphError, match="stays on the books as spent: publish anew"):
        resume(job, key=key)
    assert not out.exists()
    assert [entry.state for entry in Ledger().entries()] == ["sealed"]


def test_what_was_sealed_is_what_is_published(
    with_gaps: Path, tmp_path: Path, key: Ed25519PrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the job's record of the seal the ledger's decides: other contents are refused, the same go on."""
    job = tmp_path / "d.job"
    with killed_at(monkeypatch, Ledger, "seal", when=always):
        publish(with_gaps, policy_of(), out=tmp_path / "d.tar", key=key, job=job)
    (job / "sealed.json").unlink()
    contents = job / "contents.json"
    whole = contents.read_bytes()
    edited = json.loads(whole)
    for change, message in (
        ({"n_rows": 999}, "would not have the bytes that were sealed"),
        ({"conditional_mu": 1.0}, r"contents.* is not what it was"),
        ({"report": {"rows": 1000}}, r"contents.* is not what it was"),
    ):
        contents.write_text(json.dumps(edited | change))
        with pytest.raises(DpGraphError, match=message):
            resume(job, key=key)
    contents.write_bytes(whole[:-9])
    with pytest.raises(DpGraphError, match=r"contents.* is not what it was"):
        resume(job, key=key)
    contents.write_bytes(whole)
    check(resume(job, key=key)[0], {})


def test_a_copied_job_does_not_publish_again(
    with_gaps: Path, tmp_path: Path, key: Ed25519PrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy of the folder from before the seal, gone on with after the release was sealed by the other, is refused."""
    job, copied, out = tmp_path / "d.job", tmp_path / "copied.job", tmp_path / "d.tar"
    with killed_at(monkeypatch, jobs.Job, "record", when=recorded("place-00002")):
        publish(with_gaps, policy_of(), out=out, key=key, job=job)
    shutil.copytree(job, copied)
    with killed_at(monkeypatch, Ledger, "commit", when=before):
        resume(job, key=key)
    out.rename(tmp_path / "left.tar")
    with pytest.raises(DpGraphError, match="stays on the books as spent: publish anew"):
        resume(copied, key=key)
    assert not out.exists()


@pytest.mark.parametrize("stop", ["booking", "part 6", "sealed"])
def test_an_edited_plan_is_refused(
    stop: str, with_gaps: Path, tmp_path: Path, key: Ed25519PrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was paid for is what is published: a plan with another strength is not that of the booked release."""
    owner, name, when = STOPS[stop]
    job, out = tmp_path / "d.job", tmp_path / "d.tar"
    with killed_at(monkeypatch, owner, name, when=when):
        publish(with_gaps, policy_of(), out=out, key=key, job=job)
    plan = job / "plan.json"
    edited = json.loads(plan.read_bytes())
    edited["policy"]["privacy"]["mu"] = 40.0
    plan.write_text(json.dumps(edited))
    if stop == "booking":  # nothing was drawn, and the job does not know that it was booked: it is paid for anew
        cost = resume(job, key=key)[0].release.cumulative
        assert [entry.state for entry in Ledger().entries()] == ["reserved", "published"]
        assert cost.releases == 2
        assert cost.mu > 40.0
        return
    with pytest.raises(DpGraphError, match="is not what was booked"):
        resume(job, key=key)
    assert not out.exists()
    assert len(Ledger().entries()) == 1
