"""Gaussian noise of any large scale: a table of blocks of 2^b steps, and exact rejection inside the block.

With b chosen so that sigma / 2^b is in [128, 256), the magnitude |X| is proposed as ``2^b m + t``: the block m has
probability proportional to ``exp(-(2^b m)^2 / (2 sigma^2))``, the largest density in it, and comes from a table; t is
uniform in the block. It is accepted with probability

    exp(-g),   g = t (2^(b+1) m + t) / (2 sigma^2) < 1/8,

which makes the density of what is accepted proportional to that of |X|; at most one proposal in 300 is rejected. For
the discrete Gaussian t is a b-bit integer, and a zero with a negative sign is rejected as well; for the rounded one t
is a real number, of which b + 1 bits tell how |X| rounds.

The decision compares a uniform number U with exp(-g) exactly, whatever number of bits it takes. The first 32 bits of U,
and for the rounded Gaussian of t, leave an interval, and the bounds

    1 - g + g^2/2 - g^3/6  <=  exp(-g)  <=  1 - g + g^2/2

settle all but at most 4 in 10^8 decisions in floating point. That is harmless: the bounds are off by less than 2^-49
for rounding and 2^-35 for the missing bits of t, U by 2^-32, and the margin kept is 2^-31. The rest is decided by
rational intervals, with 64 bits more of U and of t at a time until they part. Hence the only deviation from the exact
law is that of the table of blocks, below 2^-145, at most doubled by conditioning on acceptance. A rejected proposal's
place goes to the last accepted one, which depends on the pattern of acceptance only: the values stay independent.

References
----------
von Neumann (1951), Various techniques used in connection with random digits. Devroye (1986), Non-uniform random variate
generation, chapter II (rejection, squeeze). Karney (2016), Sampling exactly from the normal distribution, ACM TOMS
42(1), for deciding with as many digits as it takes.
"""

from __future__ import annotations

import math
from decimal import Context, Decimal, localcontext
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dp_publish.sampling.keystream import Keystream
from dp_publish.sampling.probability_tables import CHUNK, block_table, fill_symmetric

_MAX_TABLE_SIGMA = 256.0  # in blocks; at least half of it is what is used


def fill_large(out: NDArray[np.int64], sigma: float, rng: Keystream, *, discrete: bool) -> None:
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
