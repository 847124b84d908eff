"""The interface of a covariance mechanism, its result, and the grid of its noise.

An exact sum is a matrix of integers. It is rounded to a grid of 2^e of these units, far finer than the noise. Integer
noise in steps of the grid is added. So no floating-point number comes between the data and the release. Rounding two
neighbouring sums may add one step to the difference of each entry; that is added to the sensitivity. Where the noise is
so small that e = 0, nothing is rounded.

**Pure** mechanisms are calibrated by a pure epsilon, whatever strength the policy gives it by.

**Unsound** are mechanisms that the literature offers as pure epsilon and that are not private, refused by name.

Wishart noise is positive semidefinite, so an output X can only come from a matrix M for which X - M is. Take away a row
and put in another, and let X be close to M in a direction where the neighbour's matrix is larger. Under the neighbour
such an X has probability zero, whatever epsilon is. (Amin et al. 2019, section 1.2, after Imtiaz & Sarwate.)
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from typing import Any, ClassVar, Protocol, TypeAlias, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from dp_bundle.base.arrays import Floats, Integers
from dp_bundle.base.errors import DataError, ParameterError, PolicyError, PrivacyError
from dp_bundle.manifest.matrix_noise import MatrixNoise
from dp_bundle.manifest.noise import Neighbours
from dp_publish.accounting.strength import GaussianDP, PureDP, Strength
from dp_publish.covariance.exact_moments import ExactMoments, merge, sum_moments
from dp_publish.covariance.scaling import GRID_BITS, Scaling, check_neighbours, correlation_noise
from dp_publish.covariance.two_rounds.margins import Described
from dp_publish.data.kinds import Kinds
from dp_publish.policy.choices import SoundMechanism
from dp_publish.policy.model import Policy
from dp_publish.sampling.keystream import Keystream

T = TypeVar("T")
Batches: TypeAlias = Iterator[Floats]
EPSILONS = (1e-6, 700.0)
EXCEPTED_DELTA = 2.0**-40  # of what is drawn to a finite precision


class RawRows(Protocol):
    """The rows of a table, in data units and without gaps; every call is a pass over all of them."""

    def __call__(self, add: Callable[[Batches], T], merge: Callable[[T, T], T], /) -> T:
        """Return what comes of the rows.

        Parameters
        ----------
        add : callable
            Takes a run of rows, batch by batch, and returns what comes of them. It is pickled where others run it.
        merge : callable
            Takes what comes of two runs, and returns what comes of both, exactly; it may change the first.
        """


class Witness(Protocol):
    """Whoever publishes, and has to know how far a release has come."""

    def drawing(self) -> None:
        """From now on an error could reveal noisy numbers."""

    def once(self, name: str, draw: Callable[[], T]) -> T:
        """Return what was drawn before under a name, or draw it."""

    def clipped(self, n_rows: int, values: Sequence[int] = ()) -> None:
        """So many rows were outside their bounds or their ball, and values of each column clipped, which is private."""


@dataclass(frozen=True, eq=False)
class NoisyMoments:
    """A noisy sum of (z, c)(z, c)^T over rows, and all that a reader must know of the noise.

    Attributes
    ----------
    matrix : ndarray of float64, shape (d, d)
        Symmetric. Where the number of rows is public, the constant's own entry, n c^2, is exact.
    scaling : Scaling
        Where rows were put before the sum.
    n_rows : int or None
        The number of rows, where it is public; elsewhere it is read from the constant's entry.
    noise : MatrixNoise
        What it carries, as manifests state it.
    unshrunk : ndarray of float64, shape (d, d), or None
        Where the noise does not act entry by entry: the matrix before what was done against its noise on average. The
        mechanism's error is estimated from it. It is as private as `matrix`.
    earlier : FirstRound or None
        Where this is the second of two rounds: the first.
    """

    matrix: Floats = field(repr=False)
    scaling: Scaling = field(repr=False)
    n_rows: int | None
    noise: MatrixNoise
    unshrunk: Floats | None = field(default=None, repr=False)
    earlier: FirstRound | None = field(default=None, repr=False)


@dataclass(frozen=True, eq=False)
class FirstRound:
    """The first of two rounds, and what the second one took from it; all of it is published.

    Attributes
    ----------
    moments : NoisyMoments
        Its noisy sum.
    clip : float
        What values were clipped to in both rounds, in half-widths of the first one's scaling.
    transform : ndarray of float64, shape (p, p)
        What standardised rows are multiplied by in the second round: symmetric.
    fourth_powers, fourth_sigma, fourth_step : float
        The noisy sum of the rows' lengths in the second round to the fourth, over that of the radius. With it are its
        noise's standard deviation before rounding, and what it is a multiple of.
    choices_mu : float
        The mu of everything that was chosen privately, for the unit of privacy.
    described : Described or None
        The noisy histograms, if there are any, and what they make of the columns.
    positive : tuple of int
        The places of the columns that were found to have no number below zero, or so it seems.
    """

    moments: NoisyMoments
    clip: float
    transform: Floats = field(repr=False)
    fourth_powers: float
    fourth_sigma: float
    fourth_step: float
    choices_mu: float
    described: Described | None = field(default=None, repr=False)
    positive: tuple[int, ...] = ()


@dataclass(frozen=True)
class Mechanism(ABC):
    """A covariance mechanism, set for one policy. Each has a file of its own, named after it, and is found by its name.

    Most are made of `OneSum`.

    Attributes
    ----------
    name : str
        What policies call it.
    published_as : str
        What manifests call it: by default its name, or that of another one with the same kind of noise.
    noise : type
        The kind of noise that a reader finds, which `dp_bundle` has a class for.
    draws_depend_on_data : bool
        Whether its random bits and its time depend on the sums, so that a failure tells of them.
    places_gaps : bool
        Whether it puts gaps that are published at a place of its own, and takes them as NaN. Else they stand at the
        middle of the bounds.
    forecast_as : type or None
        The mechanism whose noise stands for its own in a forecast, where that has no formula.
    error_kind : str
        What `expected_error` is of the error.
    scaling : Scaling
        Where rows are put.
    neighbours : Neighbours
        What the guarantee speaks of.
    strength : GaussianDP, PureDP or ApproximateDP
        What the unit of privacy is promised, in the form that the mechanism is calibrated by.
    max_rows : int
        The most rows that the unit of privacy has.
    reason : str or None
        Why this mechanism, where it was not the publisher who chose.

    Raises
    ------
    ParameterError, PrivacyError
        The strength is outside what the mechanism can give.
    """

    name: ClassVar[str]
    published_as: ClassVar[str]
    noise: ClassVar[type[MatrixNoise]]
    draws_depend_on_data: ClassVar[bool] = False
    places_gaps: ClassVar[bool] = False
    forecast_as: ClassVar[type[Mechanism] | None] = None
    error_kind: ClassVar[str] = "its root mean square"

    scaling: Scaling
    neighbours: Neighbours
    strength: Strength
    max_rows: int = 1
    reason: str | None = None

    def __init_subclass__(cls) -> None:
        if "name" in vars(cls) and "published_as" not in vars(cls):
            cls.published_as = cls.name

    def __post_init__(self) -> None:
        self.check_strength()
        if self.max_rows > 1 and self.spends(1).mu >= self.spends(self.max_rows).mu:  # it knows of no further rows
            raise PolicyError(
                f"the {self.name} mechanism protects one row: for an entity, choose another", "privacy.unit"
            )

    @classmethod
    def settings(cls, policy: Policy, kinds: Kinds) -> dict[str, Any]:
        """Return what else it needs of a policy for these columns, by the names of its own attributes."""
        del policy, kinds
        return {}

    @classmethod
    def form_of(cls, strength: Strength) -> Strength:
        """Return the strength that it is calibrated by to serve a policy's: by default the mu that it stands for.

        Raises
        ------
        PolicyError
            It cannot be calibrated by such a strength.
        """
        return GaussianDP(strength.mu)

    @classmethod
    def serves(cls, strength: Strength) -> bool:
        """Return whether it can be calibrated by a policy's strength."""
        try:
            cls.form_of(strength)
        except PolicyError:
            return False
        return True

    @abstractmethod
    def check_strength(self) -> None:
        """Refuse a strength that it cannot give."""

    @abstractmethod
    def spends(self, rows: int, *, replaced: bool = False) -> GaussianDP | PureDP:
        """Return what so many rows of a unit, at most all, lose: the one answer for ledger, guarantee, plan and audit.

        Parameters
        ----------
        rows : int
            From 1 to `max_rows`.
        replaced : bool
            Whether rows are replaced, as the ledger counts, whatever the neighbours of the guarantee.
        """

    @abstractmethod
    def release(self, rows: RawRows, rng: Keystream, witness: Witness) -> NoisyMoments:
        """Return the second moments of the table with noise.

        Parameters
        ----------
        rows : Rows
            Read as often as is needed.
        rng : Keystream
            Where the random bits come from.
        witness : Witness
            Told what its publisher has to know meanwhile.

        Raises
        ------
        PrivacyError
            The guarantee cannot be confirmed.
        """

    @abstractmethod
    def correlation_noise(self, n_rows: int, spread: float) -> float:
        """Return the standard deviation of the noise on n times a correlation near zero, from public facts alone.

        Parameters
        ----------
        n_rows : int
            The number of rows, n.
        spread : float
            The assumed standard deviation of both columns, as a share of the width of their bounds.

        Returns
        -------
        float
            Infinite where there is no formula; see `for_forecast`.
        """

    def expected_error(self, n_rows: int) -> float | None:  # noqa: ARG002  see `OneSum`
        """Return the expected ``||C^ - C||_F / n`` for rows in the unit ball; None if `auto` is not to choose it."""
        return None

    def for_forecast(self) -> Mechanism:
        """Return the mechanism, of the same strength, that a forecast computes with."""
        if self.forecast_as is None:
            return self
        return self.forecast_as(self.scaling, self.neighbours, self.strength, self.max_rows, self.reason)


