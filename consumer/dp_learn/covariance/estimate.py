"""The covariance of one source less what its noise adds, and the pooled one: the weighted mean of several of these.

Independent noise of known variance v_j on column j adds exactly v_j to that column's expected sample variance, and
nothing to any covariance. So S^ = S~ - diag(v) is unbiased for the covariance of the rows before the noise. It is often
indefinite. The errors of S^ are those of bilinear forms f_ij = b_i' S^ b_j: their variances, and how they add up.

References
----------
Isserlis (1918), On a formula for the product-moment coefficient, Biometrika 12.
Guo et al. (2025), Graph Structure Learning with Privacy Guarantees for Open Graph Data, theorems 4.3 and 4.5.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from operator import add
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from dp_bundle.base.errors import EstimationError, ParameterError
from dp_bundle.base.quoting import Brief
from dp_bundle.manifest.columns import Column
from dp_bundle.manifest.noise import discrete_gaussian_fourth_cumulant, rounded_gaussian_fourth_cumulant
from dp_learn.matrices.checks import align_numbers, align_square, column_labels
from dp_learn.matrices.linalg import (
    FloatArray,
    Mask,
    Places,
    dense,
    diagonal_matrix,
    draw_symmetric,
    eigendecomposition,
    sandwich,
    scale_columns,
)

AT_ONCE = 256  # rows
RANK_TOLERANCE = 1e-9  # of W's eigenvalues, relative to the largest


@dataclass(frozen=True)
class FormErrors:
    """Variances of the forms f_ij = b_i' S^ b_j, and of what normalises them.

    Attributes
    ----------
    products : ndarray of shape (q, q)
        Var f_ij.
    crossed : ndarray of shape (q, q)
        Cov(f_ij, f_ii + f_jj).
    squares : ndarray of shape (q, q)
        Var (f_ii + f_jj) / 2.
    """

    products: FloatArray
    crossed: FloatArray
    squares: FloatArray

    def along(self, r: FloatArray | float) -> FloatArray:
        """Return Var[f_ij + r (f_ii + f_jj) / 2], the first-order error of f_ij / sqrt(f_ii f_jj) where that is -r."""
        return self.products + r * self.crossed + r * r * self.squares

    def __add__(self, other: FormErrors) -> FormErrors:
        """Return the errors of the sum of two independent forms."""
        return FormErrors(self.products + other.products, self.crossed + other.crossed, self.squares + other.squares)

    def at_least(self, other: FormErrors) -> FormErrors:
        """Return the larger of the two errors of every pair."""
        larger = self.products >= other.products
        return FormErrors(**{name: np.where(larger, own, getattr(other, name)) for name, own in vars(self).items()})

    def rows(self, rows: slice) -> FormErrors:
        """Return the errors of some rows."""
        return FormErrors(self.products[rows], self.crossed[rows], self.squares[rows])

    def times(self, factor: float) -> FormErrors:
        """Return variances and covariances times a factor."""
        return FormErrors(factor * self.products, factor * self.crossed, factor * self.squares)


Part = Callable[[slice], FormErrors]  # the errors of some rows of forms


@dataclass(frozen=True, eq=False)
class Weighted:
    """The matrix ``beta diag(g) beta'``, of which a few rows are computed at a time to save memory."""

    beta: FloatArray
    g: FloatArray

    def __getitem__(self, rows: slice) -> FloatArray:
        return (self.beta[rows] * self.g) @ self.beta.T

    def diagonal(self) -> FloatArray:
        """Return the diagonal."""
        return self._diagonal

    @cached_property
    def _diagonal(self) -> FloatArray:
        return np.asarray((self.beta * self.beta) @ self.g)


