"""Randomised response on a category's cell: its level, or with some probability one drawn from all of them.

The exact trade-off between the two errors of whoever tells two levels apart is made of three straight lines. Its
corners lie on the curve of mu = Phi^-1(p_same) - Phi^-1(p_other), and so it is nowhere below that: randomised response
is mu-GDP with this mu and no smaller one, and composes with Gaussian noise.

References
----------
Dong, Roth & Su (2022), section 2. Kairouz, Oh & Viswanath (2016), JMLR 17(17), section 3. Wang, Blocki, Li & Jha
(2017), Locally differentially private protocols for frequency estimation, section 4.1, for the variance.

Draws of cells that get another level, and of that level: exact, with rational probabilities, from uniform bits.
"""

import math

import numpy as np
from numpy.typing import NDArray

from dp_bundle.manifest.columns import RandomizedResponse
from dp_bundle.privacy.noise import discrete_gaussian_variance
from dp_bundle.privacy.normal import normal_quantile
from dp_publish.rows.noise import ENOUGH_SIGMA
from dp_publish.sampling.keystream import Keystream

_STEPS = 2**32  # of the probability of another level


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


def respond(codes: NDArray[np.int64], response: RandomizedResponse, keystream: Keystream) -> NDArray[np.int64]:
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
) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
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


def _uniform(size: int, n_levels: int, keystream: Keystream) -> NDArray[np.int64]:
    """Draw levels; words that would make some of them more likely are drawn again."""
    words = np.empty(size, dtype=np.uint32)
    keystream.fill(words)
    last = _WORDS // n_levels * n_levels - 1
    while len(beyond := np.flatnonzero(words > last)):
        again = np.empty(len(beyond), dtype=np.uint32)
        keystream.fill(again)
        words[beyond] = again
    return (words % np.uint32(n_levels)).astype(np.int64)
