"""A release whose process was killed is finished by another: booked once, and nothing drawn twice."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.publisher.release.conftest import private
from tests.unit.publisher.release.stopped_jobs import ELSEWHERE, STOPS, Stopping, check, digests_of, policy_of

from dp_bundle.base.errors import BudgetExceededError, MissingValuesError
from dp_bundle.bundle.reading import open_bundle
from dp_publish.ledger.ledger import Ledger, open_ledger
from dp_publish.release import job as jobs
from dp_publish.release import rows as maker
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
    receipt = stopping.resume()
    check(receipt, drawn)
    assert receipt.report.filled["y"] > 0
    assert sorted(path.name for path in tmp_path.iterdir() if not path.is_dir()) == ["d.parquet", "d.tar"]
    assert not stopping.job.exists()


@pytest.mark.parametrize(("release", "stop"), [("covariance", "contents"), ("copula", "sealed")])
def test_second_moments_go_on_too(release: str, stop: str, stopping: Stopping) -> None:
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
