"""A release whose process was killed is finished by another: booked once, and nothing drawn twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from tests.s3 import FaultyProxy
from tests.unit.publisher.release.conftest import private
from tests.unit.publisher.release.stopped_jobs import ELSEWHERE, STOPS, Stopping, check, digests_of, policy_of

from dp_bundle.base.errors import BudgetExceededError, DpGraphError, MissingValuesError
from dp_bundle.bundle.reading import open_bundle
from dp_bundle.files.opening import open_store
from dp_publish.ledger.ledger import Ledger, open_ledger
from dp_publish.release import job as jobs
from dp_publish.release import rows as maker
from dp_publish.release.resuming import resume
from dp_publish.sampling.keystream import SecureKeystream


@pytest.mark.slow
@pytest.mark.parametrize("stop", STOPS)
def test_a_release_goes_on_where_it_stopped(stop: str, stopping: Stopping, tmp_path: Path) -> None:
    """Wherever a process ends, another finishes the release: one entry, one draw of everything, no job left."""
    stopping.begin(stop)
    drawn = digests_of(stopping.job)
    assert stopping.job.stat().st_mode & 0o777 == 0o700
    assert len(Ledger().entries()) == (stop != "plan")
    assert Path(stopping.out).exists() == (stop in ("promotion", "manifest"))
    receipt, policy = resume(stopping.job, key=stopping.key)
    check(receipt, drawn)
    assert policy.dataset.name == "d"
    assert receipt.report.n_dropped > 0
    assert sorted(path.name for path in tmp_path.iterdir() if not path.is_dir()) == ["d.parquet", "d.tar"]
    assert not stopping.job.exists()


def test_categories_are_read_and_replaced_as_they_were_to_be(stopping: Stopping, tmp_path: Path) -> None:
    """A release of categories, by both mechanisms, is finished as its policy asked for."""
    stopping.data = tmp_path / "d.parquet"
    pd.DataFrame({"ward": ["north", "south", "west"] * 100, "sex": ["f", "m"] * 150}).to_parquet(stopping.data)
    columns = {
        "ward": {"kind": "category", "categories": ["north", "south", "west"], "mechanism": "gaussian"},
        "sex": {"kind": "category", "categories": ["f", "m"], "mechanism": "randomized-response"},
    }
    stopping.begin("part 0", private(columns, unit="cell", mu=4.0))
    release = stopping.resume().release
    assert [column.response is not None for column in release.columns] == [False, False, False, True]
    assert [source.levels for source in release.sources] == [("north", "south", "west"), ("f", "m")]


def test_killed_again_and_again(stopping: Stopping) -> None:
    """A release that is stopped at each step in turn is finished in the end, with what was drawn first."""
    drawn: dict[str, Any] = {}
    for stop in (stop for stop in STOPS if stop != "booking"):
        with stopping.at(stop):
            if not stopping.job.exists():
                stopping.publish()
            stopping.resume()
        now = digests_of(stopping.job)
        assert drawn.items() <= now.items()
        drawn = now
    check(stopping.resume(), drawn)


@pytest.mark.parametrize("release", ["covariance", "copula"])
@pytest.mark.parametrize("stop", ["plan", "booking", "contents", "seal", "sealed", "promotion", "manifest"])
def test_second_moments_go_on_too(stop: str, release: str, stopping: Stopping) -> None:
    """A covariance release is drawn once: what was recorded of it, histograms included, is what is published."""
    stopping.begin(stop, policy_of(release=release))
    found = jobs.Job(stopping.job, None).read("contents")  # type: ignore[arg-type]
    receipt = stopping.resume()
    with open_bundle(receipt.path) as opened:
        digests = [opened.sha256(name) for name in receipt.release.moment_names]
        assert opened.second_moments().shape == (3, 3)
        assert release == "covariance" or [margin.name for margin in opened.margins()] == ["x", "y"]
    assert found is None or found["digests"] == digests
    assert bool(receipt.remark) == (release == "covariance")  # why that mechanism
    assert [entry.state for entry in Ledger().entries()] == ["published"]


def test_a_job_publishes_what_a_release_without_one_does(stopping: Stopping, tmp_path: Path) -> None:
    """With and without a job, receipts and manifests say the same, but for the draws and the total."""
    plain = stopping.publish(out=tmp_path / "a.tar", job=None)
    recorded = stopping.publish()
    assert recorded.report.n_rows == plain.report.n_rows
    assert recorded.release.guarantee == plain.release.guarantee
    assert recorded.release.lineage.previous == plain.manifest_sha256
    assert recorded.release.cumulative.releases == 2
    assert not stopping.job.exists()


def test_a_refused_release_leaves_no_job(stopping: Stopping) -> None:
    """If the budget does not allow it, or the table before anything is drawn, nothing is booked and nothing is left."""
    with pytest.raises(BudgetExceededError):
        stopping.publish(policy_of(budget_mu=1.0))
    assert not stopping.job.exists()
    with pytest.raises(MissingValuesError) as caught:
        stopping.publish(private({"x": {"bounds": [-4, 4]}, "y": {"bounds": [-4, 4]}}, mu=4.0))
    notes = " ".join(caught.value.__notes__)
    assert ("nothing is booked" in notes) == (not stopping.job.exists())
    assert stopping.job.exists() == ("goes on with it" in notes)


def test_an_interrupt_keeps_the_job(stopping: Stopping) -> None:
    """After an interrupt the message names the command that goes on, and the reservation stays."""

    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        stopping.publish(progress=interrupt)
    assert f"`dp-publish resume {stopping.job}` goes on with it" in caught.value.__notes__[0]
    check(stopping.resume(), {})


def test_bits_are_drawn_for_what_has_no_record_alone(stopping: Stopping, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a stop at the seal, not one random bit is drawn, and the table is not read."""
    stopping.begin("seal")
    Path(stopping.data).unlink()
    monkeypatch.setattr(SecureKeystream, "__init__", lambda *_: pytest.fail("bits were drawn"))
    monkeypatch.setattr(maker, "find_bounds", lambda *_: pytest.fail("bounds were drawn"))
    check(stopping.resume(), {})


