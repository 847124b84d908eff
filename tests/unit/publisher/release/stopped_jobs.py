"""Releases whose process ends at a chosen step, as a kill ends it, and what they must have drawn by then."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dp_bundle.bundle.reading import open_bundle
from dp_publish import Policy, Receipt, publish
from dp_publish.ledger.ledger import Ledger
from dp_publish.release import job as jobs
from dp_publish.release import targets
from dp_publish.release.resuming import resume

N_ROWS = 1000  # 10 parts of 100 rows


class KilledError(BaseException):
    """Ends a process as a kill does: nothing of ours handles it."""


def policy_of(**privacy: Any) -> Policy:
    """Return a policy that leaves out the bounds, unless second moments are released."""
    columns = {"x": {}, "y": {"missing": "midpoint"}}
    if privacy.get("release") in ("covariance", "copula"):
        columns = {"x": {"bounds": [-4, 4]}, "y": {"bounds": [-4, 4], "missing": "midpoint"}}
    return Policy.model_validate({"dataset": {"name": "d"}, "privacy": {"mu": 4.0, **privacy}, "columns": columns})


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
    "part 0": (jobs.Job, "record", recorded("place-00000")),
    "part 6": (jobs.Job, "record", recorded("place-00006")),
    "contents": (jobs.Job, "record", recorded("contents")),
    "seal": (jobs.Job, "record", recorded("sealed")),
    "sealed": (Ledger, "seal", always),
    "promotion": (Ledger, "commit", before),
    "manifest": (Ledger, "commit", always),
}
ELSEWHERE: dict[str, tuple[Any, str, Callable[..., bool]]] = {
    "part": (jobs.Job, "record", recorded("place-00003")),
    "before the members": (targets, "unpack_bundle", before),
    "after the members": (targets, "unpack_bundle", always),
}


@dataclass
class Stopping:
    """A release with a job, which can be stopped at a step, and gone on with."""

    data: str | Path
    key: Ed25519PrivateKey
    patch: pytest.MonkeyPatch
    job: Path
    out: str | Path

    @contextlib.contextmanager
    def at(self, stop: str) -> Iterator[None]:
        """End the block at a step, as a kill would: no handler runs."""
        owner, name, when = {**STOPS, **ELSEWHERE}[stop]
        original = getattr(owner, name)

        def call(*given: Any, **named: Any) -> Any:
            if when is before:
                raise KilledError
            result = original(*given, **named)
            if when(*given, **named):
                raise KilledError
            return result

        with self.patch.context() as patch:
            patch.setattr(owner, name, call)
            patch.setattr("dp_publish.release.publishing._take_back_or_explain", lambda *_: None)
            with pytest.raises(KilledError):
                yield

    def publish(self, policy: Policy | None = None, **others: Any) -> Receipt:
        """Begin the release."""
        return publish(
            self.data, policy or policy_of(), **{"out": self.out, "key": self.key, "job": self.job, **others}
        )

    def begin(self, stop: str, policy: Policy | None = None, **others: Any) -> None:
        """Begin the release, and stop it at a step."""
        with self.at(stop):
            self.publish(policy, **others)

    def resume(self) -> Receipt:
        """Go on with it."""
        return resume(self.job, key=self.key)[0]


def digests_of(job: Path) -> dict[str, Any]:
    """Return what was drawn so far: bounds, and the digest of each part."""
    found = {path.stem: json.loads(path.read_bytes()) for path in job.glob("*.json")}
    drawn = {name: content["sha256"] for name, content in found.items() if name.startswith("place-")}
    return drawn | ({"bounds": found["bounds"]} if "bounds" in found else {})


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