@dataclass(frozen=True)
class OneSum(Mechanism):
    """A mechanism that adds noise to one exact sum over rows.

    Attributes
    ----------
    diagonal_ratio : float
        Of the noise's variance on the diagonal to that off it, up to the grid's part.
    """

    diagonal_ratio: ClassVar[float] = 2.0

    def __post_init__(self) -> None:
        check_neighbours(self.scaling, self.neighbours)
        super().__post_init__()

    @property
    @abstractmethod
    def sensitivity(self) -> float:
        """The most that one row moves the sum, in the norm that the noise answers to and the matrix's units."""

    @abstractmethod
    def draw(self, moments: ExactMoments, rng: Keystream) -> NoisyMoments:
        """Return the second moments with noise.

        Raises
        ------
        PrivacyError
            The guarantee cannot be confirmed.
        """

    def insecure_draw(self, moments: ExactMoments, rng: Keystream) -> NoisyMoments:
        """Return what `draw` would except for the last bits, sooner: to measure errors on, never to release."""
        return self.draw(moments, rng)

    def release(self, rows: RawRows, rng: Keystream, witness: Witness) -> NoisyMoments:
        """Return the second moments of the table with noise, from one pass; see `Mechanism`."""
        moments = rows(partial(sum_moments, scaling=self.scaling), merge)
        witness.clipped(moments.n_clipped)
        if moments.n_rows == 0 and self.neighbours.n_rows_public:  # else their absence is protected
            raise DataError("the table has no rows to publish")
        if self.draws_depend_on_data:  # and so does the time that they take
            witness.drawing()
        noisy = self.draw(moments, rng)
        witness.drawing()
        return noisy

    @property
    def off_diagonal_variance(self) -> float | None:
        """The noise's variance off the diagonal, up to the grid's part; None if it does not act entry by entry."""
        return None

    def correlation_noise(self, n_rows: int, spread: float) -> float:  # noqa: ARG002  one sum's is the same for all
        """Return the noise on n times a correlation, by that on the sum; see `Mechanism`."""
        variance = self.off_diagonal_variance
        return math.inf if variance is None else correlation_noise(variance, spread, self.scaling)

    def expected_error(self, n_rows: int) -> float | None:
        """Return the root mean square that follows from the variances of d x d entries; see `Mechanism`."""
        d, variance = self.scaling.n_coordinates, self.off_diagonal_variance
        if variance is None:
            return None
        return math.sqrt(variance * d * (d - 1 + self.diagonal_ratio)) / self.scaling.square / n_rows


