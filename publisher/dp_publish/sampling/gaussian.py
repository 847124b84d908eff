"""Exact samplers of integer Gaussian noise, from a cryptographic generator.

Both distributions are sampled to a total variation distance below 2^-144 of their definitions, per value, given uniform
bits. Here sigma is the exact rational number that its float64 stands for. Below sigma = 256 a value is read off a table
of 159-bit cumulative probabilities (`probability_tables`, which proves the bound). From there on it is proposed by such
a table and accepted exactly (`rejection`). No rounding error ever decides a value. The bits are those of AES-256 in
counter mode (`keystream`).

Speed does not hide anything: the time that a call takes depends, slightly, on the values drawn.

**Standard normal numbers** to 74 binary places come from the exact sampler of rounded ones. A rounded Gaussian of 2^29
steps to its standard deviation says in which cell of width 2^-29 a normal number lies, with the right probability.
Inside the cell around k the density falls off as ``exp(-h^2 (k u + u^2 / 2))``, h = 2^-29, |u| < 1/2: 45 uniform bits
propose a place u, and one is rejected, about once in 2^28 times, by comparing 64 bits with that ratio. The law deviates
from that of normal numbers, rounded to multiples of 2^-74, by a total variation below 2^-62 per value: 2^-63 from the
comparison, 2^-69 from the density's change within 2^-45 of a cell, 2^-144 from the cell.

References
----------
Canonne, Kamath & Steinke (2020), The discrete Gaussian for differential privacy, arXiv 2004.00010. Mironov (2012), On
significance of the least significant bits for differential privacy. Chen & Asau (1974), On generating random variates
from an empirical distribution, for the guide table.

Gaussian noise of any large scale: a table of blocks of 2^b steps, and exact rejection inside the block.

With b chosen so that sigma / 2^b is in [128, 256), the magnitude |X| is proposed as ``2^b m + t``. The block m has
probability proportional to ``exp(-(2^b m)^2 / (2 sigma^2))``, the largest density in it, and comes from a table. Within
it t is uniform in the block. It is accepted with probability

    exp(-g),   g = t (2^(b+1) m + t) / (2 sigma^2) < 1/8,

which makes the density of what is accepted proportional to that of |X|; at most one proposal in 300 is rejected. For
the discrete Gaussian t is a b-bit integer, and a zero with a negative sign is rejected as well. For the rounded one t
is a real number, of which b + 1 bits show how |X| rounds.

The decision compares a uniform number U with exp(-g) exactly, whatever number of bits it takes. The first 32 bits of U,
and for the rounded Gaussian of t, leave an interval, and the bounds

    1 - g + g^2/2 - g^3/6  <=  exp(-g)  <=  1 - g + g^2/2

settle all but at most 4 in 10^8 decisions in floating point. That is harmless. The bounds are off by less than 2^-49
for rounding and 2^-35 for the missing bits of t, and U by 2^-32, and the margin kept is 2^-31. The rest is decided by
rational intervals, with 64 bits more of U and of t at a time until they part. Hence the only deviation from the exact
law is that of the table of blocks, below 2^-145, at most doubled by conditioning on acceptance. A rejected proposal's
place goes to the last accepted one, which depends on the pattern of acceptance only: the values stay independent.

References
----------
von Neumann (1951), Various techniques used in connection with random digits. Devroye (1986), Non-uniform random variate
generation, chapter II (rejection, squeeze). Karney (2016), Sampling exactly from the normal distribution, ACM TOMS
42(1), for deciding with as many digits as it takes.
"""

import math
import operator
from collections.abc import Callable, Sequence
from decimal import Context, Decimal, localcontext
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dp_bundle.base.arrays import Floats, Integers
from dp_bundle.base.errors import ParameterError
from dp_bundle.manifest.noise import check_sigma
from dp_publish.sampling.keystream import Keystream, SecureKeystream
from dp_publish.sampling.probability_tables import (
    CHUNK,
    ProbabilityTable,
    block_table,
    discrete_table,
    fill_symmetric,
    rounded_table,
)

