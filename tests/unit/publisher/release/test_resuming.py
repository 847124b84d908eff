"""A release whose process was killed is finished by another: booked once, and nothing drawn twice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.s3 import FaultyProxy
from tests.unit.publisher.release.stopped_jobs import (
    STOPS,
    always,
    before,
    check,
    digests_of,
    killed_at,
    policy_of,
    recorded,
)

from dp_bundle.base.errors import BudgetExceededError, DpGraphError, MissingValuesError
from dp_bundle.bundle.reading import open_bundle
from dp_bundle.files import patience
from dp_bundle.files.opening import open_store
from dp_publish import Policy, publish
from dp_publish.ledger.ledger import Ledger, open_ledger
from dp_publish.release import job as jobs
from dp_publish.release import rows as maker
from dp_publish.release import targets
from dp_publish.release.resuming import resume
from dp_publish.sampling.keystream import SecureKeystream

pytestmark = pytest.mark.usefixtures("small_parts")


@pytest.mark.parametrize("stop", STOPS)
def test_a_release_goes_on_where_it_stopped(
    stop: str, with_gaps: Path, tmp_path: Path, key: Ed25519PrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever a process ends, another finishes the release: one entry, one draw of everything, no job left."""
    owner, name, when = STOPS[stop]
    out, job = tmp_path / "d.tar", tmp_path / "d.job"
    with killed_at(monkeypatch, owner, name, when=when):
        publish(with_gaps, policy_of(), out=out, key=key, job=job)
    drawn = digests_of(job)
    assert job.stat().st_mode & 0o777 == 0o700
    assert len(Ledger().entries()) == (stop != "plan")
    assert out.exists() == (stop in ("promotion", "manifest"))
    receipt, policy = resume(job, key=key)
    check(receipt, drawn)
    assert policy.dataset.name == "d"
    assert receipt.report.n_centered > 0
    assert sorted(path.name for path in tmp_path.iterdir() if not path.is_dir()) == ["d.parquet", "d.tar"]
    assert not job.exists()


