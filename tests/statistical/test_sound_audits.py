"""Audits of sound releases by policies of chance: nothing is found."""

import pytest
from tests.statistical.sound_audits import audits


@pytest.mark.slow
@pytest.mark.parametrize("seed", [101, pytest.param(102, marks=pytest.mark.long)])
def test_nothing_is_found_in_sound_releases(seed: int) -> None:
    """Three policies of each seed pass; `python -m tests.statistical.sound_audits` tries as many as one likes."""
    found = [[f"{check.name}: {check.detail}" for check in report.findings] for _, report in audits(3, seed)]
    assert found == [[]] * 3