_MAX_TABULATED = 256.0
_CELL_BITS, _PLACE_BITS = 29, 45
PLACES = _CELL_BITS + _PLACE_BITS + 1  # a number is cell * 2^-29 + inner * 2^-75, inner odd: the middle of its place
HALF_PLACE = 2.0**-PLACES
TOTAL_VARIATION = 2.0**-62


def sample_rounded_gaussian(sigma_in_steps: float, size: int | Sequence[int], rng: Keystream | None = None) -> Integers:
    """Draw round(N(0, sigma^2)), for noise on a grid.

    Parameters
    ----------
    sigma_in_steps : float
        The standard deviation before rounding, in steps of the grid, from 0.05 to 1e9.
    size : int or sequence of int
        The shape of the result.
    rng : Keystream, optional
        Where the random bits come from; a new `SecureKeystream` unless given. To be used by one thread at a time.

    Returns
    -------
    ndarray of int64
        Independent values.

    Raises
    ------
    ParameterError
        `sigma_in_steps` is outside the range, or `size` is not a shape.
    """
    sigma = check_sigma(sigma_in_steps, "sigma_in_steps")
    return _sample(sigma, size, rng, rounded_table)


def sample_discrete_gaussian(sigma: float, size: int | Sequence[int], rng: Keystream | None = None) -> Integers:
    """Draw from the discrete Gaussian: k with probability proportional to exp(-k^2 / (2 sigma^2)).

    Parameters, result and errors are those of `sample_rounded_gaussian`.
    """
    return _sample(check_sigma(sigma), size, rng, discrete_table)


def _sample(
    sigma: float, size: int | Sequence[int], rng: Keystream | None, tabulate: Callable[[float], ProbabilityTable]
) -> Integers:
    out = np.empty(_check_size(size), dtype=np.int64)
    rng = SecureKeystream() if rng is None else rng
    if sigma < _MAX_TABULATED:
        fill_symmetric(out.reshape(-1), tabulate(sigma), rng)
    else:
        fill_large(out.reshape(-1), sigma, rng, discrete=tabulate is discrete_table)
    return out


def _check_size(size: int | Sequence[int]) -> tuple[int, ...]:
    try:
        shape = tuple(map(operator.index, size if isinstance(size, Sequence) else [size]))
    except TypeError as error:
        raise ParameterError("size", "a whole number or a tuple of them", size) from error
    if min(shape, default=0) < 0 or math.prod(shape) > np.iinfo(np.intp).max // 8:
        raise ParameterError("size", "a shape that fits into memory, of numbers that are not negative", size)
    return shape


def standard_normals(size: int | tuple[int, ...], rng: Keystream) -> Floats:
    """Return standard normal numbers, rounded to float64."""
    cell, inner = normal_parts(size, rng)
    return (cell + inner * 2.0 ** -(_PLACE_BITS + 1)) * 2.0**-_CELL_BITS


def normal_parts(size: int | tuple[int, ...], rng: Keystream) -> tuple[Integers, Integers]:
    """Return standard normal numbers as the integers cell and inner of ``cell * 2^-29 + inner * 2^-75``.

    Parameters
    ----------
    size : int or tuple of int
        The shape of both results.
    rng : Keystream
        Where random bits come from.

    Returns
    -------
    cell, inner : ndarray of int64
        The real number is within 2^-75 of what they stand for; |inner| < 2^45.
    """
    cell = sample_rounded_gaussian(2.0**_CELL_BITS, size, rng)
    inner = np.empty_like(cell)
    flat_cell, flat_inner = cell.reshape(-1), inner.reshape(-1)
    open_places = np.arange(flat_cell.size)
    while open_places.size:
        words = np.empty((2, open_places.size), dtype=np.uint64)
        rng.fill(words)
        proposed = ((words[0] >> np.uint64(64 - _PLACE_BITS)) << np.uint64(1)).astype(np.int64) + 1 - (1 << _PLACE_BITS)
        flat_inner[open_places] = proposed
        open_places = open_places[words[1] < _rejection(flat_cell[open_places], proposed)]
    return cell, inner