@pytest.mark.slow
def test_a_table_in_a_bucket_goes_on_too(stopping: Stopping, with_gaps: Path, s3: FaultyProxy) -> None:
    """A table elsewhere is known again by its size and both ends."""
    store, stopping.data = open_store(f"s3://{s3.bucket}/raw"), f"s3://{s3.bucket}/raw/d.parquet"
    store.create("d.parquet", with_gaps.read_bytes())
    stopping.begin("part")
    drawn = digests_of(stopping.job)
    store.delete("d.parquet")
    store.create("d.parquet", with_gaps.read_bytes()[:-1] + b"?")
    with pytest.raises(DpGraphError, match="was changed since"):
        stopping.resume()
    store.delete("d.parquet")
    store.create("d.parquet", with_gaps.read_bytes())
    check(stopping.resume(), drawn)


def _finish_elsewhere(stop: str, stopping: Stopping, ledger: Ledger) -> None:
    """Stop a release to another place, finish it, and check that it is there and its tar is not."""
    stopping.patch.chdir(stopping.job.parent)
    stopping.begin(stop, ledger=ledger)
    drawn = digests_of(stopping.job)
    assert bool(list(Path().glob("*.tar"))) == (stop != "part")
    check(stopping.resume(), drawn, ledger)
    assert not list(Path().glob("*.tar"))
    assert not stopping.job.exists()


@pytest.mark.parametrize("stop", ELSEWHERE)
def test_a_folder_goes_on_too(stop: str, stopping: Stopping, tmp_path: Path) -> None:
    """A bundle in a folder, with a ledger in another one, is finished by its manifest."""
    stopping.out = f"{tmp_path}/published/"
    _finish_elsewhere(stop, stopping, open_ledger(f"{tmp_path}/books/"))


@pytest.mark.slow
@pytest.mark.parametrize("stop", ELSEWHERE)
def test_a_failing_bucket_goes_on_too(stop: str, stopping: Stopping, s3: FaultyProxy) -> None:
    """So is one in a bucket, with the ledger there, where requests fail and the answer of each creation is lost."""
    s3.break_everything()
    stopping.out = f"s3://{s3.bucket}/published"
    _finish_elsewhere(stop, stopping, open_ledger(f"s3://{s3.bucket}/books"))
    assert s3.faults["lost"] >= 10
