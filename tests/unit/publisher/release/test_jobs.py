"""A release whose process ended is finished by another: booked once, nothing drawn twice, and as it was paid for."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.unit.publisher.release.conftest import killed_by, private, states

from dp_bundle.base.errors import BudgetExceededError, DpGraphError, KeyStoreError, MissingValuesError, ParameterError
from dp_bundle.bundle.reading import open_bundle
from dp_publish import Receipt, publish
from dp_publish.ledger.ledger import Ledger
from dp_publish.release import job as jobs
from dp_publish.release import targets
from dp_publish.release.resuming import resume
from dp_publish.sampling.keystream import SecureKeystream

N_ROWS = 1000  # 10 parts of 100 rows
SECOND_MOMENTS = {"x": {"bounds": [-4, 4]}, "y": {"bounds": [-4, 4], "missing": "midpoint"}}


class KilledError(BaseException):
    """Ends a process as a kill does: nothing of ours handles it."""


# What a process ends in, before the call or after it, or once a record of some name was made.
STOPS: dict[str, tuple[Any, str, str]] = {
    **{
        stop: (jobs.Job, "record", stop)
        for stop in ("plan", "bounds", "place-00000", "place-00006", "contents", "sealed")
    },
    "booking": (Ledger, "reserve", "after"),
    "seal": (Ledger, "seal", "after"),
    "promotion": (Ledger, "commit", "before"),
    "manifest": (Ledger, "commit", "after"),
    "before the members": (targets, "unpack_bundle", "before"),
    "after the members": (targets, "unpack_bundle", "after"),
}


@dataclass
class Stopping:
    """A release with a job, which can be stopped at a step, and gone on with."""

    data: Any
    key: Ed25519PrivateKey
    job: Path
    out: Path

    @contextlib.contextmanager
    def at(self, stop: str) -> Iterator[None]:
        """End the block at a step, as a kill would: no handler runs."""
        owner, name, when = STOPS[stop]
        original = getattr(owner, name)

        def call(*given: Any, **named: Any) -> Any:
            if when == "before":
                raise KilledError
            result = original(*given, **named)
            if when in ("after", *given[1:2]):
                raise KilledError
            return result

        with killed_by(KilledError, owner, name, call):
            yield

    def publish(self, columns: dict[str, Any] | None = None, **privacy: Any) -> Receipt:
        """Begin the release, which leaves out bounds unless second moments are released."""
        columns = columns or (SECOND_MOMENTS if "release" in privacy else {"x": {}, "y": {"missing": "midpoint"}})
        out = self.out if self.out.suffix else f"{self.out}/"
        policy = private(columns, **{"mu": 4.0, **privacy})
        return publish(self.data, policy, out=out, key=self.key, job=self.job)

    def begin(self, stop: str, **privacy: Any) -> dict[str, Any]:
        """Begin the release, stop it at a step, and return what the job has of it."""
        with self.at(stop):
            self.publish(**privacy)
        return {path.stem: json.loads(path.read_bytes()) for path in self.job.glob("*.json")}

    def resume(self) -> Receipt:
        """Go on with it."""
        return resume(self.job, key=self.key)[0]


@pytest.fixture
def stopping(small_parts: None, with_gaps: Path, tmp_path: Path, key: Ed25519PrivateKey) -> Stopping:
    """Return a release of the table with gaps, in ten parts, with a job."""
    return Stopping(with_gaps, key, tmp_path / "d.job", tmp_path / "d.tar")


@pytest.mark.slow
@pytest.mark.parametrize("stop", STOPS)
def test_a_release_goes_on_where_it_stopped(stop: str, stopping: Stopping, tmp_path: Path) -> None:
    """Wherever a process ends, another finishes the release: one entry, one draw of everything, no job left."""
    stopping.out = stopping.out.with_suffix("") if "members" in stop else stopping.out
    drawn = stopping.begin(stop)
    assert stopping.job.stat().st_mode & 0o777 == 0o700
    assert len(Ledger().entries()) == (stop != "plan")
    receipt = stopping.resume()
    (entry,) = Ledger().entries()
    assert (entry.state, entry.manifest_sha256) == ("published", receipt.manifest_sha256)
    with open_bundle(stopping.out, allow_older=True) as opened:
        assert (opened.manifest_sha256, opened.release) == (receipt.manifest_sha256, receipt.release)
        assert sum(batch.num_rows for batch in opened.batches()) == receipt.report.n_rows == N_ROWS
        for name, record in drawn.items():
            if name.startswith("place-"):
                assert record["sha256"] == opened.sha256(f"data/{name.replace('place', 'part')}.parquet")
        bounds = [list(column.bounds or ()) for column in opened.release.columns]
        assert "bounds" not in drawn or bounds == list(drawn["bounds"].values())
    assert receipt.report.filled["y"] > 0
    assert {path.name for path in tmp_path.iterdir()} == {"home", "d.parquet", stopping.out.name}


@pytest.mark.parametrize("release", ["covariance", "copula"])
def test_second_moments_go_on_too(release: str, stopping: Stopping, monkeypatch: pytest.MonkeyPatch) -> None:
    """A covariance release is drawn once: what was recorded of it, histograms included, is what is published.

    Not one more bit is drawn, and the table is not read.
    """
    found = stopping.begin("sealed", release=release)["contents"]
    Path(stopping.data).unlink()
    monkeypatch.setattr(SecureKeystream, "__init__", lambda *_: pytest.fail("bits were drawn"))
    receipt = stopping.resume()
    with open_bundle(receipt.path) as opened:
        assert found["digests"] == [opened.sha256(name) for name in receipt.release.moment_names]
    assert bool(receipt.remark) == (release == "covariance")  # why that mechanism
    assert states() == ["published"]


def test_a_refused_release_leaves_no_job(stopping: Stopping) -> None:
    """If the budget does not allow it, nothing is booked and nothing is left; the message is true of a late gap."""
    with pytest.raises(BudgetExceededError):
        stopping.publish(budget_mu=1.0)
    assert not stopping.job.exists()
    with pytest.raises(MissingValuesError) as caught:
        stopping.publish({name: {"bounds": [-4, 4]} for name in "xy"})
    assert ("nothing is booked" in caught.value.__notes__[0]) == (not stopping.job.exists())


def test_a_changed_table_is_refused(stopping: Stopping, with_gaps: Path, tmp_path: Path) -> None:
    """A table of another size, time or content is not the one that was paid for; once put back, the release goes on."""
    aside = tmp_path / "aside"
    stopping.begin("place-00000")
    shutil.copy2(with_gaps, aside)
    for change in (
        lambda: with_gaps.write_bytes(with_gaps.read_bytes() + b"x"),
        lambda: os.utime(with_gaps, ns=(0, 0)),
        lambda: (with_gaps.write_bytes(b"X" + aside.read_bytes()[1:]), shutil.copystat(aside, with_gaps)),
        with_gaps.unlink,
    ):
        change()
        with pytest.raises(DpGraphError):
            stopping.resume()
        shutil.copy2(aside, with_gaps)
    assert stopping.resume().report.n_rows == N_ROWS


def test_what_a_job_refuses(
    stopping: Stopping, with_gaps: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another key or version, a changed part, a job that is held, what is no job, and a table in memory."""
    job, key = stopping.job, stopping.key
    stopping.begin("place-00000")
    with pytest.raises(KeyStoreError, match="--key"):
        resume(job, key=Ed25519PrivateKey.generate())
    with pytest.raises(DpGraphError, match="another process"), jobs.open_job(job):
        stopping.resume()
    with pytest.raises(DpGraphError, match="job"):
        resume(tmp_path, key=key)
    stopping.out = tmp_path / "e.tar"
    with pytest.raises(DpGraphError, match="something"):
        stopping.publish()
    stopping.data, stopping.job = pq.read_table(with_gaps), tmp_path / "e.job"
    with pytest.raises(ParameterError, match="data"):
        stopping.publish()
    stopping.job = job
    with monkeypatch.context() as patch:
        patch.setattr("dp_publish.release.resuming.software", lambda: "dpgraph 99")
        with pytest.raises(DpGraphError, match="version"):
            stopping.resume()
    part = next(path for path in job.iterdir() if path.name.startswith("part-"))
    part.write_bytes(part.read_bytes()[:-1] + b"?")
    with pytest.raises(DpGraphError, match="part-"):
        stopping.resume()
    assert not (tmp_path / "d.tar").exists()
    assert states() == ["reserved"]


