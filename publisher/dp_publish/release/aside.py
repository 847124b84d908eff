"""Publication aside: with a ledger and a key made for the occasion, so that nothing is spent and nothing is signed."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dp_publish.accounting.conversions import Cost
from dp_publish.ledger.ledger import Ledger
from dp_publish.policy.model import Policy
from dp_publish.release.publishing import publish
from dp_publish.sampling.keystream import Keystream


@contextlib.contextmanager
def publish_aside(table: pa.Table, policy: Policy, keystream: Keystream | None = None) -> Iterator[tuple[Path, Cost]]:
    """Publish a made-up table like a real one, in a temporary folder.

    Parameters
    ----------
    table : pyarrow.Table
        Made-up rows, and no others: the user's own ledger does not see the release.
    policy : Policy
        As for `publish`.
    keystream : Keystream, optional
        Where random bits come from.

    Yields
    ------
    path : Path
        The bundle, which goes with the block.
    cost : Cost
        What was booked.
    """
    with tempfile.TemporaryDirectory(prefix="dpgraph-audit-") as name:
        folder = Path(name)
        ledger, key = Ledger(folder / "ledger.sqlite"), Ed25519PrivateKey.generate()
        path = folder / "made-up.tar"
        publish(table, policy, out=path, key=key, ledger=ledger, keystream=keystream)
        yield path, ledger.entries()[0].cost
