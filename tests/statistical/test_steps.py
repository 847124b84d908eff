"""A release in two rounds, step by step: nothing is lost beyond what is stated, and nearly all of that is."""

import sys
from pathlib import Path

import pytest
from tests.statistical.transcripts import faults_of_steps, two_rounds

from dp_publish.sampling.keystream import insecure_keystream

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from faults import FAULTS

BY_STEPS = {  # kind of columns: faults that show on them
    "found": [
        "the first round has half its sensitivity",
        "what is chosen privately costs nothing",
        "the radius is read off the data",
        "two rounds ignore the entity cap",
        "a value moves the score of a center by two",
        "a value moves the score of a scale by two",
        "the search's epsilon is a tenth larger than stated",
        "a row moves the scores of radii by two",
        "radii are scored on both sides of the target",
        "a scale is floored by what is nearest to true ties",
        "a value moves its rank among the others by two",
        "the second round has half its sensitivity",
        "the lengths have half their sensitivity",
        "both rounds have the sensitivity of added rows",
        "gaps of two rounds stand at the batch's mean",
        "the second round is centered at the exact mean",
    ],
    "scores": [
        "histograms cost nothing",
        "the cells of histograms are read off the data",
        "histograms have the sensitivity of one column",
        "a histogram counts every row twice",
        "scores follow from the counts without noise",
        "scores have jitter that is drawn anew in each pass",
    ],
}
IN_CI = {*BY_STEPS["found"][:4], "histograms cost nothing"}


@pytest.mark.parametrize(
    ("mu", "max_rows"),
    [
        (4.0, 1),
        *(pytest.param(*each, marks=pytest.mark.long) for each in [(0.3, 4), (1.0, 1), (4.0, 4)]),
    ],
)
@pytest.mark.parametrize(
    ("p", "kind"),
    [
        *((2, "found"), (3, "found"), (3, "lattice"), (4, "declared"), (10, "found")),
        *((4, "everywhere"), (7, "scores")),
    ],
)
def test_no_step_moves_or_loses_more_than_it_may(p: int, kind: str, mu: float, max_rows: int) -> None:
    """On ordinary and on the worst made-up neighbours, each step keeps to its sensitivity and its mu, and all to mu."""
    assert list(faults_of_steps(two_rounds(p, mu, max_rows, kind), insecure_keystream(1))) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "fault"),
    [
        pytest.param(kind, fault, marks=[pytest.mark.long] * (fault not in IN_CI))
        for kind, faults in BY_STEPS.items()
        for fault in faults
    ],
)
def test_faults_of_steps_are_found(fault: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted faults move or lose more than a step may, come to more than is stated, or follow from the table."""
    FAULTS[fault](monkeypatch)
    mechanism = two_rounds(7 if kind == "scores" else 3, max_rows=4 if "entity" in fault else 1, kind=kind)
    assert any(faults_of_steps(mechanism, insecure_keystream(1)))
