"""Releases whose process ends at a chosen step, as a kill ends it, and what they must have drawn by then."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dp_bundle.bundle.reading import open_bundle
from dp_publish import Policy, Receipt
from dp_publish.ledger.ledger import Ledger
from dp_publish.release import job as jobs

N_ROWS = 1000  # 10 parts of 100 rows


class KilledError(BaseException):
    """Ends a process as a kill does: nothing of ours handles it."""


def policy_of(**privacy: Any) -> Policy:
    """Return a policy that leaves out the bounds, unless second moments are released."""
    columns = {"x": {}, "y": {"missing": "center"}}
    if privacy.get("release") == "covariance":
        columns = {"x": {"bounds": [-4, 4]}, "y": {"bounds": [-4, 4], "missing": "midpoint"}}
    return Policy.model_validate({"dataset": {"name": "d"}, "privacy": {"mu": 4.0, **privacy}, "columns": columns})


@contextlib.contextmanager
def killed_at(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, *, when: Callable[..., bool]) -> Iterator[None]:
    """End the block after the first call of a function for which `when` is true, as a kill would: no handler runs."""
    original = getattr(owner, name)

    def call(*given: Any, **named: Any) -> Any:
        if when is before:
            raise KilledError
        result = original(*given, **named)
        if when(*given, **named):
            raise KilledError
        return result

    def nothing(*_: Any) -> None:
        """Do what a killed process does."""

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, call)
        patch.setattr("dp_publish.release.publishing._take_back_or_explain", nothing)
        with pytest.raises(KilledError):
            yield


def recorded(name: str) -> Callable[..., bool]:
    """Stop once this is recorded."""
    return lambda _, recorded, __: recorded == name


def always(*_: Any, **__: Any) -> bool:
    """Stop after the first call."""
    return True


def before(*_: Any, **__: Any) -> bool:
    """Stop before the first call."""
    return True


STOPS: dict[str, tuple[Any, str, Callable[..., bool]]] = {
    "plan": (jobs.Job, "record", recorded("plan")),
    "booking": (Ledger, "reserve", always),
    "bounds": (jobs.Job, "record", recorded("bounds")),
    "centers": (jobs.Job, "record", recorded("centers")),
    "part 0": (jobs.Job, "record", recorded("place-00000")),
    "part 6": (jobs.Job, "record", recorded("place-00006")),
    "contents": (jobs.Job, "record", recorded("contents")),
    "seal": (jobs.Job, "record", recorded("sealed")),
    "sealed": (Ledger, "seal", always),
    "promotion": (Ledger, "commit", before),
    "manifest": (Ledger, "commit", always),
}


def digests_of(job: Path) -> dict[str, Any]:
    """Return what was drawn so far: bounds, centers, and the digest of each part."""
    found = {path.stem: json.loads(path.read_bytes()) for path in job.glob("*.json")}
    drawn = {name: content["sha256"] for name, content in found.items() if name.startswith("place-")}
    return drawn | {name: found[name] for name in ("bounds", "centers") if name in found}


def check(receipt: Receipt, drawn: dict[str, Any], ledger: Ledger | None = None) -> None:
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