@dataclass(frozen=True)
class DyadicGrid:
    """Steps of 2^exponent units of 2^-40."""

    exponent: int

    @property
    def step(self) -> float:
        """One step, in the matrix's units."""
        return math.ldexp(1.0, self.exponent - 2 * GRID_BITS)

    @property
    def rounding(self) -> float:
        """By how much rounding to the grid may increase the difference of one entry, in the matrix's units."""
        return self.step if self.exponent else 0.0

    def round(self, exact: NDArray[Any]) -> NDArray[Any]:
        """Return the nearest numbers of steps; integers in, integers out."""
        return (exact + (1 << (self.exponent - 1))) >> self.exponent if self.exponent else exact

    def add(self, moments: ExactMoments, noise: Integers) -> Floats:
        """Return the sum, rounded to the grid, plus the symmetric noise in the upper triangle of `noise`."""
        upper = np.triu(noise).astype(object)
        return self.floats(self.round(moments.steps) + upper + np.triu(upper, 1).T)

    def floats(self, steps: NDArray[Any]) -> Floats:
        """Return numbers of steps, which are integers of any size, in the matrix's units."""
        step = self.step
        return np.array([int(each) * step for each in steps.flat], dtype=np.float64).reshape(steps.shape)


def grid_for(scale: float, fineness: int = 28) -> DyadicGrid:
    """Return the coarsest grid with at least 2^fineness steps to a noise of that scale, none finer than exact sums."""
    return DyadicGrid(max(0, math.frexp(scale)[1] - 1 - fineness + 2 * GRID_BITS))