@dataclass(frozen=True, eq=False)
class ErrorTerms:
    """The covariance operator of the entries of a symmetric error E, as q forms f_ij = b_i' E b_j have it.

        Var f_ij = sum w [(x_ii y_jj + x_jj y_ii) / 2 + x_ij y_ij] + sum kappa_k a_ik^2 a_jk^2 + sum w k_ij^2

    Attributes
    ----------
    pairs : tuple of (float, X, Y)
        Isserlis' terms: w, and two matrices of shape (q, q), which may be sparse or `Weighted`.
    fourth : tuple of (A, ndarray)
        The fourth order of independent numbers: what the forms have of each, shape (q, d), and their cumulants.
    single : tuple of (float, K)
        Single numbers of unit variance: w, and what each form has of one, shape (q, q).
    """

    pairs: tuple[tuple[float, Any, Any], ...] = ()
    fourth: tuple[tuple[Any, FloatArray], ...] = ()
    single: tuple[tuple[float, FloatArray], ...] = ()

    def __add__(self, other: ErrorTerms) -> ErrorTerms:
        """Return the terms of the sum of two independent errors."""
        return ErrorTerms(self.pairs + other.pairs, self.fourth + other.fourth, self.single + other.single)

    def times(self, factor: float) -> ErrorTerms:
        """Return the terms of variances times a factor."""
        return ErrorTerms(
            tuple((factor * weight, x, y) for weight, x, y in self.pairs),
            tuple((loadings, factor * cumulants) for loadings, cumulants in self.fourth),
            tuple((factor * weight, k) for weight, k in self.single),
        )

    def errors(self, rows: slice) -> FormErrors:
        """Return some rows of the errors of the forms."""
        found = reduce(add, self._parts(rows))
        if not self.single:
            return found
        return replace(  # where entries are known, rounding may leave less than nothing
            found, products=np.maximum(found.products, 0.0), squares=np.maximum(found.squares, 0.0)
        )

    def _parts(self, rows: slice) -> Iterator[FormErrors]:
        """Yield some rows of the errors of each term, one after the other to save memory."""
        for weight, x, y in self.pairs:
            yield _isserlis(x, y, rows).times(weight)
        for loadings, cumulants in self.fourth:
            yield _fourth_order(loadings, cumulants, rows)
        for weight, k in self.single:
            yield _one_entry(k, rows).times(weight)

    def diagonal(self) -> FloatArray:
        """Return the variances of f_ii."""
        total = sum(2.0 * weight * x.diagonal() * y.diagonal() for weight, x, y in self.pairs)
        total += sum(_squared(_squared(loadings)) @ cumulants for loadings, cumulants in self.fourth)
        total += sum(weight * k.diagonal() ** 2 for weight, k in self.single)
        return np.asarray(np.maximum(total, 0.0) if self.single else total)

    def sum_over_pairs(self) -> float:
        """Return the sum over i < j of the variances."""
        own = self.diagonal()
        starts = range(0, len(own), AT_ONCE)
        whole = sum(float(self.errors(slice(start, start + AT_ONCE)).products.sum()) for start in starts)
        return (whole - float(own.sum())) / 2.0


def _squared(matrix: Any) -> Any:
    """Return the squares of entries of a matrix, sparse or not."""
    return matrix * matrix


def _isserlis(x: Any, y: Any, rows: slice) -> FormErrors:
    """Return the bilinear form behind Isserlis' formula: at x = y, the errors for one row with that covariance."""
    dx, dy = x.diagonal(), y.diagonal()
    own, other = rows_of(x, rows), None if x is y else rows_of(y, rows)
    other, ox, oy = own if other is None else other, dx[rows, None], dy[rows, None]
    xy = own * other
    return FormErrors(
        (ox * dy + oy * dx) / 2.0 + xy, own * (oy + dy) + other * (ox + dx), (ox * oy + dx * dy) / 2.0 + xy
    )


def _fourth_order(loadings: Any, cumulants: FloatArray, rows: slice) -> FormErrors:
    """Return the errors that the fourth cumulants of independent numbers make."""
    squares = _squared(loadings)
    weighted, own = scale_columns(squares, cumulants), scale_columns(loadings * squares, cumulants)
    fourth = np.asarray((squares * weighted).sum(axis=1)).ravel()
    part = dense(squares[rows] @ weighted.T)
    crossed = dense(own[rows] @ loadings.T) + dense(loadings[rows] @ own.T)
    return FormErrors(part, crossed, (fourth[rows, None] + fourth + 2.0 * part) / 4.0)


def _one_entry(k: FloatArray, rows: slice) -> FormErrors:
    """Return the errors of forms f_ij = k_ij e with one e of unit variance."""
    d = np.diagonal(k)
    k, total = k[rows], d[rows, None] + d
    return FormErrors(k * k, k * total, (total / 2.0) ** 2)


def rows_of(matrix: Any, rows: slice) -> FloatArray:
    """Return some rows of a matrix, sparse or not, as an array."""
    part: FloatArray = matrix.tocsr()[rows].toarray() if hasattr(matrix, "tocsr") else matrix[rows]
    return part


