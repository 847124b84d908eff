"""Noise on rows: rounded Gaussian on continuous columns, discrete Gaussian on integer ones, or randomised response.

Of the first two there is one class each, and `ROW_NOISE` by the kind of the column. Calibration, the release and its
guarantee ask these, and compare no kind themselves. Either adds whole steps of a dyadic grid to a value within its
bounds. Rounding x + N(0, sigma^2) to a grid that x lies on is post-processing of the Gaussian mechanism. So no bit of
the result depends on anything but that mechanism's output.

**A geometric ladder of sigmas** lets a wide table's columns share the tables that their noise is drawn from. An exact
sampler tabulates the noise's probabilities, once for every ratio of sigma to the grid's step. A step is a power of two,
so that the mantissa of sigma decides. Columns with different bounds have different sigmas. Where there are more columns
than rungs to an octave, each sigma is rounded up to the next rung. There are no more mantissas than rungs. Whatever is
drawn, published and charged is the sigma on the rung. A guarantee becomes stronger by it, never weaker. A column's mu
becomes smaller by at most the distance of two rungs, 0.54 % (a sum of many by half of that).

**Randomised response** gives a category's cell its level, or with some probability one drawn from all of them. The
exact trade-off between the two errors of whoever tells two levels apart is made of three straight lines. Its corners
lie on the curve of mu = Phi^-1(p_same) - Phi^-1(p_other), and so it is nowhere below that. So randomised response is
mu-GDP with this mu and no smaller one, and composes with Gaussian noise. Draws are exact, with rational probabilities,
from uniform bits.

References
----------
Mironov (2012), On significance of the least significant bits for differential privacy. Haney et al. (2022), arXiv
2207.13793. Canonne, Kamath & Steinke (2020), arXiv 2004.00010. Dong, Roth & Su (2022), section 2. Kairouz, Oh &
Viswanath (2016), JMLR 17(17), section 3. Wang, Blocki, Li & Jha (2017), Locally differentially private protocols for
frequency estimation, section 4.1, for the variance.
"""

import math
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dp_bundle.base.arrays import Integers
from dp_bundle.base.errors import PolicyError, PrivacyError
from dp_bundle.data.rows import to_numpy
from dp_bundle.manifest.columns import Cell, Column, Noise, RandomizedResponse, cells_of
from dp_bundle.manifest.discrete_mu import discrete_gaussian_sigma
from dp_bundle.manifest.noise import MAX_SIGMA, MIN_SIGMA, discrete_gaussian_variance, normal_quantile
from dp_publish.accounting.curve import Loss
from dp_publish.sampling.gaussian import sample_discrete_gaussian, sample_rounded_gaussian
from dp_publish.sampling.keystream import Keystream

ENOUGH_SIGMA = 0.31  # from which on discrete noise moves more than one whole number in a hundred
_STEPS_PER_SIGMA = 256
_STEPS_PER_WIDTH = 64
_MAX_STEPS_PER_SIGMA = 4096
_EXACT = 2**52  # integers up to here, and their sums with noise, are exact as float64
_SIGMAS = (2.0**-400, 2.0**400)  # of continuous noise: its variance is far from the ends of float64

Bounds = tuple[float, float]
N_RUNGS = 128  # to an octave
_MANTISSAS = [2.0 ** (rung / N_RUNGS - 1) for rung in range(N_RUNGS + 1)]  # from 0.5 to 1, as `math.frexp` has them
_STEPS = 2**32  # of the probability of another level


class RowNoise(ABC):
    """Noise on the cells of one kind of column.

    Attributes
    ----------
    is_gaussian : bool
        Whether manifests state its mu, and not only its rho.
    """

    is_gaussian: ClassVar[bool]

    @abstractmethod
    def describe(self, sigma: float, bounds: Bounds | None) -> Noise:
        """Return the noise with its grid and exact variance, for values clipped to the bounds, in data units.

        Raises
        ------
        PrivacyError
            The noise is so large, or so small, that the bounds cannot be put on a grid.
        """

    @abstractmethod
    def add(self, values: pa.Array, column: Column, keystream: Keystream) -> tuple[NDArray[Any], int]:
        """Return the values, clipped and with noise, and the number of those outside the column's bounds."""

    def sigma_for(self, reach: float, mu: float) -> float:
        """Return the sigma with which a value that moves so far is mu-GDP."""
        return reach / mu

    def require(self, name: str, sigma: float | None, bounds: Bounds | None) -> None:  # noqa: B027  most are fine
        """Refuse, by PolicyError, a column's bounds, or a sigma if it is known, that this noise does not go with."""

    def sigma_for_found(self, sigma: float) -> float:
        """Return the sigma for bounds found privately, of which only the width is known."""
        return sigma


