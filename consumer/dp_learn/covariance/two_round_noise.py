"""The law of the noise on a covariance that was combined from two rounds.

The combined noise on second moments is U E U' with independent entries E_kl, of variance w_kl off the diagonal and
twice that on it (`two_rounds`). A form f_ij = b_i' S^ b_j then errs, to first order in 1/n, with beta = A' b and A the
basis U in data units, by

    Var f_ij = sum_kl w_kl (beta_ik^2 beta_jl^2 + beta_ik beta_jk beta_il beta_jl).

W is smooth, and so of low rank in floating point: W = sum_r omega_r g_r g_r'. With N_r = A diag(g_r) A' this is a sum
of Isserlis' formula, omega_r (N_ii N_jj + N_ij^2). The constant's own entry, in the direction v, is known without
noise; given it, variances are smaller by 2 k_ij^2 / sum_kl w_kl v_k^2 v_l^2 with K = A (W o vv') A'.

References
----------
Isserlis (1918), On a formula for the product-moment coefficient, Biometrika 12. Rao (1973), Linear Statistical
Inference and its Applications, section 8a.2, for the variance of a normal vector given one of its components.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from dp_learn.covariance.bilinear_forms import FormErrors, Part, isserlis_of, one_entry, sum_errors
from dp_learn.matrices.linalg import FloatArray, dense, eigendecomposition

RANK_TOLERANCE = 1e-9  # of W's eigenvalues, relative to the largest


@dataclass(frozen=True)
class TwoRounds:
    """The law of the noise on a covariance that was combined from two rounds.

    Attributes
    ----------
    basis : ndarray of shape (n_features, d)
        A, the directions in which entries of the noise are independent, in data units.
    variances : ndarray of shape (d, d)
        W, the variance of each off-diagonal entry of the noise on the covariance, half of that of a diagonal one.
    constant : ndarray of shape (d,)
        v, the direction whose own entry has no noise.
    weights : ndarray of shape (rank,)
        omega, the eigenvalues of W, largest first, as many as matter.
    factors : ndarray of shape (d, rank)
        g, their eigenvectors.
    """

    basis: FloatArray
    variances: FloatArray
    constant: FloatArray
    weights: FloatArray
    factors: FloatArray

    @classmethod
    def from_variances(cls, basis: FloatArray, variances: FloatArray, constant: FloatArray) -> TwoRounds:
        """Return the law, with W taken apart."""
        weights, factors = eigendecomposition(variances)
        kept = np.abs(weights) > RANK_TOLERANCE * np.abs(weights).max()
        return cls(basis, variances, constant, weights[kept], np.ascontiguousarray(factors[:, kept]))

    def keep(self, kept: npt.NDArray[np.int64]) -> TwoRounds:
        """Return the noise on some of the columns."""
        return TwoRounds(self.basis[kept], self.variances, self.constant, self.weights, self.factors)

    def form_errors(self, c: FloatArray, b: Any) -> Part:  # noqa: ARG002  the number of rows is exact
        """Return the errors of the forms B S^ B'."""
        beta = dense(b @ self.basis)
        diagonals = (beta * beta) @ self.factors
        known = self._known(beta)

        def part(rows: slice) -> FormErrors:
            parts = [
                isserlis_of((beta[rows] * g) @ beta.T, d, rows).times(weight)
                for weight, g, d in zip(self.weights, self.factors.T, diagonals.T, strict=True)
            ]
            left = sum_errors([*parts, one_entry(known, rows).times(-1.0)])
            return replace(left, products=np.maximum(left.products, 0.0), squares=np.maximum(left.squares, 0.0))

        return part

    def entry_variances(self, deviations: FloatArray, correlation: FloatArray | None) -> FloatArray:  # noqa: ARG002
        """Return the variances of entries divided by both deviations; they do not depend on the correlations."""
        squares = deviations * deviations
        variances: FloatArray = self._entries / np.outer(squares, squares)
        return variances

    def variances_of_variances(self) -> FloatArray:
        """Return the variances, in data units to the fourth, of the debiased variances of columns of noise alone."""
        return np.diagonal(self._entries).copy()

    def sum_over_pairs(self, b: Any, c: Any) -> float:  # noqa: ARG002
        """Return the sum over i < j of the variances of b_i' S^ b_j.

        With H = beta' beta, the sums over all i and j are h' W h, h the diagonal of H, and <W, H o H>.
        """
        beta = dense(b @ self.basis)
        inner, squares = beta.T @ beta, beta * beta
        h = inner.diagonal()
        both = float(h @ (self.variances @ h)) + float(np.vdot(self.variances, inner * inner))
        own = 2.0 * float(np.vdot(squares @ self.variances, squares))
        known = self._known(beta)
        diagonal = known.diagonal()
        return (both - own - float(np.vdot(known, known)) + float(diagonal @ diagonal)) / 2.0

    @cached_property
    def _entries(self) -> FloatArray:
        """The variances of the entries, in data units to the fourth."""
        squares = self.basis * self.basis
        total = squares @ self.variances @ squares.T
        for weight, n in self._matrices():
            total += weight * n * n
        known = self._known(self.basis)
        total -= known * known
        return np.maximum(total, 0.0)  # rounding, where means are so far from the centers that nothing else is left

    def _matrices(self) -> Iterator[tuple[float, FloatArray]]:
        """Yield each weight omega and its N of the columns themselves."""
        for weight, g in zip(self.weights.tolist(), self.factors.T, strict=True):
            yield weight, (self.basis * g) @ self.basis.T

    def _known(self, beta: FloatArray) -> FloatArray:
        """Return what is known of the forms' noise by the constant's own entry, in standard deviations of that."""
        v = self.constant
        own = 2.0 * float((v * v) @ self.variances @ (v * v))
        crossed = (beta * v) @ self.variances @ (beta * v).T
        known: FloatArray = 2.0 * crossed / np.sqrt(own)
        return known