def by_rows(n_forms: int, part: Callable[[slice], FormErrors], into: FormErrors | None = None) -> FormErrors:
    """Return the errors that a function gives, a few rows at a time to save memory.

    Parameters
    ----------
    n_forms : int
        How many rows.
    part : callable
        Returns the errors of a slice of them.
    into : FormErrors, optional
        What is overwritten.
    """
    whole = into or FormErrors(*(np.empty((n_forms, n_forms)) for _ in range(3)))
    for start in range(0, n_forms, AT_ONCE):
        rows = slice(start, min(start + AT_ONCE, n_forms))
        found = part(rows)
        whole.products[rows], whole.crossed[rows], whole.squares[rows] = found.products, found.crossed, found.squares
    return whole


def in_slices(n_rows: int, part: Callable[[slice], FloatArray]) -> FloatArray:
    """Return the square matrix whose rows a function gives, a few at a time to save memory."""
    whole = np.empty((n_rows, n_rows))
    for rows in (slice(start, start + AT_ONCE) for start in range(0, n_rows, AT_ONCE)):
        whole[rows] = part(rows)
    return whole


def debias_covariance(covariance: npt.ArrayLike, noise_variance: npt.ArrayLike) -> FloatArray:
    """Return the covariance less that of the noise: a diagonal matrix, or a whole one where columns share noise.

    Parameters
    ----------
    covariance : ndarray of shape (n_features, n_features)
        Sample covariance of the noisy rows, divisor n_rows - 1.
    noise_variance : array-like of shape (n_features,) or (n_features, n_features)
        The exact variance of each column's noise, in its unit squared; or the noise's exact covariance matrix. Labels,
        if any, are those of `covariance`.

    Returns
    -------
    ndarray of shape (n_features, n_features)
        A new array, in the order of the columns of `covariance`.

    References
    ----------
    Guo et al. (2025), theorems 4.3 and 4.5.
    """
    columns = column_labels(covariance)
    covariance = np.asarray(align_square("covariance", covariance))
    variance = align_numbers("noise_variance", noise_variance, columns)
    if variance.ndim == 2:
        return _debias_dependent(covariance, variance)
    if covariance.ndim != 2 or variance.shape != (len(covariance),) or covariance.shape[0] != covariance.shape[1]:
        raise ParameterError("noise_variance", f"one number per column of a {covariance.shape} matrix", variance.shape)
    if not (np.isfinite(variance).all() and (variance >= 0).all()):
        raise ParameterError("noise_variance", "finite and not negative", variance.tolist())
    debiased = np.array(covariance, dtype=float)
    debiased[np.diag_indices_from(debiased)] -= variance
    return debiased


def _debias_dependent(covariance: FloatArray, noise: FloatArray) -> FloatArray:
    """Return the covariance less the noise's own, once that is seen to be one."""
    if noise.shape != covariance.shape:
        raise ParameterError("noise_variance.shape", f"{covariance.shape}, like the covariance", noise.shape)
    size = float(np.abs(noise).max(initial=0.0))
    if not (np.isfinite(size) and np.allclose(noise, noise.T, rtol=0.0, atol=1e-12 * size)):
        raise ParameterError("noise_variance", "a finite symmetric matrix", noise.tolist())
    if np.linalg.eigvalsh(noise)[0] < -1e-9 * size:
        raise ParameterError("noise_variance", "positive semidefinite", noise.tolist())
    return covariance - noise


class KnownErrors(ABC):
    """The law of errors that `terms` describes."""

    @abstractmethod
    def terms(self, c: Any, b: Any) -> ErrorTerms:
        """Return the errors of the forms B S^ B', B sparse or not, for rows whose forms have the covariance C."""

    def entry_variances(self, deviations: FloatArray, correlation: FloatArray | None) -> FloatArray:
        """Return the variances of entries divided by both deviations, for rows so correlated, or not at all."""
        c = diagonal_matrix(np.ones(self.n_features)) if correlation is None else correlation
        terms = self.terms(c, diagonal_matrix(1.0 / deviations))
        return in_slices(self.n_features, lambda rows: terms.errors(rows).products)

    def variances_of_variances(self) -> FloatArray:
        """Return the variances, in data units to the fourth, of the debiased variances of columns of noise alone."""
        unit = np.ones(self.n_features)
        return self.terms(diagonal_matrix(0.0 * unit), diagonal_matrix(unit)).diagonal()

    @property
    @abstractmethod
    def n_features(self) -> int:
        """The number of columns."""