def _rejection(cell: Integers, inner: Integers) -> NDArray[np.uint64]:
    """Return 2^64 times one less the density over its bound in the cell: ``exp(|k| h^2 / 2)`` times that at k."""
    k, u = cell.astype(np.float64), inner * 2.0 ** -(_PLACE_BITS + 1)
    exponent = (k * u + 0.5 * u * u + 0.5 * np.abs(k)) * 4.0**-_CELL_BITS
    return (-np.expm1(-exponent) * 2.0**64).astype(np.uint64)


_MAX_TABLE_SIGMA = 256.0  # in blocks; at least half of it is what is used


def fill_large(out: Integers, sigma: float, rng: Keystream, *, discrete: bool) -> None:
    """Overwrite `out` with discrete, or rounded, Gaussian values; sigma at least 256."""
    from dp_publish.sampling._kernels import OPEN, propose, settle, value_in_block

    n_bits = math.frexp(sigma / _MAX_TABLE_SIGMA)[1]
    table = block_table(math.ldexp(sigma, -n_bits))
    mask = np.uint32((0xFFFFFFFF << (32 - n_bits)) & 0xFFFFFFFF) if discrete else np.uint32(0xFFFFFFFF)
    half = np.int64(0) if discrete else np.int64(1)
    parameters = (np.int64(n_bits), mask, half, 2.0**n_bits, 0.5 / sigma / sigma)

    words = np.empty(min(CHUNK, out.size), dtype=np.uint64)
    start = 0
    while start < out.size:
        part = out[start : start + CHUNK]
        fill_symmetric(part, table, rng)
        rng.fill(words[: part.size])
        propose(part, words, *parameters)

        end, i = settle(part, words, part.size, 0, *parameters)
        while i < end:  # one decision after another that the bounds leave open
            block, word = int(part[i]) + OPEN, int(words[i])
            if accept_exactly(block, word, sigma, n_bits, rng, discrete=discrete):
                part[i] = value_in_block(np.int64(block), np.uint64(word), *parameters)[0]
            else:
                end -= 1
                part[i], words[i] = part[end], words[end]
            end, i = settle(part, words, end, i, *parameters)
        start += end


def accept_exactly(block: int, word: int, sigma: float, n_bits: int, rng: Keystream, *, discrete: bool) -> bool:
    """Decide if U < exp(-g), for the U and t of which `word` holds the first bits, by drawing more of them.

    Parameters
    ----------
    block : int
        m + 1, or its negative for a negative value.
    word : int
        64 bits: those of t, up to 32, and in the lower half those of U.
    sigma : float
        The standard deviation.
    n_bits : int
        Blocks have 2^n_bits steps.
    rng : Keystream
        Where further bits come from.
    discrete : bool
        Whether t is an integer, given by the first `n_bits` bits, or a real number.

    Returns
    -------
    bool
        The decision.
    """
    edge = Fraction((abs(block) - 1) << n_bits)
    u, t, length = word & 0xFFFFFFFF, word >> 32, 32
    while True:
        unit = Fraction(1, 1 << length)
        if discrete:
            t_low = t_high = Fraction(word >> (64 - n_bits))
        else:
            t_low, t_high = t * unit * 2**n_bits, (t + 1) * unit * 2**n_bits
        g_low, g_high = (end * (2 * edge + end) / (2 * Fraction(sigma) ** 2) for end in (t_low, t_high))
        error = Fraction(1, 1 << (length + 64))
        if (u + 1) * unit <= _exp_minus(g_high, length) - error:
            return True
        if u * unit >= _exp_minus(g_low, length) + error:
            return False
        more = np.empty(2, dtype=np.uint64)
        rng.fill(more)
        u, t, length = (u << 64) + int(more[0]), (t << 64) + int(more[1]), length + 64


def _exp_minus(g: Fraction, length: int) -> Fraction:
    """Return exp(-g) to within 2^-(length + 64)."""
    with localcontext(Context(prec=length // 3 + 30)):
        return Fraction((-Decimal(g.numerator) / Decimal(g.denominator)).exp())
