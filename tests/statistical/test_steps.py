"""A release in two rounds, step by step: nothing is lost beyond what is stated, and nearly all of that is."""

import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from dp_audit.checks import check_guesses
from dp_audit.neighbouring_tables import worst_neighbours
from dp_audit.step_attack import attack_steps, check_steps
from dp_audit.transcripts import log_ratio, record, replay
from dp_bundle.privacy.neighbours import Neighbours
from dp_publish.accounting.strength import GaussianDP
from dp_publish.covariance.mechanisms.two_round import TwoRound
from dp_publish.covariance.scaling import scaling_for
from dp_publish.covariance.two_rounds.margins import RawColumn
from dp_publish.covariance.two_rounds.places import Place
from dp_publish.sampling.keystream import insecure_keystream

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from faults import FAULTS

KINDS = {
    "found": (Place(-30.0, 30.0), Place(0.0, 9.0), Place(-5.0, 1e6)),
    "lattice": (Place(0.0, 40.0, floor=0.5), Place(-3.0, 3.0, floor=0.5)),
    "declared": (Place(-30.0, 30.0, 1.0, 2.0), Place(-30.0, 30.0)),
    "everywhere": (Place(), Place(floor=0.5), Place(transform="asinh"), Place(-30.0, 30.0)),
    "scores": (
        Place(-30.0, 30.0),
        *(3 * (Place(-1.0, 1.0, 0.0, 1.0),)),  # a category
        Place(0.0, 40.0, floor=0.5),
        *(Place(-5.0, 1e6), Place(-1.0, 1.0, 0.0, 1.0)),  # a number and its gaps
    ),
    "asinh": (Place(-5.0, 1e6, transform="asinh"), Place(0.0, 9.0), Place(-30.0, 30.0, 1.0, 2.0, transform="asinh")),
}


COUNTED = (
    RawColumn("a", (0,)),
    RawColumn("b", (1, 2, 3), ("x", "y", "z")),
    RawColumn("c", (4,)),
    RawColumn("d", (5, 6), has_gap_column=True, may_have_gaps=True),
)


def _mechanism(p: int, mu: float = 1.0, max_rows: int = 1, kind: str = "found") -> TwoRound:
    places = tuple(KINDS[kind][index % len(KINDS[kind])] for index in range(p))
    scaling = scaling_for([(place.low, place.high) for place in places])
    strength = GaussianDP(mu)
    columns = COUNTED if kind == "scores" else ()
    return TwoRound(
        scaling, Neighbours.REPLACE_ONE, strength, max_rows, places=places, most_cells=1 << 10, columns=columns
    )


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
        *((2, "found"), (3, "found"), (3, "lattice"), (4, "declared"), (10, "found"), (3, "asinh")),
        *((4, "everywhere"), (7, "scores")),
    ],
)
def test_no_step_moves_or_loses_more_than_it_may(p: int, kind: str, mu: float, max_rows: int) -> None:
    """On ordinary and on the worst made-up neighbours, each step keeps to its sensitivity and its mu, and all to mu."""
    check = check_steps(_mechanism(p, mu, max_rows, kind), insecure_keystream(1), np.random.default_rng(1))
    assert check.passed, check.detail


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ("the first round has half its sensitivity", "found"),
        ("what is chosen privately costs nothing", "found"),
        ("the radius is read off the data", "found"),
        ("two rounds ignore the entity cap", "found"),
        ("histograms cost nothing", "scores"),
    ],
)
def test_faults_of_steps_are_found(fault: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted faults move or lose more than a step may, or come to more than is stated."""
    FAULTS[fault](monkeypatch)
    mechanism = _mechanism(7 if kind == "scores" else 3, max_rows=4, kind=kind)
    assert not check_steps(mechanism, insecure_keystream(1), np.random.default_rng(1)).passed


@pytest.mark.long
@pytest.mark.parametrize(("p", "kind"), [(7, "scores"), (3, "found")])
def test_steps_follow_their_laws(p: int, kind: str) -> None:
    """Noise and choices of 1000 releases pass all tests against the laws of the steps."""
    keystream, rng = insecure_keystream(2), np.random.default_rng(2)
    checks = attack_steps(_mechanism(p, kind=kind), n_runs=1000, new_keystream=lambda: keystream, rng=rng).checks
    assert [check for check in checks if not check.passed] == []


@pytest.mark.long
@pytest.mark.parametrize(("p", "n_attacks"), [(3, 4), *(pytest.param(p, 20, marks=pytest.mark.long) for p in (2, 10))])
def test_attacks_come_near_the_stated_mu_and_not_above(p: int, n_attacks: int) -> None:
    """By exact likelihood ratios none of several proves more than mu, and all together find nine tenths of it."""
    mechanism, n, correct = _mechanism(p), 500, []
    pair = worst_neighbours(mechanism.places, 400)
    for seed in range(n_attacks):
        keystream, coins = insecure_keystream(seed), np.random.default_rng(seed).integers(0, 2, n)
        tables = [(pair.one, pair.other)[:: 1 - 2 * int(coin)] for coin in coins]
        turns = [record(mechanism, own, keystream) for own, _ in tables]
        ratios = [
            log_ratio(each, replay(mechanism, other, each)[0]) for each, (_, other) in zip(turns, tables, strict=True)
        ]
        correct.append(int(np.count_nonzero(np.array(ratios) > 0)))
        bound, check = check_guesses(correct[-1], n, 1.0, 1e-4)
        assert check.passed
        assert bound < 1.0

    found = 2 * stats.norm.ppf(sum(correct) / (n_attacks * n))
    assert 0.88 < found < 1.0 + 4 * 2 * np.sqrt(0.25 / (n_attacks * n)) / stats.norm.pdf(0.5)