@dataclass(frozen=True)
class NoisyCovariance(KnownErrors):
    """The second moments of one table of noisy rows.

    Attributes
    ----------
    n_rows : int
        How many rows.
    covariance : ndarray of shape (n_features, n_features)
        Sample covariance of the noisy rows, divisor n_rows - 1, in data units.
    noise_variance : ndarray of shape (n_features,)
        The exact variance of each column's noise.
    noise_fourth_cumulant : ndarray of shape (n_features,)
        Its fourth cumulant, zero for Gaussian noise; see `noise_fourth_cumulants`.
    noise_shared : ndarray of shape (n_features, n_features) or None
        The covariances of the noise of different columns. On the diagonal is what else is subtracted from a variance as
        noise on each row is. None where there is neither.
    """

    n_rows: int
    covariance: FloatArray
    noise_variance: FloatArray
    noise_fourth_cumulant: FloatArray
    noise_shared: FloatArray | None = None
    kurtosis: ClassVar[None] = None  # which rows themselves tell, and so they do skewness
    skewness: ClassVar[None] = None
    ones: ClassVar[None] = None
    estimated: ClassVar[bool] = False

    @property
    def n_features(self) -> int:
        """The number of columns."""
        return len(self.noise_variance)

    @property
    def debiased(self) -> FloatArray:
        """The covariance less the noise's part, in data units."""
        debiased = debias_covariance(self.covariance, self.noise_variance)
        return debiased if self.noise_shared is None else debiased - self.noise_shared

    def noise_forms(self, b: Any) -> Any:
        """Return the noise's covariance of the forms, B N B'; sparse if B is, and the noise independent."""
        if self.noise_shared is None:
            return scale_columns(b, self.noise_variance) @ b.T
        forms = b.toarray() if hasattr(b, "toarray") else b
        return sandwich(forms, self.noise_shared + np.diag(self.noise_variance))

    def keep(self, kept: Places) -> NoisyCovariance:
        """Return the source on some of its columns."""
        block = self.covariance[np.ix_(kept, kept)]
        shared = None if self.noise_shared is None else self.noise_shared[np.ix_(kept, kept)]
        return NoisyCovariance(self.n_rows, block, self.noise_variance[kept], self.noise_fourth_cumulant[kept], shared)

    def of_forms(self, forms: FloatArray) -> NoisyCovariance:
        """Return the source on forms of its columns of which no two have one in common."""
        shared = None if self.noise_shared is None else sandwich(forms, self.noise_shared)
        noise = forms**2 @ self.noise_variance, forms**4 @ self.noise_fourth_cumulant
        return NoisyCovariance(self.n_rows, sandwich(forms, self.covariance), *noise, shared)

    @property
    def noise(self) -> NoisyCovariance:
        """The law of the noise, which rows always state."""
        return self

    known_noise = noise

    def of_share(self, share: float) -> NoisyCovariance:
        """Return the same noise on every row, of a share of the rows."""
        return replace(self, n_rows=max(2, round(share * self.n_rows)))

    def draw(self, rng: np.random.Generator, _: FloatArray, root: FloatArray) -> FloatArray:
        """Return what the noise adds to the covariance R R' of the rows, less what it adds on average, drawn."""
        noise = np.diag(self.noise_variance)
        own = np.sqrt(noise) if self.noise_shared is None else root_of(noise + self.noise_shared)
        crossed = root @ rng.standard_normal(root.shape) @ own.T
        gaussian = (crossed + crossed.T + sandwich(own, draw_symmetric(rng, len(root)))) / math.sqrt(self.n_rows - 1)
        fourth = np.sqrt(np.maximum(self.noise_fourth_cumulant, 0.0) / self.n_rows)
        return np.asarray(gaussian + np.diag(fourth * rng.standard_normal(len(root))))

    def terms(self, c: Any, b: Any) -> ErrorTerms:
        """Return the errors that the noise makes of the forms, and the noise with rows."""
        n, freedom = self.noise_forms(b), self.n_rows - 1
        return ErrorTerms(
            ((2.0 / freedom, c, n), (1.0 / freedom, n, n)), ((b, self.noise_fourth_cumulant / self.n_rows),)
        )

    def entry_variances(self, deviations: FloatArray, correlation: FloatArray | None) -> FloatArray:
        """Return the variances of entries; what columns share counts on the diagonal alone."""
        own = self.noise_variance if self.noise_shared is None else self.noise_variance + self.noise_shared.diagonal()
        return KnownErrors.entry_variances(
            replace(self, noise_variance=own, noise_shared=None), deviations, correlation
        )

    def variances_of_variances(self) -> FloatArray:
        """Return the variances of variances; what columns share does not count."""
        return KnownErrors.variances_of_variances(replace(self, noise_shared=None))