class ContinuousNoise(RowNoise):
    """Gaussian noise, rounded to the grid of `granularity_for`."""

    is_gaussian = True

    def describe(self, sigma: float, bounds: Bounds | None) -> Noise:
        """Return the noise on the finest grid that the bounds allow."""
        granularity = granularity_for(sigma, bounds)
        _require_grid("continuous", sigma, _SIGMAS, bounds, granularity)
        return Noise.rounded_gaussian(sigma, granularity)

    def add(self, values: pa.Array, column: Column, keystream: Keystream) -> tuple[NDArray[Any], int]:
        """Snap the values to the grid, and add rounded Gaussian noise."""
        from dp_publish.sampling._kernels import add_steps

        noise, limits = column.cell_noise, _steps_within(column)
        bounds = column.bounds or (limits[0] * noise.granularity, limits[1] * noise.granularity)
        draws = sample_rounded_gaussian(noise.sigma / noise.granularity, len(values), keystream)
        noisy = draws.view(np.float64)  # one after the other, so that no other memory is needed
        within = (float(limits[0]), float(limits[1]))
        outside = add_steps(to_numpy(values), bounds, noise.granularity, within, draws, noisy)
        return noisy, int(outside)


class DiscreteNoise(RowNoise):
    """Discrete Gaussian noise on the integers."""

    is_gaussian = False

    def describe(self, sigma: float, bounds: Bounds | None) -> Noise:
        """Return the noise on whole numbers."""
        _require_grid("integer", sigma, (MIN_SIGMA, MAX_SIGMA), bounds, 1.0)
        return Noise.discrete_gaussian(sigma)

    def add(self, values: pa.Array, column: Column, keystream: Keystream) -> tuple[NDArray[Any], int]:
        """Add discrete Gaussian noise."""
        steps, (low, high) = to_numpy(values), _steps_within(column)
        draws = sample_discrete_gaussian(column.cell_noise.sigma, len(steps), keystream)
        return np.clip(steps, low, high) + draws, int(np.count_nonzero((steps < low) | (steps > high)))

    def sigma_for(self, reach: float, mu: float) -> float:
        """Return the least sigma with which a number that moves by so many whole steps is mu-GDP."""
        return discrete_gaussian_sigma(max(1, math.floor(reach)), mu)

    def require(self, name: str, sigma: float | None, bounds: Bounds | None) -> None:
        """Refuse bounds that are no integers, and a sigma that hardly ever moves a value."""
        if bounds is not None and not (bounds[0].is_integer() and bounds[1].is_integer()):
            raise PolicyError(
                f'column {name!r} is an integer column: give it integer bounds, or kind = "continuous"', "bounds", name
            )
        if sigma is not None and sigma < MIN_SIGMA:
            raise PolicyError(
                f"column {name!r} of whole numbers would get noise of sigma {sigma:.3g}, which hardly ever moves a "
                f'value: choose a strength that gives at least {MIN_SIGMA:g}, or, for a number, kind = "continuous"',
                "privacy.mu",
            )

    def sigma_for_found(self, sigma: float) -> float:
        """Return a sigma that moves values even where the bounds hold few integers."""
        return max(sigma, ENOUGH_SIGMA)


ROW_NOISE: dict[str, RowNoise] = {"continuous": ContinuousNoise(), "integer": DiscreteNoise()}


def granularity_for(sigma: float, bounds: Bounds | None) -> float:
    """Return the grid step: the largest power of two that is at most sigma/256, and 1/64 of the width where possible.

    The second condition keeps the signal finer than the grid under heavy noise, up to 4096 steps to a sigma.
    """
    step = sigma / _STEPS_PER_SIGMA
    if bounds is not None:
        step = min(step, max((bounds[1] - bounds[0]) / _STEPS_PER_WIDTH, sigma / _MAX_STEPS_PER_SIGMA))
    return math.ldexp(0.5, math.frexp(step)[1])


def losses_of(columns: Sequence[Column], unit: str) -> list[Loss]:
    """Return the privacy losses that compose to a row's: one for each of its cells.

    Parameters
    ----------
    columns : sequence of Column
        As they are published.
    unit : str
        The unit of privacy: "change" where a cell moves by its column's `max_change` alone.
    """
    return [_loss(cell) for cell in cells_of(columns, unit)]


def _loss(cell: Cell) -> Loss:
    if cell.column.response is not None or cell.gaps is not None:
        return Loss(cell.mu, 1.0, discrete=False)
    return Loss(cell.reach, cell.column.cell_noise.sigma, not cell.column.is_gaussian, cell.n_moved)


def _require_grid(
    kind: str, sigma: float, sigmas: tuple[float, float], bounds: Bounds | None, granularity: float
) -> None:
    """Refuse a sigma out of its range, and bounds without two grid points, or with more than float64 can tell apart."""
    least, most = sigmas
    if least <= sigma <= most:
        if bounds is None:
            return
        low, high = _steps(bounds, granularity)
        if low < high and max(-low, high) <= _EXACT:
            return
    limits = "" if bounds is None else f" within {list(bounds)}"
    other = ', or, for a number, kind = "continuous"' if kind == "integer" else ""
    raise PrivacyError(
        f"noise of sigma {sigma:.6g} does not go with {kind} values{limits}: choose another strength, or bounds "
        f"nearer to zero{other}"
    )


