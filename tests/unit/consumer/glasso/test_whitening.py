"""Tests of units in which the choice of a category's reference level does not matter."""

import numpy as np
import pytest

from dp_bundle.base.errors import ParameterError
from dp_learn.glasso.problem import whiten_nodes
from dp_learn.glasso.solving import graphical_lasso

NODES = ["a", "a", "a", "b", "c", "c", "d"]


def covariance(reference: int = 0) -> np.ndarray:
    """Return that of categories of four and three levels, one level of the first left out, and two numbers."""
    rng = np.random.default_rng(5)
    first = rng.choice(4, size=400, p=[0.1, 0.2, 0.3, 0.4])
    second = np.where(rng.random(400) < 0.5, np.minimum(first, 2), rng.choice(3, size=400))
    number = rng.normal(size=400) + 0.8 * (first == 0)
    kept = [level for level in range(4) if level != reference]
    columns = [*(first == level for level in kept), number, second == 0, second == 1, rng.normal(size=400)]
    return np.cov(np.column_stack(columns).T)


def norms(s: np.ndarray) -> np.ndarray:
    """Return the norms of the blocks of the precision matrix."""
    theta = graphical_lasso(s, 0.1, groups=NODES, tol=1e-11).precision
    starts = [0, 3, 4, 6]
    return np.sqrt(np.add.reduceat(np.add.reduceat(theta**2, starts, axis=0), starts, axis=1))


def test_the_level_that_is_left_out_does_not_matter() -> None:
    """The norms of all blocks are the same for every reference level, which they are not without whitening."""
    covariances = [covariance(reference) for reference in range(4)]
    whitened = [norms(whiten_nodes(s, NODES)[0]) for s in covariances]
    plain = [norms(s / np.sqrt(np.outer(s.diagonal(), s.diagonal()))) for s in covariances[:2]]
    assert max(np.abs(each - whitened[0]).max() for each in whitened) < 1e-5
    assert np.abs(plain[1] - plain[0]).max() > 1e-2
    linked = whitened[0][np.triu_indices(4, 1)] > 0.0
    assert linked.any()
    assert not linked.all()


@pytest.mark.parametrize("unit", [1.0, 1e-8, 1e9])
def test_the_root_leads_back_in_any_units(unit: float) -> None:
    """The whitened inverse is that of the covariance in its own units, however far apart these are within a node."""
    s, units = covariance(), np.array([unit, 1.0, 1.0, 1.0, 1.0, unit, 1.0])
    whitened, root = whiten_nodes(s * np.outer(units, units), NODES)
    back = (root @ np.linalg.inv(whitened) @ root) * np.outer(units, units)
    np.testing.assert_allclose(back @ s, np.eye(7), atol=1e-6)
    assert (whitened[:3, :3] == np.eye(3)).all()
    assert root[3, 3] == pytest.approx(1.0 / np.sqrt(s[3, 3]))


def test_a_node_without_variance_is_named() -> None:
    """A block that is not positive definite is refused with the node's name."""
    s = np.eye(4)
    s[0, 1] = s[1, 0] = 1.0
    with pytest.raises(ParameterError, match="'region'"):
        whiten_nodes(s, ["region", "region", "age", "income"])