@dataclass(frozen=True, eq=False)
class IndependentEntries:
    """A symmetric Z with independent entries, given that v' Z v is zero.

    Attributes
    ----------
    variances : ndarray of shape (d, d)
        W, the variance of each entry off the diagonal; twice that and a cumulant on it.
    weights : ndarray of shape (rank,)
        omega, the eigenvalues of W, as many as matter.
    factors : ndarray of shape (d, rank)
        g, their eigenvectors.
    cumulants : ndarray of shape (d,)
        Zeros for normal entries.
    constant : ndarray of shape (d,)
        v, the direction whose own entry has no noise; zeros where there is none.
    inexact : float
        Where v' Z v does have noise, how much of the rows' covariance it subtracts; else 0.
    """

    variances: FloatArray
    weights: FloatArray
    factors: FloatArray
    cumulants: FloatArray
    constant: FloatArray
    inexact: float = 0.0

    def keep(self, kept: Mask) -> IndependentEntries:
        """Return the entries of some rows and columns."""
        variances = self.variances[np.ix_(kept, kept)]
        factors, cumulants, constant = (each[kept] for each in (self.factors, self.cumulants, self.constant))
        return replace(self, variances=variances, factors=factors, cumulants=cumulants, constant=constant)

    def times(self, factor: float) -> IndependentEntries:
        """Return variances times a factor."""
        variances, weights, cumulants = (factor * each for each in (self.variances, self.weights, self.cumulants))
        return replace(self, variances=variances, weights=weights, cumulants=cumulants)

    def terms(self, beta: FloatArray, c: Any) -> ErrorTerms:
        """Return the errors of the forms beta Z beta', of rows whose own forms have the covariance C."""
        of_weights = [Weighted(beta, g) for g in self.factors.T]
        pairs = tuple((weight, n, n) for weight, n in zip(self.weights.tolist(), of_weights, strict=True))
        fourth = ((beta, self.cumulants),) if self.cumulants.any() else ()
        place, crossed, own = self._known
        if not own > 0.0:
            return ErrorTerms(pairs, fourth)
        known = beta[:, place] @ crossed @ beta[:, place].T / math.sqrt(own)
        off = ((1.0, known - math.sqrt(own) * self.inexact * dense(c)),) if self.inexact else ()
        return ErrorTerms(pairs, fourth, ((-1.0, known), *off))

    def draw(self, rng: np.random.Generator, basis: FloatArray, covariance: FloatArray) -> FloatArray:
        """Return a draw of A Z A', for rows of this covariance."""
        noise = draw_symmetric(rng, len(self.constant))
        diagonal = noise.diagonal() * np.sqrt(self.variances.diagonal() + self.cumulants / 2.0)
        noise *= np.sqrt(self.variances)
        np.fill_diagonal(noise, diagonal)
        drawn_constant = float(self.constant @ noise @ self.constant)
        place, crossed, own = self._known
        if own > 0.0 and not self.inexact:
            noise[np.ix_(place, place)] -= crossed * (drawn_constant / own)
        return sandwich(basis, noise) - drawn_constant * self.inexact * covariance

    @cached_property
    def _known(self) -> tuple[Places, FloatArray, float]:
        """Where v is not zero, the covariances of Z with v' Z v there, and the variance that it would have."""
        place = np.flatnonzero(self.constant)
        v = self.constant[place]
        crossed = 2.0 * self.variances[np.ix_(place, place)] * np.outer(v, v) + np.diag(self.cumulants[place] * v * v)
        return place, crossed, float(v @ crossed @ v)


