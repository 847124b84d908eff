"""The settings of an estimate, its nodes, and its parts."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypedDict

import numpy as np
import numpy.typing as npt

from dp_bundle.base.errors import ParameterError
from dp_bundle.base.quoting import Brief
from dp_learn.covariance.estimate import PooledCovariance
from dp_learn.covariance.levels import Levels, NodeColumns
from dp_learn.glasso.problem import Solution
from dp_learn.inference.edges import InferenceFit, fit_for_inference
from dp_learn.matrices.choices import Rule, Weights
from dp_learn.matrices.linalg import FloatArray, Mask, Places
from dp_learn.matrices.repair import Repair
from dp_learn.pipeline.selection import Selection

REFIT_MAX_ITER = 1000  # a fit so nearly singular that it takes more is no estimate


class Options(TypedDict, total=False):
    """The fields of `Settings`, as keyword arguments."""

    alpha: float | None
    select: str
    alphas: int | Sequence[float]
    weights: str | npt.ArrayLike
    scale: str
    repair: str
    refit: bool
    penalize_diagonal: bool
    solver: str
    tol: float
    max_iter: int


@dataclass(frozen=True)
class Settings:
    """Settings of an estimate.

    Attributes
    ----------
    alpha : float or None
        The penalty, on the chosen scale; None to select it.
    select : {"auto", "cv", "mse", "ebic", "stars"}
        The rule that selects it. "auto" is that of `fit`, unless weights, a path or data units are asked for, and then
        EBIC.
    alphas : int or sequence of float
        The path that it selects from: a number of alphas, or the alphas, largest first. With a number, EBIC's path ends
        at `chance_alpha`.
    weights : {"auto", "equal", "noise"} or array-like
        Equal penalties, penalties in proportion to the standard errors of entries, or of blocks, or a matrix as in
        `graphical_lasso`. By "auto" they are noise where a node has several columns, whose errors differ most, and else
        equal. In the second of two stages it is the evidence.
    scale : {"correlation", "covariance"}
        The scale of the penalty: correlations, where one alpha means the same for every pair of columns, or data units.
    repair : {"none", "maxnorm", "clip", "shrink"}
        The method that first makes an indefinite matrix positive semidefinite.
    refit : bool
        Whether the reported precision matrix is fitted again on the chosen graph, without the penalty, whose shrinkage
        is what chose the graph. Otherwise it is the penalised estimate.
    penalize_diagonal, solver, tol, max_iter
        As in `graphical_lasso`.
    """

    alpha: float | None = None
    select: str = "auto"
    alphas: int | Sequence[float] = 20
    weights: str | npt.ArrayLike = "auto"
    scale: str = "correlation"
    repair: str = "none"
    refit: bool = True
    penalize_diagonal: bool = True
    solver: str = "auto"
    tol: float = 1e-6
    max_iter: int = 10_000

    def __post_init__(self) -> None:
        for name, allowed in (("select", list(Rule)), ("scale", ["correlation", "covariance"])):
            if getattr(self, name) not in allowed:
                raise ParameterError(name, "one of " + ", ".join(allowed), getattr(self, name))
        if not isinstance(self.refit, bool | np.bool_):
            raise ParameterError("refit", "true or false", self.refit)
        if isinstance(self.weights, str) and self.weights not in list(Weights):
            raise ParameterError("weights", "auto, equal, noise, or a matrix", self.weights)

    def weights_for(self, *, blocks: bool) -> str | npt.ArrayLike:
        """Return the weights with what "auto" stands for in its place, where nodes have several columns or none has."""
        if isinstance(self.weights, str) and self.weights == Weights.AUTO:
            return Weights.NOISE.value if blocks else Weights.EQUAL.value
        return self.weights

    @property
    def in_stages(self) -> bool:
        """True if the graph is chosen in two stages where the noise is small, with everything left to choose."""
        left = isinstance(self.weights, str) and self.weights == Weights.AUTO and isinstance(self.alphas, int)
        return self.alpha is None and self.select == Rule.AUTO and left and self.scale == "correlation"

    @property
    def needs_folds(self) -> bool:
        """True if the rule looks at folds of the rows."""
        return self.alpha is None and self.select in {Rule.CV, Rule.MSE}


@dataclass(frozen=True, eq=False)
class Nodes:
    """The nodes of a fit, G of them.

    Attributes
    ----------
    names : tuple of str
        In the order of their columns.
    labels : ndarray of int, shape (n_kept,)
        The node of each kept column.
    units : ndarray of shape (n_kept, n_kept)
        R, which leads to the scale of the penalty, R S R: there a node's own block of correlations is the identity.
    columns : NodeColumns
        How the kept columns were chosen.
    levels : Levels
        What all columns indicate.
    """

    names: tuple[str, ...]
    labels: Places
    units: FloatArray
    columns: NodeColumns
    levels: Levels

    @property
    def are_numbers(self) -> bool:
        """True for a table without categories: every node is one column, which has a sign, and a solver of its own."""
        return not self.levels.blocks

    @property
    def sizes(self) -> Places:
        """The number of columns of each node."""
        return np.bincount(self.labels, minlength=len(self.names))

    def rescale(self, matrix: FloatArray) -> FloatArray:
        """Return a covariance on the scale of the penalty, or a precision matrix from there in data units."""
        product: FloatArray = self.units @ matrix @ self.units
        return 0.5 * (product + product.T)

    def in_data_units(self, precision: FloatArray) -> FloatArray:
        """Return a sparse precision matrix in data units, zero where nodes have no edge."""
        return np.where(self.spread(self.linked(precision)), self.rescale(precision), 0.0)

    def spread(self, pairs: Mask) -> Mask:
        """Return pairs of nodes, shape (G, G), as pairs of their columns."""
        return pairs[np.ix_(self.labels, self.labels)]

    def linked(self, precision: FloatArray) -> Mask:
        """Return which pairs of nodes have an edge, shape (G, G)."""
        linked = np.zeros((len(self.names), len(self.names)), dtype=bool)
        rows, columns = np.nonzero(precision)
        linked[self.labels[rows], self.labels[columns]] = True
        return linked


@dataclass(frozen=True, eq=False)
class Fit(Brief):
    """An estimate and everything that it rests on.

    Attributes
    ----------
    pooled : PooledCovariance
        The debiased covariance of the columns that are left, in data units.
    nodes : Nodes
        The nodes that they stand for.
    precision : ndarray of shape (n_kept, n_kept)
        The reported estimate, in data units: fitted again on the chosen graph, or penalised.
    share : float
        The share of the penalty that it keeps: 0 for an unpenalised refit, 1 for the penalised estimate.
    solution : Solution
        The penalised estimate, on the scale that the penalty worked on.
    selection : Selection or None
        How alpha was chosen.
    repair : Repair
        What was done to the debiased matrix before solving, on that scale.
    debiased : ndarray of shape (n_kept, n_kept)
        The debiased covariance on that scale, before any repair.
    weights : ndarray of shape (G, G) or None
        The weights of the penalty on that scale.
    weighting : str
        What these are: "equal", "noise", "evidence" or "a matrix".
    start : InferenceFit or None
        What the tests of numbers start from, where it was needed before.
    """

    pooled: PooledCovariance
    nodes: Nodes
    precision: FloatArray
    share: float
    solution: Solution
    selection: Selection | None
    repair: Repair
    debiased: FloatArray
    weights: FloatArray | None
    weighting: str
    start: InferenceFit | None = None

    @cached_property
    def start_of_tests(self) -> InferenceFit:
        """What tests of numbers, and draws about their model, start from; errors as of `fit_for_inference`."""
        return self.start or fit_for_inference(self.pooled)

    @property
    def kept(self) -> Places:
        """The positions of the columns that are left."""
        return self.nodes.columns.kept

    @property
    def drowned(self) -> tuple[str, ...]:
        """The nodes left out, because their debiased variance is not clearly positive."""
        return self.nodes.columns.drowned
