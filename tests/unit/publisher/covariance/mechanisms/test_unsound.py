"""What is not private is refused by name, and the reason is exhibited: an output that the neighbour cannot give."""

import numpy as np

from printed_forms import insecure_output_perturbation, insecure_wishart_pure

N_ROWS = 1000


def _neighbours() -> tuple[np.ndarray, np.ndarray]:
    """Return the second moments of two tables in the unit ball that differ in one row."""
    rows = np.random.default_rng(0).normal(size=(N_ROWS, 3))
    rows /= 4 * np.linalg.norm(rows, axis=1).max()
    other = rows.copy()
    rows[0], other[0] = [1, 0, 0], [0, 1, 0]
    return rows.T @ rows / N_ROWS, other.T @ other / N_ROWS


def _is_possible(output: np.ndarray, center: np.ndarray) -> bool:
    """Return whether the output less the matrix is positive semidefinite, as Wishart noise is."""
    return bool(np.linalg.eigvalsh(output - center)[0] > -1e-12)


def test_wishart_pure_gives_outputs_impossible_under_the_neighbour() -> None:
    """At a claimed epsilon of 10, outputs are always possible under their own table, and often not under the other."""
    rng = np.random.default_rng(1)
    table, neighbour = _neighbours()
    outputs = [insecure_wishart_pure(table, N_ROWS, 10.0, rng) for _ in range(500)]

    assert all(_is_possible(output, table) for output in outputs)
    assert sum(not _is_possible(output, neighbour) for output in outputs) > 50


def test_output_perturbation_gives_outputs_impossible_under_the_neighbour() -> None:
    """The same holds for noise on a precision matrix that one row moves."""
    rng = np.random.default_rng(2)
    alpha = 0.5
    precision, neighbour = (np.linalg.inv(moments + alpha * np.eye(3)) for moments in _neighbours())
    outputs = [insecure_output_perturbation(precision, N_ROWS, 100.0, alpha, rng) for _ in range(5000)]

    assert all(_is_possible(output, precision) for output in outputs)
    assert sum(not _is_possible(output, neighbour) for output in outputs) > 5
