"""Tests of units in which the choice of a category's reference level does not matter."""

import numpy as np
import pytest

from dp_bundle.base.errors import ParameterError
from dp_learn.glasso.solving import graphical_lasso
from dp_learn.glasso.whitening import whiten_nodes

NODES = ["a", "a", "a", "b", "c", "c", "d"]


def _columns(reference):
    """Return two categories, of four and three levels, with the given level of the first left out, and two numbers."""
    rng = np.random.default_rng(5)
    first = rng.choice(4, size=400, p=[0.1, 0.2, 0.3, 0.4])
    second = np.where(rng.random(400) < 0.5, np.minimum(first, 2), rng.choice(3, size=400))
    number = rng.normal(size=400) + 0.8 * (first == 0)
    kept = [level for level in range(4) if level != reference]
    indicators = [first == level for level in kept] + [number, second == 0, second == 1, rng.normal(size=400)]
    return np.column_stack(indicators).astype(float)


def _edges(covariance):
    """Return the norms of the blocks of the precision matrix."""
    theta = graphical_lasso(covariance, 0.1, groups=NODES, tol=1e-11).precision
    starts = [0, 3, 4, 6]
    return np.sqrt(np.add.reduceat(np.add.reduceat(theta**2, starts, axis=0), starts, axis=1))


def test_the_level_that_is_left_out_does_not_matter():
    """The norms of all blocks are the same for every reference level, which they are not without whitening."""
    covariances = [np.cov(_columns(reference).T) for reference in range(4)]
    whitened = [_edges(whiten_nodes(s, NODES)[0]) for s in covariances]
    plain = [_edges(s / np.sqrt(np.outer(s.diagonal(), s.diagonal()))) for s in covariances]
    assert max(np.abs(each - whitened[0]).max() for each in whitened) < 1e-5
    assert max(np.abs(each - plain[0]).max() for each in plain) > 1e-2
    assert (whitened[0][np.triu_indices(4, 1)] == 0.0).any()
    assert (whitened[0][np.triu_indices(4, 1)] > 0.0).any()


def test_the_root_leads_back():
    """In the units of the columns, the inverse of the whitened covariance is that of the covariance."""
    s = np.cov(_columns(0).T)
    whitened, root = whiten_nodes(s, NODES)
    assert np.abs(root @ np.linalg.inv(whitened) @ root @ s - np.eye(7)).max() < 1e-9
    assert (whitened[:3, :3] == np.eye(3)).all()
    assert root[3, 3] == pytest.approx(1.0 / np.sqrt(s[3, 3]))


@pytest.mark.parametrize("unit", [1e-8, 1e7, 1e9])
def test_units_of_single_columns_do_not_matter(unit):
    """Where units within a node are far apart, as of millions and of their gaps, the norms are the same."""
    s, units = np.cov(_columns(0).T), np.array([unit, 1.0, 1.0, 1.0, 1.0, unit, 1.0])
    whitened, root = whiten_nodes(s * np.outer(units, units), NODES)
    np.testing.assert_allclose(_edges(whitened), _edges(whiten_nodes(s, NODES)[0]), atol=1e-6)
    np.testing.assert_allclose((root @ root)[0, 0] * unit**2, np.linalg.inv(s[:3, :3])[0, 0], rtol=1e-6)


def test_a_node_without_variance_is_named():
    """A block that is not positive definite is refused with the node's name."""
    s = np.eye(4)
    s[0, 1] = s[1, 0] = 1.0
    with pytest.raises(ParameterError, match="'region'"):
        whiten_nodes(s, ["region", "region", "age", "income"])
