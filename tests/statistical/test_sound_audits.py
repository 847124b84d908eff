"""Audits of sound releases by policies of chance: nothing is found."""

import pytest
from tests.statistical.sound_audits import audits


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "number"), [(104, 1), *(pytest.param(seed, 3, marks=pytest.mark.long) for seed in (101, 102))]
)
def test_nothing_is_found_in_sound_releases(seed: int, number: int) -> None:
    """The first policies of each seed pass; `python -m tests.statistical.sound_audits` tries as many as one likes."""
    found = [[f"{check.name}: {check.detail}" for check in report.findings] for _, report in audits(number, seed)]
    assert found == [[]] * number
