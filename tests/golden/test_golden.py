"""Stored bundles of today's format, made by `make.py`, verify and read as on the day they were made."""

import json
from typing import Any

import pytest
from tests.golden.make import FOLDER, KINDS, facts

from dp_bundle import open_bundle
from dp_bundle.base.errors import UntrustedKeyError
from dp_bundle.trust.signing import PublicKey
from dp_bundle.trust.store import TrustStore
from dp_learn import learn_graph


@pytest.mark.parametrize("kind", KINDS)
def test_stored_bundle_verifies_and_reads_as_it_did(kind: str) -> None:
    """It is trusted by its key alone, holds the numbers that were found when it was made, and gives a graph."""
    path = FOLDER / f"bundle-{kind}.tar"
    with pytest.raises(UntrustedKeyError):
        open_bundle(path)
    TrustStore().add(PublicKey.from_pem((FOLDER / "test-key.pub").read_bytes()), "test key")
    with open_bundle(path) as bundle:
        found = facts(bundle)
        if kind in ("rows", "mixed", "two-round"):
            assert learn_graph(bundle, alpha=0.2).fit.solution.converged
    _compare(found, json.loads((FOLDER / f"expected-{kind}.json").read_text()))


def _compare(found: Any, expected: Any) -> None:
    """Require the same entries, numbers to nearly all digits."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
    if isinstance(expected, (dict, list)):
        assert len(found) == len(expected)
        for place in expected if isinstance(expected, dict) else range(len(expected)):
            _compare(found[place], expected[place])
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, rel=1e-9, abs=1e-9)
    else:
        assert found == expected