@dataclass(frozen=True)
class NoiseLaw(KnownErrors):
    """The law of the noise A Z A' on a covariance from noisy sums, and of what else was subtracted from it.

    Attributes
    ----------
    basis : ndarray of shape (n_features, d)
        A, the directions in which entries of the noise are independent, in data units.
    entries : IndependentEntries
        Z, over the number of rows.
    rest : NoisyCovariance or None
        What was subtracted of each column besides, as noise on as many rows is: of normal scores, or of gaps.
    in_two_rounds : bool
        Whether the sums are those of two rounds.
    """

    basis: FloatArray
    entries: IndependentEntries
    rest: NoisyCovariance | None = None
    in_two_rounds: bool = False

    @classmethod
    def of_two_rounds(cls, basis: FloatArray, variances: FloatArray, constant: FloatArray) -> NoiseLaw:
        """Return the law of two rounds, with W taken apart."""
        weights, factors = eigendecomposition(variances)
        kept = np.abs(weights) > RANK_TOLERANCE * np.abs(weights).max()
        of_weights = weights[kept], np.ascontiguousarray(factors[:, kept])
        entries = IndependentEntries(variances, *of_weights, np.zeros(len(constant)), constant)
        return cls(basis, entries, in_two_rounds=True)

    @property
    def n_features(self) -> int:
        """The number of columns."""
        return len(self.basis)

    def keep(self, kept: Places) -> NoiseLaw:
        """Return the law of some of the columns."""
        basis, rest = self.basis[kept], None if self.rest is None else self.rest.keep(kept)
        used = basis.any(axis=0) | (self.entries.constant != 0.0)
        return replace(self, basis=basis[:, used], entries=self.entries.keep(used), rest=rest)

    def of_forms(self, forms: FloatArray) -> NoiseLaw:
        """Return the law on forms of the columns of which no two have one in common."""
        rest = None if self.rest is None else self.rest.of_forms(forms)
        return replace(self, basis=forms @ self.basis, rest=rest)

    def of_share(self, share: float) -> NoiseLaw:
        """Return the law of as much noise on the sums over a share of the rows."""
        rest = None if self.rest is None else self.rest.of_share(share)
        return replace(self, entries=self.entries.times(share**-2.0), rest=rest)

    def terms(self, c: Any, b: Any) -> ErrorTerms:
        """Return the errors of the forms B S^ B'."""
        terms = self.entries.terms(dense(b @ self.basis), c)
        return terms if self.rest is None else terms + self.rest.terms(c, b)

    def entry_variances(self, deviations: FloatArray, correlation: FloatArray | None) -> FloatArray:
        """Return the variances of entries divided by both deviations; few depend on the correlations."""
        alone = replace(self, rest=None)
        if self.entries.inexact:
            variances = KnownErrors.entry_variances(alone, deviations, correlation)
        else:
            squares = deviations * deviations
            variances = self._entry_variances / np.outer(squares, squares)
        return variances if self.rest is None else variances + self.rest.entry_variances(deviations, correlation)

    @cached_property
    def _entry_variances(self) -> FloatArray:
        """The variances of the entries without the rest, in data units to the fourth."""
        return KnownErrors.entry_variances(replace(self, rest=None), np.ones(self.n_features), None)

    def variances_of_variances(self) -> FloatArray:
        """Return the variances of the variances of columns of noise alone."""
        own = KnownErrors.variances_of_variances(replace(self, rest=None))
        return own if self.rest is None else own + self.rest.variances_of_variances()

    def of_raw_moments(self, mean: FloatArray, constant: float) -> FloatArray:
        """Return the error variances that the noise makes of mean products of columns, and last of their means.

        Let m be the mean and v the constant's direction over the constant. Then these are those of B Z B' with the rows
        A + m v' and v'. For v' Z v is known, or counts the rows by which both are divided.

        Parameters
        ----------
        mean : ndarray of shape (n_features,)
            In data units.
        constant : float
            Of a sum in one round; 1 for two rounds, whose basis is in units of the constant.

        Returns
        -------
        ndarray of shape (n_features + 1, n_features + 1)
        """
        v = self.entries.constant / constant
        beta = np.vstack([self.basis + np.outer(mean, v), v])
        return self.entries.terms(beta, np.zeros((len(beta), len(beta)))).errors(slice(None)).products

    def draw(self, rng: np.random.Generator, covariance: FloatArray, root: FloatArray) -> FloatArray:
        """Return noise drawn from the law, for rows of this covariance R R': the rest as of independent rows."""
        rest = 0.0 if self.rest is None else self.rest.draw(rng, covariance, root)
        return self.entries.draw(rng, self.basis, covariance) + rest