@pytest.mark.parametrize(("stop", "lost"), [("seal", "contents.json"), ("promotion", "[!p]*.json")])
def test_nothing_is_drawn_again_after_the_seal(
    stop: str, lost: str, stopping: Stopping, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job that has lost records of a bundle that may have left is refused, even if that bundle was moved away."""
    stopping.begin(stop)
    for path in stopping.job.glob(lost):
        path.unlink()
    if stopping.out.exists():
        stopping.out.rename(tmp_path / "left.tar")
    monkeypatch.setattr(SecureKeystream, "__init__", lambda *_: pytest.fail("bits were drawn"))
    with pytest.raises(DpGraphError, match="publish anew"):
        stopping.resume()
    assert not stopping.out.exists()
    assert states() == ["sealed"]


def test_what_was_sealed_is_what_is_published(stopping: Stopping) -> None:
    """Without the job's record of the seal the ledger's decides: other contents are refused, the same go on."""
    stopping.begin("seal")
    (stopping.job / "sealed.json").unlink()
    contents = stopping.job / "contents.json"
    whole = contents.read_bytes()
    edited = [json.dumps(json.loads(whole) | change).encode() for change in ({"n_rows": 999}, {"unknown": 1.0})]
    for content in (*edited, whole[:-9]):
        contents.write_bytes(content)
        with pytest.raises(DpGraphError):
            stopping.resume()
    contents.write_bytes(whole)
    stopping.resume()
    assert states() == ["published"]


def test_a_copied_job_does_not_publish_again(stopping: Stopping, tmp_path: Path) -> None:
    """A copy of the folder from before the seal, gone on with after the release was sealed by the other, is refused."""
    stopping.begin("place-00000")
    shutil.copytree(stopping.job, tmp_path / "copied.job")
    with stopping.at("promotion"):
        stopping.resume()
    stopping.out.rename(tmp_path / "left.tar")
    with pytest.raises(DpGraphError, match="publish anew"):
        resume(tmp_path / "copied.job", key=stopping.key)
    assert not stopping.out.exists()


@pytest.mark.parametrize("stop", ["booking", "place-00006", "seal"])
def test_an_edited_plan_is_refused(stop: str, stopping: Stopping) -> None:
    """A plan with another strength is not that of the booked release; if nothing was drawn, it is paid for anew."""
    plan = stopping.begin(stop)["plan"]
    plan["policy"]["privacy"]["mu"] = 40.0
    (stopping.job / "plan.json").write_text(json.dumps(plan))
    if stop == "booking":
        assert stopping.resume().release.cumulative.mu > 40.0
        assert states() == ["reserved", "published"]
        return
    with pytest.raises(DpGraphError, match="booked"):
        stopping.resume()
    assert not stopping.out.exists()
    assert len(states()) == 1