def released(
    mechanism: Mechanism,
    matrix: Floats,
    moments: ExactMoments,
    noise: MatrixNoise,
    unshrunk: Floats | None = None,
) -> NoisyMoments:
    """Return a noisy matrix as what is released; the constant's own entry is n c^2 where that is public."""
    public_rows = mechanism.neighbours.n_rows_public
    if public_rows and moments.scaling.constant:
        matrix[-1, -1] = moments.n_rows * moments.scaling.constant**2
    return NoisyMoments(matrix, moments.scaling, moments.n_rows if public_rows else None, noise, unshrunk)


@dataclass(frozen=True)
class PureMechanism(OneSum):
    """A mechanism of pure epsilon, which a row gets an equal part of, and a removal with an addition twice.

    Attributes
    ----------
    excepted_delta : float
        The probability of the event that its guarantee excepts.
    """

    excepted_delta: ClassVar[float] = 0.0
    strength: PureDP

    @classmethod
    def form_of(cls, strength: Strength) -> PureDP:
        """Return the largest epsilon that serves a strength."""
        return PureDP(strength.pure_epsilon)

    def check_strength(self) -> None:
        """Refuse an epsilon for one row outside [1e-6, 700]."""
        check_epsilon(self.row_epsilon)

    @property
    def row_epsilon(self) -> float:
        """The epsilon that each row gets."""
        return self.strength.epsilon / self.max_rows

    def spends(self, rows: int, *, replaced: bool = False) -> PureDP:
        """Return the epsilon of so many rows, by group privacy."""
        steps = self.neighbours.per_replacement if replaced else 1
        return PureDP(self.strength.epsilon * (rows / self.max_rows) * steps, self.excepted_delta)


def security_for(epsilon: float) -> int:
    """Return the t for which draws within 2^-t of their law except no more than EXCEPTED_DELTA from a unit's epsilon.

    Nor from twice that, as the ledger counts: ``P[S | C] <= e^(2 epsilon) P[S | C'] + (1 + e^(2 epsilon)) 2^-t``.
    """
    return 42 + math.ceil(2 * epsilon / math.log(2))


def check_epsilon(epsilon: float) -> None:
    """Refuse an epsilon outside [1e-6, 700].

    Raises
    ------
    ParameterError
    """
    if not EPSILONS[0] <= epsilon <= EPSILONS[1]:
        raise ParameterError("epsilon", f"from {EPSILONS[0]:g} to {EPSILONS[1]:g}", epsilon)


_REASONS = {
    "wishart-pure": "the wishart-pure mechanism is not private: its noise is positive semidefinite, so that some "
    "outputs are possible with a row and impossible without it. Use wishart-difference, laplace or eigenvectors for "
    "a pure epsilon",
    "output-perturbation": "the output-perturbation mechanism is not private: its noise on the precision matrix is "
    "positive semidefinite, so that some outputs are possible with a row and impossible without it. Release a "
    "covariance by gaussian, wishart-difference or eigenvectors, and estimate from that",
}


def mechanism_named(name: str) -> type[Mechanism] | None:
    """Return the class of a mechanism; None for "auto", where it is still to be chosen.

    Raises
    ------
    PrivacyError
        It is known to be not private.
    """
    if name in _REASONS:
        raise PrivacyError(_REASONS[name])
    if name == "auto":
        return None
    module = import_module(f"dp_publish.covariance.mechanisms.{name.replace('-', '_')}")
    kind: type[Mechanism] = module.MECHANISM
    return kind


def all_mechanisms() -> list[type[Mechanism]]:
    """Return all that may be used."""
    return [kind for kind in map(mechanism_named, get_args(SoundMechanism)) if kind is not None]
