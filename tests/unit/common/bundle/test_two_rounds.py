"""Second moments of one round: what they do not have is refused."""

from pathlib import Path

import pytest

from dp_bundle import open_bundle
from dp_bundle.base.errors import BundleFormatError
from dp_bundle.trust.judging import UnsafeTrustAnyone


def test_one_round_has_no_first() -> None:
    """A covariance of one round has neither a first round, nor a transform, nor rows."""
    golden = Path(__file__).parents[3] / "golden" / "bundle-covariance.tar"
    with open_bundle(golden, UnsafeTrustAnyone()) as bundle:
        for read in (bundle.first_round, bundle.transform, bundle.margins, bundle.batches):
            with pytest.raises(BundleFormatError):
                read()
