"""Second moments of one round and of two: what they do not have is refused, and levels are 0 or 1."""

from pathlib import Path

import pytest

from dp_bundle import open_bundle
from dp_bundle.base.errors import BundleFormatError
from dp_bundle.bundle.inspection import describe_bundle
from dp_bundle.trust.judging import UnsafeTrustAnyone

GOLDEN = Path(__file__).parents[3] / "golden"


def test_one_round_has_no_first() -> None:
    """A covariance of one round has neither a first round, nor a transform, nor rows."""
    with open_bundle(GOLDEN / "bundle-covariance.tar", UnsafeTrustAnyone()) as bundle:
        for read in (bundle.first_round, bundle.transform, bundle.margins, bundle.batches):
            with pytest.raises(BundleFormatError):
                read()


def test_levels_and_gaps_are_0_or_1() -> None:
    """What two rounds left of a category's columns, or of gaps, is not told as a range of numbers."""
    with open_bundle(GOLDEN / "bundle-copula.tar", UnsafeTrustAnyone()) as bundle:
        lines = describe_bundle(bundle, None).splitlines()
    assert [line.split("  ")[-1] for line in lines if "(3 columns)" in line or '"hue=(no value)"  ' in line] == [
        "0 or 1"
    ] * 2
