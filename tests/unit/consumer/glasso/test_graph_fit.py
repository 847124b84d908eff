"""The fit on a graph has no penalty where it can do without, and the least share of one where it cannot."""

import numpy as np

from dp_learn.glasso.graph_fit import fit_on_graph, solve_on_graph

INDEFINITE = np.array([[1.0, 0.9, 0.6], [0.9, 1.0, 0.9], [0.6, 0.9, 1.0]])  # beside two of 0.9, 0.62 is the least
CHAIN = np.eye(10) + 0.45 * (np.eye(10, k=1) + np.eye(10, k=-1))


def test_indefinite_matrix_keeps_the_least_share() -> None:
    """On a full graph an indefinite matrix has no unpenalised fit: a share is kept, and no smaller one would do."""
    edges, penalty = np.ones((3, 3), dtype=bool), 0.1 * (1.0 - np.eye(3))
    fit = fit_on_graph(INDEFINITE, edges, penalty)

    assert fit is not None
    assert 0.0 < fit.share < 1.0
    assert np.linalg.eigvalsh(fit.precision)[0] > 0
    assert solve_on_graph(INDEFINITE, edges, 0.9 * fit.share * penalty) is None
    assert fit_on_graph(INDEFINITE, edges, penalty / 1000.0) is None


def test_fit_to_an_indefinite_matrix_is_found_where_there_is_one() -> None:
    """A chain's fit exists wherever neighbours' correlations are below one, however indefinite the other entries."""
    p, steps = 30, np.arange(1, 31)
    noise = np.tril(np.random.default_rng(0).uniform(-0.6, 0.6, (p, p)), -1)
    matrix, edges = noise + noise.T + np.eye(p), np.abs(np.subtract.outer(steps, steps)) <= 1
    for each in (matrix, matrix * np.outer(steps, steps)):
        fitted = fit_on_graph(each, edges, np.ones((p, p)), tol=1e-10)

        assert np.linalg.eigvalsh(each)[0] < -1.0
        assert fitted is not None
        assert fitted.share == 0.0
        np.testing.assert_allclose(np.linalg.inv(fitted.precision)[edges], each[edges], rtol=1e-4, atol=1e-4)