def root_of(covariance: FloatArray) -> FloatArray:
    """Return a matrix R with R R' = the covariance, whose negative eigenvalues are taken for zero."""
    values, vectors = eigendecomposition(covariance)
    root: FloatArray = vectors * np.sqrt(np.maximum(values, 0.0))
    return root


@dataclass(frozen=True)
class ReleasedCovariance:
    """A covariance that was released itself: from one or two noisy sums of second moments over rows.

    Attributes
    ----------
    n_rows : int
        How many rows, as stated or as read from the release.
    debiased : ndarray of shape (n_features, n_features)
        The covariance less what the noise adds on average, divisor n_rows - 1, in data units.
    noise : NoiseLaw or None
        The law of the noise on it; None if nothing is known of that.
    estimated : bool
        Whether the noise does not act entry by entry. Its variances are then the publisher's estimates of the mean
        squared errors: good enough to choose by, but of no known law.
    kurtosis : float or None
        The factor, at least 1, by which sampling variances of correlations exceed those of Gaussian rows; None where
        nothing tells it.
    skewness : ndarray of shape (n_features,) or None
        The least that the columns can have, by their bounds, as from `least_skewness`; None for zeros.
    ones : ndarray of shape (n_features,) or None
        The share of the larger value of columns that have two, else NaN; None where nothing tells it.
    """

    n_rows: int
    debiased: FloatArray
    noise: NoiseLaw | None
    estimated: bool = False
    kurtosis: float | None = None
    skewness: FloatArray | None = None
    ones: FloatArray | None = None

    @property
    def known_noise(self) -> NoiseLaw:
        """The law of the noise.

        Raises
        ------
        EstimationError
            Nothing is known of it.
        """
        if self.noise is None:
            raise EstimationError(
                "the release states neither the noise of single entries nor an estimate of it, so there are no "
                "standard errors. Rules for alpha, --fdr, --weights noise and pooling need them: give --alpha"
            )
        return self.noise

    def keep(self, kept: Places) -> ReleasedCovariance:
        """Return the source on some of its columns."""
        noise = None if self.noise is None else self.noise.keep(kept)
        skewness, ones = (None if each is None else each[kept] for each in (self.skewness, self.ones))
        return replace(self, debiased=self.debiased[np.ix_(kept, kept)], noise=noise, skewness=skewness, ones=ones)

    def of_forms(self, forms: FloatArray) -> ReleasedCovariance:
        """Return the source on forms of its columns of which no two have one in common, whose skewness is unknown."""
        noise = None if self.noise is None else self.noise.of_forms(forms)
        return replace(self, debiased=sandwich(forms, self.debiased), noise=noise, skewness=None, ones=None)


def noise_fourth_cumulants(columns: Sequence[Column]) -> FloatArray:
    """Return the exact fourth cumulant of each column's noise, in its unit to the fourth power."""
    return np.array([_fourth_cumulant(column) for column in columns])


def _fourth_cumulant(column: Column) -> float:
    if column.response is not None:
        return 0.0  # its noise depends on the levels' frequencies: see `levels`
    noise = column.cell_noise
    if noise.distribution == "discrete-gaussian":
        return discrete_gaussian_fourth_cumulant(noise.sigma)
    return noise.granularity**4 * rounded_gaussian_fourth_cumulant(noise.sigma / noise.granularity)


