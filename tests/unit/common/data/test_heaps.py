"""Values that many rows share: which number they are taken for."""

import pytest

from dp_bundle.data.heaps import roundest


@pytest.mark.parametrize(
    ("low", "high", "found"), [(-3, 1, 0), (750, 860, 800), (38, 42, 40), (0.29, 0.32, 0.3), (-18.2, -16.9, -18)]
)
def test_the_roundest_number_has_the_fewest_digits(low: float, high: float, found: float) -> None:
    """Zero before all, and five before two."""
    assert roundest(low, high) == found
