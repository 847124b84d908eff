"""Second moments of one round and of two: what they do not have is refused, and levels are 0 or 1."""

from collections.abc import Callable

import pytest

from dp_bundle import Bundle
from dp_bundle.base.errors import BundleFormatError
from dp_bundle.bundle.inspection import _describe_kept, _signers_words, describe_bundle


def test_one_round_has_no_first(stored: Callable[[str], Bundle]) -> None:
    """A covariance of one round has neither a first round, nor a transform, nor rows."""
    bundle = stored("covariance")
    for read in (bundle.first_round, bundle.transform, bundle.margins, bundle.batches):
        with pytest.raises(BundleFormatError):
            read()


def test_levels_and_gaps_are_0_or_1(of_scores: Bundle) -> None:
    """What two rounds left of a category's columns, or of gaps, is not told as a range of numbers."""
    lines = describe_bundle(of_scores, None).splitlines()
    assert [line.split("  ")[-1] for line in lines if "(3 columns)" in line or '"hue=(no value)"  ' in line] == [
        "0 or 1"
    ] * 2
    (red,) = (each.model_copy(update={"transform": None}) for each in of_scores.release.columns if each.name == "red")
    assert _describe_kept(red, 1.0, "") == "0 to 1"


def test_what_synthetic_rows_go_by_is_not_among_the_signers_words(of_scores: Bundle) -> None:
    """Further fields of the dataset that people are meant to read are."""
    said = of_scores.release.dataset.model_copy(update={"whole_numbers": ["red"]})
    assert "whole_numbers" not in dict(_signers_words(of_scores.release.model_copy(update={"dataset": said})))