@dataclass(frozen=True)
class PooledCovariance(Brief):
    """The debiased covariance S^ = sum_k w_k S^_k, and the sources that its error depends on.

    Attributes
    ----------
    columns : tuple of str
        The columns' names.
    covariance : ndarray of shape (n_features, n_features)
        S^, in data units; may be indefinite.
    sources : tuple of NoisyCovariance or ReleasedCovariance
        Where it came from.
    weights : tuple of float
        One per source; their sum is 1.
    same_rows : bool
        Whether the sources are releases of the same rows with independent noise, rather than of independent rows of
        the same population.
    """

    columns: tuple[str, ...]
    covariance: FloatArray
    sources: tuple[NoisyCovariance | ReleasedCovariance, ...]
    weights: tuple[float, ...] = (1.0,)
    same_rows: bool = False

    @property
    def n_rows(self) -> int:
        """The number of rows, those of several releases counted once."""
        counts = [source.n_rows for source in self.sources]
        return counts[0] if self.same_rows else sum(counts)

    @property
    def noise_share(self) -> FloatArray | None:
        """Each column's noise variance over its published variance, both pooled; None if not all sources are rows."""
        noise, published = np.zeros(len(self.columns)), np.zeros(len(self.columns))
        for source, weight in zip(self.sources, self.weights, strict=True):
            if not isinstance(source, NoisyCovariance):
                return None
            noise += weight * source.noise_variance
            published += weight * np.diagonal(source.covariance)
        share = np.divide(noise, published, out=np.ones_like(noise), where=published > 0.0)
        return np.minimum(share, 1.0)

    @property
    def sampling_factor(self) -> float:
        """The sampling variance of a correlation that is zero: 1 / (n - 1) for one source of n Gaussian rows."""
        return self.kurtosis * (1.0 / (self.sources[0].n_rows - 1) if self.same_rows else sum(self._shares))

    @property
    def kurtosis(self) -> float:
        """The factor by which sampling variances exceed those of Gaussian rows, as far as the sources tell.

        Releases of the same rows have one, the mean of what they tell.
        """
        told = [source.kurtosis for source in self.sources]
        if self.same_rows:
            known = [each for each in told if each is not None]
            return sum(known) / len(known) if known else 1.0
        return sum((each or 1.0) * part for each, part in zip(told, self._shares, strict=True)) / sum(self._shares)

    @property
    def skewness(self) -> FloatArray:
        """The least skewness of the columns, the mean over the sources that tell it; zeros where none does."""
        told = [source.skewness for source in self.sources]
        known = [each for each in told if each is not None] or [np.zeros(len(self.columns))]
        return np.asarray(np.mean(known, axis=0))

    @property
    def _shares(self) -> list[float]:
        """The parts of independent sources in the sampling variance of Gaussian rows."""
        return [w * w / (source.n_rows - 1) for source, w in zip(self.sources, self.weights, strict=True)]

    @property
    def has_errors(self) -> bool:
        """True if the errors of all sources are stated or estimated, rather than unknown."""
        return all(source.noise is not None for source in self.sources)

    @property
    def has_error_law(self) -> bool:
        """True if the errors of all sources follow from stated noise, not only from estimates: intervals need that."""
        return self.has_errors and not any(source.estimated for source in self.sources)

    @property
    def deviations(self) -> FloatArray:
        """Square roots of the debiased variances, which must be positive."""
        variances = np.diagonal(self.covariance)
        if not (variances > 0).all():
            names = [name for name, variance in zip(self.columns, variances, strict=True) if not variance > 0]
            raise ParameterError("covariance", "of columns with a positive debiased variance", names)
        return np.sqrt(variances)

    @property
    def correlation(self) -> FloatArray:
        """S^ with unit diagonal; entries may exceed 1 in size."""
        correlation = self.covariance / np.outer(self.deviations, self.deviations)
        np.fill_diagonal(correlation, 1.0)
        return correlation


def combine_sources(
    columns: Sequence[str],
    sources: Sequence[NoisyCovariance | ReleasedCovariance],
    weights: Sequence[float] = (1.0,),
    *,
    same_rows: bool = False,
) -> PooledCovariance:
    """Return the weighted mean of the sources' debiased covariances as pooled.

    Parameters
    ----------
    columns : sequence of str
        The columns, the same in every source.
    sources : sequence of NoisyCovariance or ReleasedCovariance
        At least one.
    weights : sequence of float
        One per source, not negative; they are divided by their sum.
    same_rows : bool
        As in `PooledCovariance`.
    """
    w = np.asarray(weights, dtype=float)
    w = w / w.sum()
    covariance = sum(weight * source.debiased for source, weight in zip(sources, w, strict=True))
    return PooledCovariance(tuple(columns), np.asarray(covariance), tuple(sources), tuple(w.tolist()), same_rows)


def keep_columns(pooled: PooledCovariance, kept: Places) -> PooledCovariance:
    """Return the pooled covariance of some of the columns, given by their positions."""
    if np.array_equal(kept, np.arange(len(pooled.columns))):  # matrices may be large
        return pooled
    names = tuple(pooled.columns[index] for index in kept)
    sources = tuple(source.keep(kept) for source in pooled.sources)
    return replace(pooled, columns=names, covariance=pooled.covariance[np.ix_(kept, kept)], sources=sources)