def test_categories_are_read_and_replaced_as_they_were_to_be(
    tmp_path: Path, key: Ed25519PrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A release of categories, by both mechanisms, is finished as its policy asked for."""
    data, job = tmp_path / "d.parquet", tmp_path / "d.job"
    pd.DataFrame({"ward": ["north", "south", "west"] * 100, "sex": ["f", "m"] * 150}).to_parquet(data)
    columns = {
        "ward": {"kind": "category", "categories": ["north", "south", "west"], "mechanism": "gaussian"},
        "sex": {"kind": "category", "categories": ["f", "m"], "mechanism": "randomized-response"},
    }
    privacy = {"unit": "cell", "mu": 4.0}
    policy = Policy.model_validate({"dataset": {"name": "d"}, "privacy": privacy, "columns": columns})
    with killed_at(monkeypatch, jobs.Job, "record", when=recorded("place-00001")):
        publish(data, policy, out=tmp_path / "d.tar", key=key, job=job)
    release = resume(job, key=key)[0].release
    assert [column.response is not None for column in release.columns] == [False, False, False, True]
    assert [source.levels for source in release.sources] == [("north", "south", "west"), ("f", "m")]


def test_killed_again_and_again(
    with_gaps: Path, tmp_path: Path, key: Ed25519PrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A release that is stopped at each step in turn is finished in the end, with what was drawn first."""
    out, job, drawn = tmp_path / "d.tar", tmp_path / "d.job", {}
    first = True
    for owner, name, when in (STOPS[stop] for stop in STOPS if stop != "booking"):
        with killed_at(monkeypatch, owner, name, when=when):
            if first:
                publish(with_gaps, policy_of(), out=out, key=key, job=job)
            resume(job, key=key)
        first = False
        now = digests_of(job)
        assert drawn.items() <= now.items()
        drawn = now
    check(resume(job, key=key)[0], drawn)


@pytest.mark.parametrize("stop", ["plan", "booking", "contents", "seal", "sealed", "promotion", "manifest"])
def test_second_moments_go_on_too(
    stop: str, with_gaps: Path, tmp_path: Path, key: Ed25519PrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A covariance release is drawn once: what was recorded of it is what is published."""
    owner, name, when = STOPS[stop]
    job = tmp_path / "d.job"
    with killed_at(monkeypatch, owner, name, when=when):
        publish(with_gaps, policy_of(release="covariance"), out=tmp_path / "d.tar", key=key, job=job)
    found = jobs.Job(job, None).read("contents")  # type: ignore[arg-type]
    receipt, _ = resume(job, key=key)
    with open_bundle(receipt.path) as opened:
        digests = [opened.sha256(name) for name in receipt.release.matrix_names]
        assert opened.second_moments().shape == (3, 3)
    assert found is None or found["digests"] == digests
    assert receipt.remark
    assert [entry.state for entry in Ledger().entries()] == ["published"]


def test_a_job_publishes_what_a_release_without_one_does(
    with_gaps: Path, tmp_path: Path, key: Ed25519PrivateKey
) -> None:
    """With and without a job, receipts and manifests say the same, but for the draws and the total."""
    plain = publish(with_gaps, policy_of(), out=tmp_path / "a.tar", key=key)
    recorded = publish(with_gaps, policy_of(), out=tmp_path / "b.tar", key=key, job=tmp_path / "b.job")
    assert recorded.report.n_rows == plain.report.n_rows
    assert recorded.release.guarantee == plain.release.guarantee
    assert recorded.release.lineage.previous == plain.manifest_sha256
    assert recorded.release.cumulative.releases == 2
    assert not (tmp_path / "b.job").exists()


def test_a_refused_release_leaves_no_job(with_gaps: Path, tmp_path: Path, key: Ed25519PrivateKey) -> None:
    """If the budget does not allow it, or the table before anything is drawn, nothing is booked and nothing is left."""
    job = tmp_path / "d.job"
    with pytest.raises(BudgetExceededError):
        publish(with_gaps, policy_of(budget_mu=1.0), out=tmp_path / "d.tar", key=key, job=job)
    assert not job.exists()
    columns = {"x": {"bounds": [-4, 4]}, "y": {"bounds": [-4, 4]}}
    refusing = Policy.model_validate({"dataset": {"name": "d"}, "privacy": {"mu": 4.0}, "columns": columns})
    with pytest.raises(MissingValuesError) as caught:
        publish(with_gaps, refusing, out=tmp_path / "d.tar", key=key, job=job)
    notes = " ".join(caught.value.__notes__)
    assert ("nothing is booked" in notes) == (not job.exists())
    assert job.exists() == ("goes on with it" in notes)


def test_an_interrupt_keeps_the_job(
    with_gaps: Path, tmp_path: Path, key: Ed25519PrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After an interrupt the message names the command that goes on, and the reservation stays."""
    job = tmp_path / "d.job"

    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        publish(with_gaps, policy_of(), out=tmp_path / "d.tar", key=key, job=job, progress=interrupt)
    assert f"`dp-publish resume {job}` goes on with it" in caught.value.__notes__[0]
    check(resume(job, key=key)[0], {})


def test_bits_are_drawn_for_what_has_no_record_alone(
    with_gaps: Path, tmp_path: Path, key: Ed25519PrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a stop at the seal, not one random bit is drawn, and the table is not read."""
    job = tmp_path / "d.job"
    with killed_at(monkeypatch, jobs.Job, "record", when=recorded("sealed")):
        publish(with_gaps, policy_of(), out=tmp_path / "d.tar", key=key, job=job)
    with_gaps.unlink()
    monkeypatch.setattr(SecureKeystream, "__init__", lambda *_: pytest.fail("bits were drawn"))
    monkeypatch.setattr(maker, "find_bounds", lambda *_: pytest.fail("bounds were drawn"))
    check(resume(job, key=key)[0], {})


@pytest.mark.slow
def test_a_table_in_a_bucket_goes_on_too(
    with_gaps: Path, tmp_path: Path, key: Ed25519PrivateKey, s3: FaultyProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table elsewhere is known again by its size and both ends."""
    store, job = open_store(f"s3://{s3.bucket}/raw"), tmp_path / "d.job"
    store.create("d.parquet", with_gaps.read_bytes())
    with killed_at(monkeypatch, jobs.Job, "record", when=recorded("place-00003")):
        publish(f"s3://{s3.bucket}/raw/d.parquet", policy_of(), out=tmp_path / "d.tar", key=key, job=job)
    drawn = digests_of(job)
    store.delete("d.parquet")
    store.create("d.parquet", with_gaps.read_bytes()[:-1] + b"?")
    with pytest.raises(DpGraphError, match="was changed since"):
        resume(job, key=key)
    store.delete("d.parquet")
    store.create("d.parquet", with_gaps.read_bytes())
    check(resume(job, key=key)[0], drawn)


ELSEWHERE: dict[str, tuple[Any, str, Callable[..., bool]]] = {
    "part": (jobs.Job, "record", recorded("place-00003")),
    "before the members": (targets, "unpack_bundle", before),
    "after the members": (targets, "unpack_bundle", always),
}


def _finish_elsewhere(
    stop: str, out: str, ledger: Ledger, with_gaps: Path, key: Any, patch: pytest.MonkeyPatch
) -> None:
    """Stop a release to another place, finish it, and check that it is there and its tar is not."""
    patch.chdir(with_gaps.parent)
    job, (owner, name, when) = Path("d.job"), ELSEWHERE[stop]
    with killed_at(patch, owner, name, when=when):
        publish(with_gaps, policy_of(), out=out, key=key, ledger=ledger, job=job)
    drawn = digests_of(job)
    assert bool(list(Path().glob("*.tar"))) == (stop != "part")
    check(resume(job, key=key)[0], drawn, ledger)
    assert not list(Path().glob("*.tar"))
    assert not job.exists()


@pytest.mark.parametrize("stop", ELSEWHERE)
def test_a_folder_goes_on_too(
    stop: str, with_gaps: Path, tmp_path: Path, key: Ed25519PrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bundle in a folder, with a ledger in another one, is finished by its manifest."""
    ledger = open_ledger(f"{tmp_path}/books/")
    _finish_elsewhere(stop, f"{tmp_path}/published/", ledger, with_gaps, key, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("stop", ELSEWHERE)
def test_a_failing_bucket_goes_on_too(
    stop: str, with_gaps: Path, key: Ed25519PrivateKey, s3: FaultyProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So is one in a bucket, with the ledger there, where requests fail and the answer of each creation is lost."""
    monkeypatch.setattr(patience, "_FIRST_PAUSE", 0.0005)
    s3.break_everything()
    ledger = open_ledger(f"s3://{s3.bucket}/books")
    _finish_elsewhere(stop, f"s3://{s3.bucket}/published", ledger, with_gaps, key, monkeypatch)
    assert s3.faults["lost"] >= 10
