"""Whether a box holds a positive definite matrix is decided, and the proof is one that numpy can check."""

import numpy as np
import pytest

from dp_learn.glasso.feasibility import Feasibility, judge_box, smallest_solvable_alpha


def correlations(p: int, seed: int) -> np.ndarray:
    """Return an indefinite symmetric matrix with a unit diagonal."""
    a = np.random.default_rng(seed).normal(size=(p, p)) / np.sqrt(p)
    s = a + a.T
    np.fill_diagonal(s, 1.0)
    return s


def hollow_penalty(p: int, seed: int) -> np.ndarray:
    """Return random penalties off the diagonal, among them free and forbidden entries."""
    rng = np.random.default_rng(seed)
    weights = np.triu(rng.choice([0.0, 0.5, 1.0, 2.0], size=(p, p), p=[0.05, 0.3, 0.35, 0.3]), 1)
    weights[np.triu(rng.random((p, p)) < 0.1, 1)] = np.inf
    return weights + weights.T


def check_proof(s: np.ndarray, penalty: np.ndarray, found: Feasibility) -> None:
    """Check the proof that comes with a verdict: a matrix of the box, or Z with <S, Z> + sum L |Z| <= 0."""
    if found.w is not None:
        assert 0.0 < np.linalg.eigvalsh(found.w)[0] <= found.reach
        assert (np.abs(found.w - s) <= penalty + 1e-15).all()
        assert np.array_equal(found.w, found.w.T)
        return
    z = found.certificate
    nonzero = z != 0.0
    assert np.array_equal(z, z.T)
    assert np.linalg.eigvalsh(z)[0] >= -1e-12
    assert np.trace(z) == pytest.approx(1.0)
    reach = s[nonzero] @ z[nonzero] + penalty[nonzero] @ np.abs(z[nonzero])
    assert reach == pytest.approx(found.reach, abs=1e-13)


@pytest.mark.parametrize("p", [5, 60])
def test_both_sides_of_the_boundary_are_proven(p: int) -> None:
    """A ten-thousandth below and a two-thousandth above the smallest alpha the verdicts differ, with proofs."""
    s, weights = correlations(p, seed=p), 1.0 - np.eye(p)
    smallest = smallest_solvable_alpha(s, penalize_diagonal=False)
    for factor in (0.5, 0.9997, 1.0005, 1.5):
        found = judge_box(s, factor * smallest * weights)
        check_proof(s, factor * smallest * weights, found)
        assert (found.w is not None) == (factor > 1.0)
        assert found.w is not None or found.reach <= 0.0


@pytest.mark.parametrize("seed", range(3))
def test_free_and_forbidden_entries(seed: int) -> None:
    """Proofs hold as well where penalties are zero or infinite."""
    s, weights = correlations(12, seed), hollow_penalty(12, seed)
    found = [judge_box(s, alpha * weights) for alpha in (1e-3, 0.1, 0.3, 1.0, 10.0)]
    for alpha, each in zip((1e-3, 0.1, 0.3, 1.0, 10.0), found, strict=True):
        check_proof(s, alpha * weights, each)
    assert found[0].reach <= 0.0


def test_undecided_is_not_called_unsolvable() -> None:
    """Out of iterations there is no matrix and no proof either."""
    s = correlations(20, seed=1)
    penalty = 0.5 * smallest_solvable_alpha(s, penalize_diagonal=False) * (1.0 - np.eye(20))
    found = judge_box(s, penalty, max_iter=1)
    assert found.w is None
    assert found.reach > 0.0 >= judge_box(s, penalty).reach