def _steps_within(column: Column) -> tuple[int, int]:
    """Return the outermost grid points inside the bounds; without bounds, values are not protected."""
    return (-_EXACT, _EXACT) if column.bounds is None else _steps(column.bounds, column.cell_noise.granularity)


@cache
def _steps(bounds: Bounds, granularity: float) -> tuple[int, int]:
    step = Fraction(granularity)  # exact: a quotient of floats could underflow past a bound
    return math.ceil(Fraction(bounds[0]) / step), math.floor(Fraction(bounds[1]) / step)


def rung_above(sigma: float) -> float:
    """Return the lowest rung that is not below sigma."""
    mantissa, exponent = math.frexp(sigma)
    return math.ldexp(_MANTISSAS[bisect_left(_MANTISSAS, mantissa)], exponent)


def response_for(n_levels: int, mu: float) -> RandomizedResponse | None:
    """Return randomised response of at most this mu; None where no probability on the grid is large enough."""

    def excess(replaced: float) -> float:
        return _response(n_levels, replaced).mu - mu

    def continuous(replaced: float) -> float:  # the same between the points of the grid
        other = replaced / n_levels
        return normal_quantile(1 - replaced + other) - normal_quantile(other) - mu

    from scipy import optimize  # which takes a quarter of a second to import, and only categories need

    least, most = 1 / _STEPS, 1 - 1 / _STEPS
    if excess(most) > 0:
        return None
    root = least
    if excess(least) > 0:
        root = math.ceil(float(optimize.brentq(continuous, least, most)) * _STEPS) / _STEPS
    while excess(root) > 0:
        root += 1 / _STEPS
    return _response(n_levels, root)


def is_response_better(n_levels: int, mu: float, sigma: float) -> bool:
    """Return True if randomised response of at most this mu leaves less variance than discrete Gaussian noise.

    Compared is the sum over levels of the variances of unbiased indicators, those with noise being made to add up to
    one. By randomised response it is the same for all levels, so that nothing has to be known of the data.
    """
    response = response_for(n_levels, mu)
    if response is None:
        return False
    if sigma < ENOUGH_SIGMA:  # which hardly ever moves an indicator
        return True
    same, other = response.p_same, response.p_other
    replaced = (same * (1 - same) + (n_levels - 1) * other * (1 - other)) / (same - other) ** 2
    added = discrete_gaussian_variance(sigma) * (n_levels - 1 if n_levels > 2 else 2)
    return replaced < added


def respond(codes: Integers, response: RandomizedResponse, keystream: Keystream) -> Integers:
    """Return the levels that come out, as places from 0.

    Parameters
    ----------
    codes : ndarray of int
        The cells' own levels.
    response : RandomizedResponse
    keystream : Keystream
        Where the random bits come from.
    """
    places, levels = sample_replacements(len(codes), int(response.replaced * _STEPS), response.n_levels, keystream)
    out = codes.copy()
    out[places] = levels
    return out


def _response(n_levels: int, replaced: float) -> RandomizedResponse:
    return RandomizedResponse(distribution="randomized-response", n_levels=n_levels, replaced=replaced)


_WORDS = 2**32


def sample_replacements(
    size: int, numerator: int, n_levels: int, keystream: Keystream
) -> tuple[NDArray[np.intp], Integers]:
    """Draw the cells whose level is replaced, and their new levels, uniform among all.

    Parameters
    ----------
    size : int
        The number of cells.
    numerator : int
        Each is replaced with probability numerator / 2^32, independently.
    n_levels : int
        Levels are numbered from 0.
    keystream : Keystream
        Where the random bits come from.

    Returns
    -------
    ndarray of int, shape (n_replaced,)
        The cells, in ascending order.
    ndarray of int, shape (n_replaced,)
        Their levels.
    """
    words = np.empty(size, dtype=np.uint32)
    keystream.fill(words)
    places = np.flatnonzero(words < numerator)
    return places, _uniform(len(places), n_levels, keystream)


def _uniform(size: int, n_levels: int, keystream: Keystream) -> Integers:
    """Draw levels; words that would make some of them more likely are drawn again."""
    words = np.empty(size, dtype=np.uint32)
    keystream.fill(words)
    last = _WORDS // n_levels * n_levels - 1
    while len(beyond := np.flatnonzero(words > last)):
        again = np.empty(len(beyond), dtype=np.uint32)
        keystream.fill(again)
        words[beyond] = again
    return (words % np.uint32(n_levels)).astype(np.int64)
